/* tern_context: batches, sequences, logits and their fingerprint. */
#include "engine/context.h"

#include <stdlib.h>

#include "base/fpenv.h"
#include "engine/lead.h"
#include "engine/memory_plan.h"
#include "model/forward.h"
#include "model/mtp.h"
#include "model/recurrence.h"
#include "tern_lab.h"
#include "weights/load.h"
#include "text/decoder.h"

static enum tern_status open_sequences(struct tern_context *c, struct tern_error *e)
{
    size_t n = c->memory.n_seqs;
    c->pending = calloc(n, sizeof *c->pending);
    c->expected = calloc(n, sizeof *c->expected);
    c->n_again = calloc(n, sizeof *c->n_again);
    c->in_use = calloc(n, sizeof *c->in_use);
    c->paces = calloc(n, sizeof *c->paces);
    if (!c->pending || !c->expected || !c->n_again || !c->in_use || !c->paces)
        return error_memory(e, "the sequences", n * sizeof *c->paces);
    return TERN_OK;
}

/* Several sequences choose their tokens at the same time, and one that is late (tern_text_catch_up). */
static enum tern_status open_samplers(struct tern_context *c, struct tern_error *e)
{
    const struct tern_model *m = c->model;
    size_t n = c->memory.n_seqs > 1 ? (size_t)pool_threads(m->pool) + 1 : 1;
    size_t room = sampler_scratch(m->model->vocab);
    enum tern_status s = TERN_OK;
    c->samplers = calloc(n, sizeof *c->samplers);
    if (!c->samplers)
        return error_memory(e, "the samplers", n * sizeof *c->samplers);
    for (; c->n_samplers < n && !s; c->n_samplers++) {
        struct sampler *one = &c->samplers[c->n_samplers];
        one->vocab = m->model->vocab;
        one->log_sum_exp = m->kernels.log_sum_exp;
        one->scratch = calloc(room, sizeof *one->scratch);
        if (!one->scratch)
            return error_memory(e, "a sampler", room * sizeof *one->scratch);
        if (m->tokenizer)
            s = decoder_open(&one->decoder, m->tokenizer, true, e);
    }
    return s;
}

static void close_samplers(struct tern_context *c)
{
    for (size_t i = 0; i < c->n_samplers; i++) {
        free(c->samplers[i].scratch);
        decoder_close(c->samplers[i].decoder);
    }
    free(c->samplers);
}

static enum tern_status open_parts(struct tern_context *c, struct tern_model *m,
                                   struct tern_error *e)
{
    const struct tern_memory *plan = &c->memory;
    struct cache_request request = memory_plan_cache(plan);
    enum tern_status s;
    if ((s = memory_plan_check(m->model, plan, e)) ||
        (s = cache_open(&c->cache, m->model, &request, e)) ||
        (s = prefix_open(&c->prefixes, &c->cache, e)) ||
        (s = state_open(&c->forward, m->model, &m->kernels, m->pool, &c->cache, plan->n_batch,
                        plan->n_logits, e)))
        return s;
    if ((s = open_sequences(c, e)))
        return s;
    xxh64_init(&c->hash, 0);
    c->logit_position = calloc(plan->n_logits, sizeof *c->logit_position);
    if (!c->logit_position)
        return error_memory(e, "the rows of logits", plan->n_logits * sizeof *c->logit_position);
    if (m->model->rope_limit && !(c->again = calloc(plan->n_batch, sizeof *c->again)))
        return error_memory(e, "the rows of a batch", plan->n_batch * sizeof *c->again);
    return open_samplers(c, e);
}

enum tern_status tern_context_open_plan(tern_context **out, tern_model *m,
                                        const struct tern_memory *plan, struct tern_error *e)
{
    *out = NULL;
    enum tern_status s = lead_open(m, plan, e);
    if (s)
        return s;
    struct tern_context *c = calloc(1, sizeof *c);
    if (!c)
        return lead_opened(m, c, error_memory(e, "a context", sizeof *c), e);
    c->model = m;
    c->memory = *plan;
    s = open_parts(c, m, e);
    s = lead_opened(m, c, s, e);
    if (!s && plan->weights <= plan->available)
        load_ahead(m->model->weights);
    if (s)
        tern_context_close(c);
    else
        *out = c;
    return s;
}

