/* tern_text: begun with its prompt, and closed. */
#include "engine/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/api_constraint.h"
#include "engine/text_tokens.h"

/* ---- prompt ------------------------------------------------------------------------------- */

static enum tern_status too_long(const struct tern_text *t, size_t n, struct tern_error *e)
{
    const struct tern_context *c = t->ctx;
    return error_set(e, TERN_LIMIT,
                     "the prompt has %zu tokens, the context holds %u%s: ask for a larger context "
                     "(the model was made for %zu) or shorten the prompt",
                     n, c->memory.n_ctx, tern_seq_length(c, t->p.seq) ? ", part of them used" : "",
                     c->model->model->max_seq);
}

static enum tern_status copy_tokens(struct tern_text *t, size_t room, struct tern_error *e)
{
    const struct tern_generate_params *p = &t->p;
    size_t vocab = t->ctx->model->model->vocab;
    if (p->n_tokens > room)
        return TERN_OK;
    for (size_t i = 0; i < p->n_tokens; i++) {
        if (p->tokens[i] < 0 || (size_t)p->tokens[i] >= vocab)
            return error_set(e, TERN_USAGE, "token %d is outside the vocabulary of %zu",
                             p->tokens[i], vocab);
        t->tokens[t->begin + i] = p->tokens[i];
    }
    return TERN_OK;
}

static enum tern_status take_prompt(struct tern_text *t, size_t room, size_t *n,
                                    struct tern_error *e)
{
    const struct tern_generate_params *p = &t->p;
    *n = p->n_tokens;
    return p->tokens ? copy_tokens(t, room, e)
                     : tern_tokenize(t->ctx->model, p->prompt, p->prompt_bytes, p->tokenize_flags,
                                     t->tokens + t->begin, room, n, e);
}

/* The whole text, with room for all that the context can hold and a token more. */
static enum tern_status open_tokens(struct tern_text *t, struct tern_error *e)
{
    const struct tokenizer *tokenizer = t->ctx->model->tokenizer;
    t->begin = tern_seq_length(t->ctx, t->p.seq);
    size_t n = 0, room = t->ctx->memory.n_ctx - t->begin;
    t->tokens = malloc((t->begin + room + 1) * sizeof *t->tokens);
    if (!t->tokens)
        return error_memory(e, "tokens", (t->begin + room + 1) * sizeof *t->tokens);
    memcpy(t->tokens, tern_seq_tokens(t->ctx, t->p.seq), t->begin * sizeof *t->tokens);
    enum tern_status s = take_prompt(t, room, &n, e);
    if (s)
        return s;
    if (n == 0 && tokenizer && tokenizer_bos(tokenizer) >= 0)
        t->tokens[t->begin + n++] = tokenizer_bos(tokenizer);
    if (n == 0)
        return error_set(e, TERN_USAGE,
                         "the prompt has no tokens, and the model has none to begin a text with");
    if (n > room)
        return too_long(t, n, e);
    t->n_tokens = t->begin + n;
    return TERN_OK;
}

/* ---- parts -------------------------------------------------------------------------------- */

static enum tern_status open_state(struct tern_text *t, struct tern_error *e)
{
    const tern_constraint *c = t->p.constraint;
    t->state = t->sampler.constraint;
    if (!t->state && !c)
        return TERN_OK;
    if (t->state && c)
        return error_set(e, TERN_USAGE,
                         "a text has one constraint, not two: the sampler's "
                         "state and that of tern_generate");
    if (t->p.ignore_end)
        return error_set(e, TERN_USAGE,
                         "a text under a constraint cannot go on after its end token");
    enum tern_status s = c ? constraint_state_new(&t->state, c, e) : TERN_OK;
    if (s || api_constraint_fits(t->state, t->ctx->model))
        return s;
    return error_set(e, TERN_USAGE, "the constraint was made for the tokens of another model");
}

/* The sequence belongs to one text, until that closes. */
static enum tern_status use_seq(struct tern_context *c, uint32_t seq, struct tern_error *e)
{
    if (seq >= c->memory.n_seqs)
        return error_set(e, TERN_USAGE, "sequence %u does not exist: the context has %u", seq,
                         c->memory.n_seqs);
    if (c->in_use[seq])
        return error_set(e, TERN_USAGE, "sequence %u belongs to another text that is open", seq);
    c->in_use[seq] = true;
    return TERN_OK;
}

