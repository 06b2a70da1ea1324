/* tern_prefix_*: what sequences evaluated is found again. */
#include "base/fpenv.h"
#include "engine/context.h"
#include "engine/lead.h"
#include "model/mtp.h"
#include "model/prefix_file.h"
#include "model/recurrence.h"
#include "model/split_store.h"

/* Which RoPE frequencies a text of n tokens has */
static bool is_far(const tern_context *c, uint64_t n)
{
    size_t limit = c->model->model->rope_limit;
    return limit && n > limit;
}

/* Of n tokens, those that may be found: not the last, and none beyond the context. */
static size_t most(const tern_context *c, size_t n)
{
    size_t before = n ? n - 1 : 0;
    return before < c->memory.n_ctx ? before : c->memory.n_ctx;
}

uint32_t tern_prefix_find(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n)
{
    lead_prefix_find(c, seq, tokens, n);
    uint32_t left = context_keep(c, seq, 0);
    if (seq >= c->memory.n_seqs || c->altered)
        return left;
    bool far = is_far(c, n) || is_far(c, c->expected[seq]);
    return (uint32_t)prefix_find(&c->prefixes, seq, tokens, most(c, n), far);
}

uint32_t tern_prefix_reach(const tern_context *c, const tern_token *tokens, size_t n)
{
    return c->altered
               ? 0
               : (uint32_t)prefix_reach(&c->prefixes, tokens, most(c, n), is_far(c, n));
}

/* Brings the state of recurrent layers, and the rows of the layer that guesses, to the end. */
static void catch_up(tern_context *c, uint32_t seq)
{
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    if (c->cache.recurrent.state_floats &&
        !recurrent_state(&c->cache.recurrent, seq, c->cache.length[seq]))
        recurrence_begin(&c->forward, seq, 0, false);
    mtp_catch_up(&c->forward, seq);
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
}

void tern_prefix_keep(tern_context *c, uint32_t seq)
{
    if (seq >= c->memory.n_seqs || !c->prefixes.n_nodes || c->altered)
        return;
    lead_prefix_keep(c, seq);
    context_drop(c);
    tern_batch_clear(c);
    if (!c->cache.length[seq] || context_seq_status(c, seq, NULL))
        return;
    catch_up(c, seq);
    prefix_keep(&c->prefixes, seq);
}

void tern_prefix_clear(tern_context *c)
{
    lead_prefix_clear(c);
    prefix_clear(&c->prefixes);
}

void tern_prefix_info(const tern_context *c, struct tern_prefix_info *info)
{
    const struct prefix_store *s = &c->prefixes;
    *info = (struct tern_prefix_info){.bytes = s->n_nodes ? prefix_bytes(s) : 0,
                                      .max_bytes = c->cache.share.bytes,
                                      .n_tokens = s->n_tokens,
                                      .n_pages = s->n_used,
                                      .hits = s->hits,
                                      .misses = s->misses,
                                      .evicted = s->evicted};
}

static enum tern_status check_store(const tern_context *c, struct tern_error *e)
{
    return c->prefixes.n_nodes
               ? TERN_OK
               : error_set(e, TERN_USAGE, "the context has no store of prefixes (prefix_bytes)");
}

enum tern_status tern_prefix_save(tern_context *c, int fd, struct tern_error *e)
{
    enum tern_status s = check_store(c, e);
    if (s || (s = lead_store(c, e)))
        return s;
    s = prefix_save(&c->prefixes, c->model->model, fd, e);
    store_end(c->model->model);
    return s;
}

enum tern_status tern_prefix_load(tern_context *c, int fd, struct tern_error *e)
{
    enum tern_status s = check_store(c, e);
    tern_prefix_clear(c);
    if (s || (s = lead_store(c, e)))
        return s;
    s = prefix_load(&c->prefixes, c->model->model, fd, e);
    store_end(c->model->model);
    if (s)
        lead_prefix_clear(c);
    return s;
}