enum tern_status tern_context_open(tern_context **out, tern_model *m,
                                   const struct tern_context_params *params, struct tern_error *e)
{
    struct tern_memory plan;
    enum tern_status s = tern_context_plan(m, params, &plan, e);
    *out = NULL;
    return s ? s : tern_context_open_plan(out, m, &plan, e);
}

void tern_context_close(tern_context *c)
{
    if (!c)
        return;
    lead_close(c);
    tern_profile_stop(c);
    observe_close(c->observer);
    state_close(&c->forward);
    prefix_close(&c->prefixes);
    cache_close(&c->cache);
    close_samplers(c);
    free(c->pending);
    free(c->expected);
    free(c->n_again);
    free(c->in_use);
    free(c->paces);
    free(c->again);
    free(c->logit_position);
    free(c);
}

void tern_context_memory(const tern_context *c, struct tern_memory *plan)
{
    *plan = c->memory;
}

tern_model *tern_context_model(const tern_context *c)
{
    return c->model;
}

/* ---- batch -------------------------------------------------------------------------------- */

/* What is wrong with adding this row; TERN_OK when nothing is. */
static enum tern_status check_row(const struct tern_context *c, uint32_t seq, tern_token token,
                                  unsigned flags, struct tern_error *e)
{
    const struct forward *f = &c->forward;
    if (seq >= c->memory.n_seqs)
        return error_set(e, TERN_USAGE, "sequence %u does not exist: the context has %u", seq,
                         c->memory.n_seqs);
    if (token < 0 || (size_t)token >= c->model->model->vocab)
        return error_set(e, TERN_USAGE, "token %d is outside the vocabulary of %zu", token,
                         c->model->model->vocab);
    if (f->n == c->memory.n_batch)
        return error_set(e, TERN_LIMIT, "the batch is full: %u rows", c->memory.n_batch);
    if (c->cache.length[seq] + c->pending[seq] >= c->memory.n_ctx)
        return error_set(e, TERN_LIMIT, "the context is full: %u positions", c->memory.n_ctx);
    if (c->pending[seq] && f->rows[f->n - 1].seq != seq)
        return error_set(e, TERN_USAGE, "the rows of sequence %u are not neighbours in the batch",
                         seq);
    if ((flags & TERN_ROW_LOGITS) && c->n_logit_rows == c->memory.n_logits)
        return error_set(e, TERN_LIMIT, "more than %u rows of a batch ask for logits",
                         c->memory.n_logits);
    if (flags & TERN_ROW_HIDDEN && c->model->model->n_mtp)
        return error_set(
            e, TERN_USAGE,
            "a model that was opened with the layer that guesses (MTP) gives no hidden "
            "states: open it without that");
    return TERN_OK;
}

enum tern_status context_add(struct tern_context *c, struct row row, struct tern_error *e)
{
    context_drop(c);
    enum tern_status s = check_row(c, row.seq, row.token, row.flags, e);
    if (s)
        return s;
    row.position = c->cache.length[row.seq] + c->pending[row.seq]++;
    c->cache.tokens[(size_t)row.seq * c->memory.n_ctx + row.position] = row.token;
    c->forward.rows[c->forward.n++] = row;
    if (row.flags & TERN_ROW_LOGITS)
        c->logit_position[c->n_logit_rows++] = row.position;
    return TERN_OK;
}

enum tern_status tern_batch_add(tern_context *c, uint32_t seq, tern_token token, unsigned flags,
                                struct tern_error *e)
{
    return context_add(c, (struct row){.seq = seq, .token = token, .flags = flags}, e);
}

void tern_batch_clear(tern_context *c)
{
    for (size_t i = 0; i < c->forward.n; i++)
        c->pending[c->forward.rows[i].seq] = 0;
    c->forward.n = 0;
    c->n_logit_rows = 0;
}

/* ---- RoPE sets with far frequencies --------------------------------------------------------- */

static bool wants_far(const struct tern_context *c, uint32_t seq, uint32_t length)
{
    size_t limit = c->model->model->rope_limit;
    return limit && (length > limit || c->expected[seq] > limit);
}

/* What was not finite in the last batch, if anything, is noted for its sequence. */
static void note_bad(struct tern_context *c, uint32_t seq, int bad)
{
    if (bad && !c->cache.bad[seq])
        c->cache.bad[seq] = bad;
    if (bad && !c->bad)
        c->bad = bad;
}

