/* tern_generate: prompt in chunks, then a token at a time: choose, decode, watch for the end. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/speculate.h"

/* Text that might be the beginning of a stop string is held back here. */
struct hold {
    char *text;
    size_t n, capacity;
};

struct generation {
    struct tern_context *ctx;
    const struct tern_generate_params *p;
    struct tern_generate_result *result;
    struct tern_error *error;
    size_t capacity;
    tern_token *tokens; /* [capacity] prompt, then what was chosen: the sampler's history */
    size_t n_tokens;
    tern_decoder *decoder; /* NULL: a model without tokenizer */
    struct hold hold;
    bool stopped; /* by a stop string or a callback */
    struct speculate speculate;
};

EXPORT struct tern_generate_params tern_generate_defaults(void)
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

/* Room for the prompt and for everything that the context can hold beyond it. */
static enum tern_status take_tokens(struct generation *g, size_t n_prompt)
{
    size_t room = g->ctx->memory.n_ctx - tern_seq_length(g->ctx, g->p->seq);
    if (n_prompt > room)
        return too_long(g, n_prompt);
    g->capacity = room + 1;
    g->tokens = malloc((room + 1) * sizeof *g->tokens);
    return g->tokens ? TERN_OK : error_memory(g->error, "tokens", (room + 1) * sizeof *g->tokens);
}

static enum tern_status tokenize_prompt(struct generation *g)
{
    const struct tern_generate_params *p = g->p;
    size_t room = g->ctx->memory.n_ctx - tern_seq_length(g->ctx, p->seq);
    enum tern_status s = take_tokens(g, 0);
    if (!s)
        s = tern_tokenize(g->ctx->model, p->prompt, p->prompt_bytes, p->tokenize_flags, g->tokens,
                          room, &g->n_tokens, g->error);
    return !s && g->n_tokens > room ? too_long(g, g->n_tokens) : s;
}

static enum tern_status start_prompt(struct generation *g)
{
    const struct tern_generate_params *p = g->p;
    enum tern_status s;
    if (p->tokens) {
        if ((s = take_tokens(g, p->n_tokens)))
            return s;
        memcpy(g->tokens, p->tokens, p->n_tokens * sizeof *g->tokens);
        g->n_tokens = p->n_tokens;
    } else if ((s = tokenize_prompt(g))) {
        return s;
    }
    if (g->n_tokens == 0 && g->ctx->model->tokenizer &&
        tokenizer_bos(g->ctx->model->tokenizer) >= 0)
        g->tokens[g->n_tokens++] = tokenizer_bos(g->ctx->model->tokenizer);
    if (g->n_tokens == 0)
        return error_set(g->error, TERN_USAGE,
                         "the prompt has no tokens, and the model has none to begin a text with");
    g->result->n_prompt = g->n_tokens;
    return TERN_OK;
}

/* Adds tokens[i .. end) as one batch; the last token of the prompt always asks for its logits. */
static enum tern_status add_chunk(struct generation *g, size_t i, size_t end)
{
    enum tern_status s = TERN_OK;
    for (; i < end && !s; i++) {
        bool logits = g->p->logits_all || i + 1 == g->n_tokens;
        s = tern_batch_add(g->ctx, g->p->seq, g->tokens[i], logits ? TERN_ROW_LOGITS : 0, g->error);
    }
    return s;
}

static enum tern_status read_prompt(struct generation *g)
{
    size_t chunk = g->ctx->memory.n_batch;
    enum tern_status s = TERN_OK;
    if (g->p->logits_all && chunk > TERN_MAX_LOGITS)
        chunk = TERN_MAX_LOGITS;
    for (size_t i = 0, end; i < g->n_tokens && !s && !g->stopped; i = end) {
        end = g->n_tokens - i < chunk ? g->n_tokens : i + chunk;
        if ((s = add_chunk(g, i, end)))
            tern_batch_clear(g->ctx);
        else
            s = tern_forward(g->ctx);
        if (!s && g->p->on_prompt && g->p->on_prompt(g->p->arg, end, g->n_tokens))
            g->stopped = true, g->result->reason = TERN_STOP_CANCELLED;
    }
    return s;
}

