/* tern_generate: prompt in chunks, then a token at a time: choose, decode, watch for the end. Tokens
 * that a constraint leaves no choice of follow the chosen one in its batch. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/api_constraint.h"
#include "engine/guess/speculate.h"
#include "engine/text_out.h"
#include "sample/constraint/forced.h"

struct generation {
    struct tern_context *ctx;
    const struct tern_generate_params *p;
    struct tern_generate_result *result;
    struct tern_error *error;
    tern_token *tokens; /* [n_ctx + 1] what the sequence holds, the prompt, what was chosen: the
                         * sampler's history */
    size_t n_tokens;
    struct text_out text;
    tern_constraint_state *state; /* NULL: no constraint; owned where the caller has none */
    struct tern_sampler_params sampler;
    float mu;     /* the sampler's, unless the caller has one */
    bool guesses; /* a lookup, a draft or mtp is on; without them speculate is not opened */
    struct speculate speculate;
};

struct tern_generate_params tern_generate_defaults(void)
{
    return (struct tern_generate_params){.tokenize_flags = TERN_ADD_SPECIAL, .n_predict = -1};
}

/* ---- prompt ------------------------------------------------------------------------------- */

static enum tern_status too_long(const struct generation *g, size_t n)
{
    const struct tern_context *c = g->ctx;
    return error_set(g->error, TERN_LIMIT,
                     "the prompt has %zu tokens, the context holds %u%s: ask for a larger context "
                     "(the model was made for %zu) or shorten the prompt",
                     n, c->memory.n_ctx, tern_seq_length(c, g->p->seq) ? ", part of them used" : "",
                     c->model->model->max_seq);
}

static enum tern_status take_prompt(struct generation *g, size_t start, size_t room, size_t *n)
{
    const struct tern_generate_params *p = g->p;
    if (!p->tokens)
        return tern_tokenize(g->ctx->model, p->prompt, p->prompt_bytes, p->tokenize_flags,
                             g->tokens + start, room, n, g->error);
    *n = p->n_tokens;
    if (*n && *n <= room)
        memcpy(g->tokens + start, p->tokens, *n * sizeof *g->tokens);
    return TERN_OK;
}

/* The whole text, with room for all that the context can hold and a token more. */
static enum tern_status start_prompt(struct generation *g)
{
    size_t n = 0, start = tern_seq_length(g->ctx, g->p->seq), room = g->ctx->memory.n_ctx - start;
    const struct tokenizer *t = g->ctx->model->tokenizer;
    g->tokens = malloc((start + room + 1) * sizeof *g->tokens);
    if (!g->tokens)
        return error_memory(g->error, "tokens", (start + room + 1) * sizeof *g->tokens);
    memcpy(g->tokens, tern_seq_tokens(g->ctx, g->p->seq), start * sizeof *g->tokens);
    enum tern_status s = take_prompt(g, start, room, &n);
    if (s)
        return s;
    if (n == 0 && t && tokenizer_bos(t) >= 0)
        g->tokens[start + n++] = tokenizer_bos(t);
    if (n == 0)
        return error_set(g->error, TERN_USAGE,
                         "the prompt has no tokens, and the model has none to begin a text with");
    if (n > room)
        return too_long(g, n);
    g->n_tokens = start + n;
    g->result->n_prompt = n;
    return TERN_OK;
}

/* Adds tokens[i .. end) to the batch; the last token of the text always asks for its logits. */
static enum tern_status add_chunk(struct generation *g, size_t i, size_t end, bool all)
{
    enum tern_status s = TERN_OK;
    for (; i < end && !s; i++) {
        bool logits = all || i + 1 == g->n_tokens;
        s = tern_batch_add(g->ctx, g->p->seq, g->tokens[i], logits ? TERN_ROW_LOGITS : 0, g->error);
    }
    return s;
}