/* Makes the keys of a sequence those of the other frequencies: its tokens are evaluated again, all
 * of them, for a cancel that came meanwhile ends what follows. */
static void turn(struct tern_context *c, uint32_t seq, bool far)
{
    struct forward *f = &c->forward;
    struct row *rows = f->rows;
    const tern_token *tokens = tern_seq_tokens(c, seq);
    size_t n_rows = f->n, length = c->cache.length[seq];
    bool held = forward_hold(f);
    cache_keep(&c->cache, seq, 0);
    c->cache.far[seq] = far;
    f->rows = c->again;
    f->if_finite = false;
    for (size_t at = 0; at < length; at += f->n) {
        f->n = length - at < f->n_batch ? length - at : f->n_batch;
        for (size_t i = 0; i < f->n; i++)
            f->rows[i] =
                (struct row){.seq = seq, .position = (uint32_t)(at + i), .token = tokens[at + i]};
        (void)forward_run(f);
    }
    note_bad(c, seq, atomic_exchange(&f->bad, 0));
    c->n_again[seq] += length;
    f->rows = rows, f->n = n_rows;
    if (!held && forward_release(f))
        tern_cancel(c);
}

/* One set for all positions of a sequence, by its length after this batch. */
static void settle(struct tern_context *c)
{
    for (size_t i = 0; i < c->forward.n && !forward_stops(&c->forward); i++) {
        uint32_t seq = c->forward.rows[i].seq;
        bool far = wants_far(c, seq, c->cache.length[seq] + c->pending[seq]);
        if (far != c->cache.far[seq])
            turn(c, seq, far);
    }
}

void context_settle(struct tern_context *c, uint32_t seq)
{
    lead_settle(c, seq);
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    bool far = wants_far(c, seq, c->cache.length[seq]);
    if (far != c->cache.far[seq])
        turn(c, seq, far);
    recurrence_begin(&c->forward, seq, 0, false); /* rows that were taken back */
    mtp_catch_up(&c->forward, seq);
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
}

void tern_seq_expect(tern_context *c, uint32_t seq, uint32_t n)
{
    if (seq < c->memory.n_seqs)
        c->expected[seq] = n;
}

/* ---- evaluation ----------------------------------------------------------------------------- */

/* What is on trial is so from the first moment on, and what failed is not. */
static void mark_trials(struct tern_context *c, bool on)
{
    const struct forward *f = &c->forward;
    c->on_trial = false;
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].trial) {
            uint32_t *ahead = &c->cache.ahead[f->rows[i].seq];
            *ahead = on ? *ahead + 1 : 0;
            c->on_trial = on;
        }
}

enum tern_status context_run(struct tern_context *c, bool if_finite)
{
    lead_run(c, if_finite);
    mark_trials(c, true);
    context_see(c, 0, c->n_logit_rows); /* by who looks at the batch */
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    if (c->forward.profile)
        c->forward.profile->count(c->model->model, &c->cache, c->forward.rows, c->forward.n,
                                  c->forward.profile->cost);
    settle(c);
    c->forward.if_finite = if_finite;
    enum tern_status s = forward_run(&c->forward);
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
    int bad = atomic_exchange(&c->forward.bad, 0);
    for (size_t i = 0; i < c->forward.n && !s; i++)
        note_bad(c, c->forward.rows[i].seq, bad);
    if (s)
        mark_trials(c, false);
    tern_batch_clear(c);
    context_see(c, 0, 0);
    return s;
}

void context_see(struct tern_context *c, size_t first, size_t n)
{
    c->first_seen = (uint32_t)first;
    c->n_seen = (uint32_t)n;
}

enum tern_status tern_forward(tern_context *c)
{
    context_drop(c);
    if (!c->forward.n) {
        c->n_seen = 0, c->forward.n_hidden = 0;
        atomic_store(&c->forward.cancel, 0);
        return TERN_OK;
    }
    enum tern_status s = context_run(c, false);
    context_see(c, 0, c->forward.n_logits);
    if (!s && c->memory.fingerprint)
        tern_fingerprint_add(c);
    return s;
}

/* ---- rows on trial ------------------------------------------------------------------------ */