/* ---- text --------------------------------------------------------------------------------- */

static void emit(struct generation *g, tern_token token, const char *text, size_t n)
{
    if (n && g->p->on_text && g->p->on_text(g->p->arg, token, text, n) && !g->stopped) {
        g->stopped = true;
        g->result->reason = TERN_STOP_CANCELLED;
    }
}

/* Offset of the first complete stop string in the held text, or n. */
static size_t find_stop(const struct generation *g)
{
    const struct hold *h = &g->hold;
    for (size_t at = 0; at < h->n; at++)
        for (size_t i = 0; i < g->p->n_stop; i++) {
            size_t n = strlen(g->p->stop[i]);
            if (n && n <= h->n - at && memcmp(h->text + at, g->p->stop[i], n) == 0)
                return at;
        }
    return h->n;
}

/* Offset from which the held text may still become a stop string, or n. */
static size_t find_partial_stop(const struct generation *g)
{
    const struct hold *h = &g->hold;
    for (size_t at = 0; at < h->n; at++)
        for (size_t i = 0; i < g->p->n_stop; i++)
            if (h->n - at < strlen(g->p->stop[i]) &&
                memcmp(h->text + at, g->p->stop[i], h->n - at) == 0)
                return at;
    return h->n;
}

static enum tern_status hold_append(struct generation *g, const char *text, size_t n)
{
    struct hold *h = &g->hold;
    if (n > h->capacity - h->n) {
        size_t capacity = 2 * (h->n + n) + 64;
        char *grown = realloc(h->text, capacity);
        if (!grown)
            return error_memory(g->error, "the text held back", capacity);
        h->text = grown, h->capacity = capacity;
    }
    memcpy(h->text + h->n, text, n);
    h->n += n;
    return TERN_OK;
}

/* Passes text on, but for a tail that may become a stop string; a complete one ends the text. */
static enum tern_status put_text(struct generation *g, tern_token token, const char *text, size_t n)
{
    struct hold *h = &g->hold;
    if (g->p->n_stop == 0) {
        emit(g, token, text, n);
        return TERN_OK;
    }
    enum tern_status s = hold_append(g, text, n);
    if (s || h->n == 0)
        return s;
    size_t stop = find_stop(g), free_bytes = stop < h->n ? stop : find_partial_stop(g);
    bool found = stop < h->n;
    emit(g, token, h->text, free_bytes);
    h->n = found ? 0 : h->n - free_bytes;
    memmove(h->text, h->text + free_bytes, h->n);
    if (found && !g->stopped)
        g->stopped = true, g->result->reason = TERN_STOP_STRING;
    return TERN_OK;
}

static enum tern_status put_token(struct generation *g, tern_token token)
{
    size_t n = 0;
    if (!g->decoder) {
        if (g->p->on_text && g->p->on_text(g->p->arg, token, "", 0))
            g->stopped = true, g->result->reason = TERN_STOP_CANCELLED;
        return TERN_OK;
    }
    const char *text = tern_decoder_push(g->decoder, token, &n);
    return put_text(g, token, text, n);
}

/* What the decoder and the stop strings still hold back when the text has ended. */
static enum tern_status flush_text(struct generation *g)
{
    size_t n = 0;
    enum tern_status s = TERN_OK;
    if (!g->decoder || (g->stopped && g->result->reason == TERN_STOP_STRING))
        return TERN_OK;
    const char *text = tern_decoder_finish(g->decoder, &n);
    if (n && !g->stopped)
        s = put_text(g, -1, text, n);
    if (!s && !(g->stopped && g->result->reason == TERN_STOP_STRING))
        emit(g, -1, g->hold.text, g->hold.n);
    return s;
}