/* Evaluates tokens[from .. to), with the logits of all or of the text's last. */
static enum tern_status read_tokens(struct generation *g, size_t from, size_t to, bool all,
                                    bool report)
{
    size_t chunk = g->ctx->memory.n_batch;
    bool stop = false;
    enum tern_status s = TERN_OK;
    if (all && chunk > TERN_MAX_LOGITS)
        chunk = TERN_MAX_LOGITS;
    tern_seq_expect(g->ctx, g->p->seq, (uint32_t)to);
    for (size_t i = from, end; i < to && !s && !stop; i = end) {
        end = to - i < chunk ? to : i + chunk;
        end -= chunk > 2 && end + 1 == to; /* a lone last row would be no end of a prompt */
        if ((s = add_chunk(g, i, end, all)))
            tern_batch_clear(g->ctx);
        else
            s = tern_forward(g->ctx);
        stop = !s && report && g->p->on_prompt(g->p->arg, end - from, to - from);
    }
    if (stop)
        text_out_stop(&g->text, TERN_STOP_CANCELLED);
    tern_seq_expect(g->ctx, g->p->seq, 0);
    return s;
}

/* The context is full, but the last token: the first ones and the newest half of the others become
 * the text, evaluated as a new one. A cancel meanwhile ends the text behind it, for a part of it
 * would be another text. */
