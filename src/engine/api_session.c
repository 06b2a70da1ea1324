/* Sequences that outlive a context, or a text that was changed. */
#include "base/fpenv.h"
#include "engine/context.h"
#include "engine/lead.h"
#include "model/recurrence.h"
#include "model/session.h"
#include "model/split_store.h"

const tern_token *tern_seq_tokens(const tern_context *c, uint32_t seq)
{
    return seq < c->memory.n_seqs ? c->cache.tokens + (size_t)seq * c->memory.n_ctx : NULL;
}

uint32_t tern_seq_reuse(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n)
{
    const tern_token *held = tern_seq_tokens(c, seq);
    uint32_t i = 0, length = tern_seq_length(c, seq);
    while (i < length && i + 1 < n && held[i] == tokens[i])
        i++;
    return tern_seq_keep(c, seq, i);
}

static enum tern_status check_file(tern_context *c, uint32_t seq, const char *path,
                                   struct tern_error *e)
{
    context_drop(c);
    tern_batch_clear(c);
    if (!path)
        return error_no_path(e);
    return seq < c->memory.n_seqs
               ? TERN_OK
               : error_set(e, TERN_USAGE, "sequence %u does not exist: the context has %u", seq,
                           c->memory.n_seqs);
}

static enum tern_status save(tern_context *c, uint32_t seq, const char *path, struct tern_error *e)
{
    enum tern_status s = lead_store(c, e);
    if (s)
        return s;
    s = session_save(&c->cache, seq, c->model->model, path, e);
    store_end(c->model->model);
    return s;
}

enum tern_status tern_session_save(tern_context *c, uint32_t seq, const char *path,
                                   struct tern_error *e)
{
    enum tern_status s = check_file(c, seq, path, e);
    if (!s && c->altered)
        s = error_set(e, TERN_USAGE,
                      "this context was altered (by an editor or another attention), so its "
                      "sequences are not saved");
    if (!s)
        context_settle(c, seq);
    if (!s && !(s = tern_numeric_status(c, e)))
        s = save(c, seq, path, e);
    return s;
}

enum tern_status tern_session_load(tern_context *c, uint32_t seq, const char *path,
                                   struct tern_error *e)
{
    enum tern_status s = check_file(c, seq, path, e);
    if (s || (s = lead_store(c, e)))
        return s;
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    s = session_load(&c->cache, seq, c->model->model, c->model->pool, path, e);
    store_end(c->model->model);
    if (!s) {
        lead_resume(c, seq);
        recurrence_resume(&c->forward, seq);
    }
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
    size_t limit = c->model->model->rope_limit;
    if (!s)
        c->cache.far[seq] = limit && c->cache.length[seq] > limit;
    return s;
}