static enum tern_status open_parts(struct tern_text *t, struct tern_error *e)
{
    enum tern_status s;
    t->sampler = t->p.sampler ? *t->p.sampler : t->ctx->model->sampler;
    t->mu = 2 * t->sampler.mirostat_tau;
    if (!t->sampler.mu)
        t->sampler.mu = &t->mu;
    if ((s = sampler_check(&t->sampler, t->ctx->model->model->vocab, e)) ||
        (s = open_state(t, e)) || (s = open_tokens(t, e)))
        return s;
    if (t->p.draft && t->p.draft != t->ctx) { /* speculate_open refuses its own */
        if ((s = use_seq(t->p.draft, t->p.draft_seq, e)))
            return s;
        t->draft = t->p.draft;
    }
    t->guesses = t->p.lookup || t->p.draft || t->p.mtp;
    if (t->guesses && (s = speculate_open(&t->speculate, t->ctx, &t->p, t->state, &t->result,
                                          t->tokens, t->n_tokens, e)))
        return s;
    t->out = (struct text_out){.p = &t->p, .result = &t->result, .error = e};
    if (t->ctx->model->tokenizer)
        s = text_out_open(&t->out, t->ctx->model, t->tokens, t->n_tokens);
    t->out.error = &t->error;
    return s;
}

enum tern_status text_give(struct tern_text *t, const tern_token *given, size_t n,
                           struct tern_error *e)
{
    enum tern_status s = t->guesses ? TERN_OK
                                    : speculate_open(&t->speculate, t->ctx, &t->p, t->state,
                                                     &t->result, t->tokens, t->n_tokens, e);
    t->guesses = !s;
    if (!s)
        speculate_give(&t->speculate, given, n, t->n_tokens);
    return s;
}

enum tern_status tern_text_open(tern_text **out, tern_context *ctx,
                                const struct tern_generate_params *params, struct tern_error *e)
{
    uint64_t begin = clock_ns();
    struct tern_text *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return error_memory(e, "a text", sizeof *t);
    t->p = params ? *params : tern_generate_defaults();
    t->result.last = -1;
    xxh64_init(&t->hash, 0);
    enum tern_status s = use_seq(ctx, t->p.seq, e);
    if (s) {
        free(t);
        return s;
    }
    t->ctx = ctx;
    t->n_again = ctx->n_again[t->p.seq];
    if ((s = open_parts(t, e)) || (s = text_look_first(t, e))) {
        tern_text_close(t);
        return s;
    }
    t->result.prompt_seconds = (double)(clock_ns() - begin) * 1e-9;
    *out = t;
    return TERN_OK;
}

void tern_text_close(tern_text *t)
{
    if (!t)
        return;
    text_drop_ahead(t);
    speculate_close(&t->speculate);
    text_out_close(&t->out);
    if (t->state != t->sampler.constraint)
        tern_constraint_state_close(t->state);
    else if (t->state)
        constraint_state_take_time(t->state, NULL);
    tern_seq_expect(t->ctx, t->p.seq, 0);
    t->ctx->in_use[t->p.seq] = false;
    if (t->draft)
        t->draft->in_use[t->p.draft_seq] = false;
    free(t->tokens);
    free(t);
}

/* ---- what it is --------------------------------------------------------------------------- */

int tern_text_is_over(const tern_text *t)
{
    return t->phase == TEXT_OVER;
}

size_t tern_text_unread(const tern_text *t)
{
    return t->phase == TEXT_READS ? text_pending(t) : 0;
}

enum tern_status tern_text_result(const tern_text *t, struct tern_generate_result *r,
                                  struct tern_error *e)
{
    if (r) {
        *r = t->result;
        r->n_again = (size_t)(t->ctx->n_again[t->p.seq] - t->n_again);
        if (t->ctx->altered)
            r->n_fingerprinted = 0;
        r->fingerprint = r->n_fingerprinted ? xxh64_digest(&t->hash) : 0;
    }
    if (e && t->status)
        *e = t->error;
    return t->status;
}