static enum tern_status shift_context(struct generation *g)
{
    if (forward_is_cancelled(&g->ctx->forward))
        return TERN_CANCELLED;
    uint64_t begin = clock_ns();
    size_t most = g->ctx->memory.n_ctx / 2, keep = g->p->keep < most ? g->p->keep : most;
    size_t newest = (g->n_tokens - keep) / 2;
    memmove(g->tokens + keep, g->tokens + g->n_tokens - newest, newest * sizeof *g->tokens);
    g->n_tokens = keep + newest;
    size_t from = tern_seq_reuse(g->ctx, g->p->seq, g->tokens, g->n_tokens);
    if (g->guesses)
        speculate_restart(&g->speculate, g->n_tokens);
    *g->sampler.mu = 2 * g->sampler.mirostat_tau;
    forward_hold(&g->ctx->forward);
    enum tern_status s = read_tokens(g, from, g->n_tokens, false, false);
    if (forward_release(&g->ctx->forward) && !s) {
        g->result->last = -1;
        s = TERN_CANCELLED;
    }
    g->result->n_shifts++;
    g->result->n_shifted += g->n_tokens - from;
    g->result->shift_seconds += (double)(clock_ns() - begin) * 1e-9;
    return s;
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Tokens of the text that are not evaluated yet. */
static size_t n_pending(const struct generation *g)
{
    return g->n_tokens - tern_seq_length(g->ctx, g->p->seq);
}

/* A run of tokens within a text, whose end is no prompt's: up to `to`. */
static enum tern_status read_run(struct generation *g, size_t to)
{
    size_t from = tern_seq_length(g->ctx, g->p->seq);
    g->ctx->forward.in_text = true;
    enum tern_status s = read_tokens(g, from, to, false, false);
    g->ctx->forward.in_text = false;
    g->result->n_steps += !s;
    return s;
}

static enum tern_status step(struct generation *g)
{
    enum tern_status s =
        tern_batch_add(g->ctx, g->p->seq, g->tokens[g->n_tokens - 1], TERN_ROW_LOGITS, g->error);
    if (!s)
        s = tern_forward(g->ctx);
    g->result->n_steps += !s;
    return s;
}

static bool is_full(const struct generation *g)
{
    return g->n_tokens > g->ctx->memory.n_ctx;
}

/* Makes the logits behind the last token the last ones of the context. */
static enum tern_status advance(struct generation *g)
{
    enum tern_status s = tern_numeric_status(g->ctx, g->error);
    if (!s && is_full(g))
        return shift_context(g);
    if (!s && g->guesses)
        s = speculate_follow(&g->speculate, g->n_tokens);
    size_t n = n_pending(g);
    if (s || !n)
        return s;
    if (n > 1)
        return read_run(g, g->n_tokens);
    return g->guesses ? speculate_step(&g->speculate, g->n_tokens, g->error) : step(g);
}

/* When a text ends, the sequence lacks its last token and no other. */
static enum tern_status catch_up(struct generation *g)
{
    if (!g->result->n_generated || n_pending(g) < 2)
        return TERN_OK;
    forward_hold(&g->ctx->forward);
    enum tern_status s = read_run(g, g->n_tokens - 1);
    forward_release(&g->ctx->forward);
    return s;
}

/* ---- tokens ------------------------------------------------------------------------------- */

static bool ends(const struct generation *g, tern_token token)
{
    return !g->p->ignore_end && tern_token_is_end(g->ctx->model, token);
}

static bool is_last(struct generation *g)
{
    struct tern_generate_result *r = g->result;
    bool end = ends(g, r->last);
    if (g->text.stopped)
        return true;
    if (g->state && (end || tern_constraint_is_over(g->state)))
        r->reason = TERN_STOP_COMPLETE;
    else if (end)
        r->reason = TERN_STOP_END;
    else if (g->p->n_predict >= 0 && r->n_generated >= (uint64_t)g->p->n_predict)
        r->reason = TERN_STOP_LENGTH;
    else if (!g->p->shift && is_full(g))
        r->reason = TERN_STOP_CONTEXT;
    else
        return false;
    return true;
}

/* The token is the next one of the text. logits: NULL when it was forced. *last: the text ends. */
static enum tern_status take_token(struct generation *g, tern_token token, const float *logits,
                                   bool *last)
{
    struct tern_generate_result *r = g->result;
    enum tern_status s = TERN_OK;
    if (g->state && (s = tern_constraint_accept(g->state, token, g->error)))
        return s == TERN_USAGE ? TERN_INTERNAL : s; /* the mask has it */
    g->tokens[g->n_tokens++] = r->last = token;
    r->n_generated++;
    r->n_forced += !logits;
    if (g->p->on_token && g->p->on_token(g->p->arg, token, logits))
        text_out_stop(&g->text, TERN_STOP_CANCELLED);
    if (!ends(g, token))
        s = text_out_put(&g->text, token);
    *last = is_last(g);
    return s;
}

static enum tern_status choose(struct generation *g, bool *last)
{
    const float *logits = tern_logits(g->ctx, tern_n_logits(g->ctx) - 1);
    const uint32_t *mask = NULL;
    enum tern_status s = g->state ? tern_constraint_mask(g->state, &mask, g->error) : TERN_OK;
    if (s)
        return s;
    tern_token token = context_sample(g->ctx, &g->sampler, logits, g->tokens, g->n_tokens,
                                      tern_seq_length(g->ctx, g->p->seq), mask);
    if (token < 0) {
        g->result->reason = TERN_STOP_DEAD_END;
        return error_set(g->error, TERN_INTERNAL,
                         "the constraint allows no token after %zu of them, and the text is not "
                         "finished: a dead end, which is a bug in tern",
                         g->result->n_generated);
    }
    return take_token(g, token, logits, last);
}

/* Takes the tokens that must come next. They are evaluated together, by advance. */
static enum tern_status force(struct generation *g, bool *last)
{
    tern_token tokens[FORCED_BYTES + 1];
    size_t n = 0;
    enum tern_status s = TERN_OK;
    if (g->state && !g->p->no_force && !*last)
        s = tern_constraint_forced(g->state, tokens, FORCED_BYTES + 1, &n, g->error);
    for (size_t i = 0; i < n && !s && !*last; i++) {
        if (is_full(g))
            s = shift_context(g);
        if (!s)
            s = take_token(g, tokens[i], NULL, last);
    }
    return s;
}

/* The row whose logits choose the first token is the last of the prompt's last chunk. */
static enum tern_status generate_tokens(struct generation *g)
{
    bool last = true, over = g->state && tern_constraint_is_over(g->state);
    if (!g->text.stopped && (over || g->p->n_predict == 0))
        g->result->reason = over ? TERN_STOP_COMPLETE : TERN_STOP_LENGTH;
    else
        last = g->text.stopped;
    enum tern_status s = force(g, &last);
    while (!last && !s) {
        if (n_pending(g))
            s = advance(g);
        if (!s)
            s = choose(g, &last);
        if (!s)
            s = force(g, &last);
    }
    return s;
}

static enum tern_status run(struct generation *g)
{
    uint64_t start = clock_ns();
    enum tern_status s = start_prompt(g);
    if (!s && g->guesses)
        s = speculate_open(&g->speculate, g->ctx, g->p, g->state, g->result, g->tokens, g->n_tokens,
                           g->error);
    if (!s && g->ctx->model->tokenizer)
        s = text_out_open(&g->text, g->ctx->model, g->tokens, g->n_tokens);
    if (!s)
        s = read_tokens(g, g->n_tokens - g->result->n_prompt, g->n_tokens, g->p->logits_all,
                        g->p->on_prompt != NULL);
    if (g->n_tokens)
        g->result->n_prompt -= g->n_tokens - tern_seq_length(g->ctx, g->p->seq); /* not evaluated */
    uint64_t middle = clock_ns();
    if (!s)
        s = generate_tokens(g);
    if (s == TERN_CANCELLED) {
        g->result->reason = TERN_STOP_CANCELLED;
        s = TERN_OK;
    }
    if (!s)
        s = catch_up(g);
    if (!s && !(s = text_out_finish(&g->text)))
        s = tern_numeric_status(g->ctx, g->error);
    g->result->prompt_seconds = (double)(middle - start) * 1e-9;
    g->result->generate_seconds = (double)(clock_ns() - middle) * 1e-9;
    return s;
}

static enum tern_status open_state(struct generation *g)
{
    const tern_constraint *c = g->p->constraint;
    g->state = g->sampler.constraint;
    if (!g->state && !c)
        return TERN_OK;
    if (g->state && c)
        return error_set(g->error, TERN_USAGE,
                         "a text has one constraint, not two: the sampler's "
                         "state and that of tern_generate");
    if (g->p->ignore_end)
        return error_set(g->error, TERN_USAGE,
                         "a text under a constraint cannot go on after its end token");
    enum tern_status s = c ? tern_constraint_state_open(&g->state, c, g->error) : TERN_OK;
    if (s || api_constraint_fits(g->state, g->ctx->model))
        return s;
    if (c)
        tern_constraint_state_close(g->state);
    return error_set(g->error, TERN_USAGE,
                     "the constraint was made for the tokens of another model");
}

enum tern_status tern_generate(tern_context *ctx, const struct tern_generate_params *params,
                               struct tern_generate_result *result, struct tern_error *e)
{
    struct tern_generate_result unused;
    struct tern_generate_params defaults = tern_generate_defaults();
    struct generation g = {.ctx = ctx, .p = params ? params : &defaults, .error = e};
    enum tern_status s;
    g.result = result ? result : &unused;
    *g.result = (struct tern_generate_result){.last = -1};
    g.text = (struct text_out){.p = g.p, .result = g.result, .error = e};
    if (g.p->seq >= ctx->memory.n_seqs)
        return error_set(e, TERN_USAGE, "sequence %u does not exist: the context has %u", g.p->seq,
                         ctx->memory.n_seqs);
    g.sampler = g.p->sampler ? *g.p->sampler : ctx->model->sampler;
    g.mu = 2 * g.sampler.mirostat_tau;
    g.guesses = g.p->lookup || g.p->draft || g.p->mtp;
    if (!g.sampler.mu)
        g.sampler.mu = &g.mu;
    if ((s = sampler_check(&g.sampler, ctx->model->model->vocab, e)))
        return s;
    if ((s = open_state(&g)))
        return s;
    tern_batch_clear(ctx);
    atomic_store(&ctx->forward.cancel, 0);
    uint64_t before = ctx->n_again;
    s = run(&g);
    g.result->n_again = (size_t)(ctx->n_again - before);
    atomic_store(&ctx->forward.cancel, 0);
    speculate_close(&g.speculate);
    text_out_close(&g.text);
    if (g.state != g.sampler.constraint)
        tern_constraint_state_close(g.state);
    free(g.tokens);
    return s;
}