/* The prompt passes through the decoder unseen, so that the continuation is spaced as its rest. */
static enum tern_status start_decoder(struct generation *g)
{
    size_t n;
    if (!g->ctx->model->tokenizer)
        return TERN_OK;
    enum tern_status s = tern_decoder_open(&g->decoder, g->ctx->model, 0, g->error);
    for (size_t i = 0; i < g->n_tokens && !s; i++)
        (void)tern_decoder_push(g->decoder, g->tokens[i], &n);
    return s;
}

/* ---- tokens ------------------------------------------------------------------------------- */

static bool is_last(struct generation *g, tern_token token)
{
    struct tern_generate_result *r = g->result;
    if (g->stopped)
        return true;
    if (!g->p->ignore_end && tern_token_is_end(g->ctx->model, token))
        r->reason = TERN_STOP_END;
    else if (g->p->n_predict >= 0 && r->n_generated >= (uint64_t)g->p->n_predict)
        r->reason = TERN_STOP_LENGTH;
    else if (tern_seq_length(g->ctx, g->p->seq) >= g->ctx->memory.n_ctx)
        r->reason = TERN_STOP_CONTEXT;
    else
        return false;
    return true;
}

/* The row whose logits choose the first token is the last of the prompt's last chunk. */
static enum tern_status generate_tokens(struct generation *g)
{
    enum tern_status s = TERN_OK;
    bool last = g->stopped || g->p->n_predict == 0;
    if (last && !g->stopped)
        g->result->reason = TERN_STOP_LENGTH;
    while (!last && !s) {
        const float *logits = tern_logits(g->ctx, tern_n_logits(g->ctx) - 1);
        tern_token token = tern_sample(g->ctx, g->p->sampler, logits, g->tokens, g->n_tokens,
                                       tern_seq_length(g->ctx, g->p->seq));
        g->tokens[g->n_tokens++] = token;
        g->result->n_generated++;
        if (g->p->ignore_end || !tern_token_is_end(g->ctx->model, token))
            s = put_token(g, token);
        last = is_last(g, token);
        if (s || last || (s = tern_numeric_status(g->ctx, g->error)))
            break;
        s = speculate_advance(&g->speculate, g->n_tokens, g->error);
    }
    return s;
}

static enum tern_status run(struct generation *g)
{
    uint64_t start = clock_ns();
    enum tern_status s = start_prompt(g);
    if (!s)
        s = speculate_open(&g->speculate, g->ctx, g->p, g->result, g->tokens, g->capacity,
                           g->error);
    if (!s && !(s = start_decoder(g)))
        s = read_prompt(g);
    uint64_t middle = clock_ns();
    if (!s)
        s = generate_tokens(g);
    if (s == TERN_CANCELLED) {
        g->result->reason = TERN_STOP_CANCELLED;
        s = TERN_OK;
    }
    if (!s && !(s = flush_text(g)))
        s = tern_numeric_status(g->ctx, g->error);
    g->result->prompt_seconds = (double)(middle - start) * 1e-9;
    g->result->generate_seconds = (double)(clock_ns() - middle) * 1e-9;
    return s;
}

EXPORT enum tern_status tern_generate(tern_context *ctx, const struct tern_generate_params *params,
                                      struct tern_generate_result *result, struct tern_error *e)
{
    struct tern_generate_result unused;
    struct tern_generate_params defaults = tern_generate_defaults();
    struct generation g = {.ctx = ctx, .p = params ? params : &defaults, .error = e};
    enum tern_status s;
    g.result = result ? result : &unused;
    *g.result = (struct tern_generate_result){0};
    if (g.p->seq >= ctx->memory.n_seqs)
        return error_set(e, TERN_USAGE, "sequence %u does not exist: the context has %u", g.p->seq,
                         ctx->memory.n_seqs);
    if (g.p->sampler && (s = sampler_check(g.p->sampler, e)))
        return s;
    tern_batch_clear(ctx);
    atomic_store(&ctx->forward.cancel, 0);
    s = run(&g);
    atomic_store(&ctx->forward.cancel, 0);
    speculate_close(&g.speculate);
    tern_decoder_close(g.decoder);
    free(g.hold.text);
    free(g.tokens);
    return s;
}