void context_show(struct tern_context *c, uint32_t seq, size_t row, bool asked)
{
    lead_show(c, seq);
    c->cache.ahead[seq]--;
    cache_commit(&c->cache, seq, 0);
    context_see(c, row, 1);
    if (c->memory.fingerprint && asked)
        tern_fingerprint_add(c);
}

size_t context_guess(struct tern_context *c, uint32_t seq, tern_token token, size_t max,
                     float least, tern_token *guess, size_t *made)
{
    lead_guess(c, seq, token, max);
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    size_t n = mtp_guess(&c->forward, seq, token, max, least, guess, made);
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
    return n;
}

void context_drop(struct tern_context *c)
{
    struct cache *cache = &c->cache;
    if (!c->on_trial)
        return;
    lead_drop(c);
    c->on_trial = false;
    for (size_t seq = 0; seq < cache->n_seqs; seq++) {
        uint32_t n = cache->ahead[seq];
        cache->ahead[seq] = 0;
        if (n)
            cache_keep(cache, seq, cache->length[seq] - n);
    }
}

void tern_cancel(tern_context *c)
{
    atomic_fetch_or(&c->forward.cancel, FORWARD_CANCEL);
}

const float *tern_logits(const tern_context *c, size_t i)
{
    size_t row = c->first_seen + i;
    return i < c->n_seen ? c->forward.logits + row * c->forward.vocab_stride : NULL;
}

size_t tern_n_logits(const tern_context *c)
{
    return c->n_seen;
}

const float *tern_hidden(const tern_context *c, size_t i)
{
    return i < c->forward.n_hidden ? c->forward.x + i * c->forward.dim_stride : NULL;
}

size_t tern_n_hidden(const tern_context *c)
{
    return c->forward.n_hidden;
}

static enum tern_status bad_status(const struct tern_context *c, int bad, struct tern_error *e)
{
    static const char *const steps[] = {"a key",   "a value", "the input of a matrix",
                                        "a logit", "a query", "the score of an expert"};
    if (!bad)
        return TERN_OK;
    int layer = (bad - 1) / N_BAD, step = (bad - 1) % N_BAD;
    if (step == BAD_LOGIT)
        return error_set(e, TERN_LIMIT,
                         "a logit is not a finite number: the weights or the file may be damaged "
                         "(--check tells)");
    if (step != BAD_KEY && step != BAD_VALUE)
        return error_set(e, TERN_LIMIT,
                         "layer %d: %s is not finite: the weights or the file may be damaged "
                         "(--check tells)",
                         layer, steps[step]);
    return error_set(e, TERN_LIMIT,
                     "layer %d: %s is not finite or exceeds the range of the %s cache%s", layer,
                     steps[step], tern_cache_type_name(c->cache.type),
                     c->cache.type == TERN_CACHE_F32 ? "" : ": try --cache-type f32");
}

enum tern_status tern_numeric_status(const tern_context *c, struct tern_error *e)
{
    return bad_status(c, c->bad, e);
}

enum tern_status context_seq_status(const struct tern_context *c, uint32_t seq,
                                    struct tern_error *e)
{
    return bad_status(c, c->cache.bad[seq], e);
}

uint64_t tern_fingerprint(const tern_context *c, uint64_t *rows)
{
    if (rows)
        *rows = c->altered ? 0 : c->hashed_rows;
    return c->altered ? 0 : xxh64_digest(&c->hash);
}

/* ---- sequences ---------------------------------------------------------------------------- */

uint32_t tern_seq_length(const tern_context *c, uint32_t seq)
{
    return seq < c->memory.n_seqs ? (uint32_t)cache_length(&c->cache, seq) : 0;
}

uint32_t context_keep(struct tern_context *c, uint32_t seq, uint32_t n)
{
    context_drop(c);
    tern_batch_clear(c);
    return seq < c->memory.n_seqs ? (uint32_t)cache_keep(&c->cache, seq, n) : 0;
}

uint32_t tern_seq_keep(tern_context *c, uint32_t seq, uint32_t n)
{
    lead_keep(c, seq, n);
    return context_keep(c, seq, n);
}

uint32_t tern_seq_fork(tern_context *c, uint32_t from, uint32_t to, uint32_t n)
{
    lead_fork(c, from, to, n);
    context_drop(c);
    tern_batch_clear(c);
    if (from >= c->memory.n_seqs || to >= c->memory.n_seqs)
        return 0;
    return (uint32_t)cache_fork(&c->cache, from, to, n);
}
