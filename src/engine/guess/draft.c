/* Draft: see draft.h. */
#include "engine/guess/draft.h"

#include <string.h>

#include "base/clock.h"

enum { MEMORY = 32 };

static const float CHANCE = 0.7f; /* before anything is known */

/* ---- tokens ------------------------------------------------------------------------------- */

/* A token for a sentence: at most 24 bytes of its text. */
static int shown(size_t n)
{
    return (int)(n < 24 ? n : 24);
}

/* Stored tokens must be the same; beyond them a vocabulary may have rows without text (padding). */
enum tern_status tern_draft_check(const struct tern_model *model, const struct tern_model *draft,
                                  struct tern_error *e)
{
    size_t vocab[2] = {model->model->vocab, draft->model->vocab}, n[2];
    if (!model->tokenizer != !draft->tokenizer)
        return error_set(e, TERN_USAGE,
                         "the %s model has no tokenizer: the tokens of a draft must "
                         "be those of the model",
                         model->tokenizer ? "draft" : "large");
    if (!model->tokenizer && vocab[0] != vocab[1])
        return error_set(e, TERN_USAGE,
                         "the draft has %zu tokens, the model %zu: they must be the "
                         "same",
                         vocab[1], vocab[0]);
    size_t stored[2] = {model->tokenizer ? tokenizer_n_tokens(model->tokenizer) : 0,
                        model->tokenizer ? tokenizer_n_tokens(draft->tokenizer) : 0};
    for (size_t i = 0; i < stored[0] || i < stored[1]; i++) {
        tern_token id = (tern_token)i;
        const char *a = i < stored[0] ? tern_token_text(model, id, &n[0]) : (n[0] = 0, "");
        const char *b = i < stored[1] ? tern_token_text(draft, id, &n[1]) : (n[1] = 0, "");
        if (n[0] == n[1] && !memcmp(a, b, n[0]) &&
            tern_token_is_special(model, id) == tern_token_is_special(draft, id))
            continue;
        return error_set(e, TERN_USAGE,
                         "token %zu is '%.*s' in the draft and '%.*s' in the model (of %zu and %zu "
                         "tokens): a draft needs the model's own tokenizer",
                         i, shown(n[1]), b, shown(n[0]), a, stored[1], stored[0]);
    }
    return TERN_OK;
}

/* ---- guesses ------------------------------------------------------------------------------ */

void draft_init(struct draft *d, struct tern_context *ctx, uint32_t seq, const tern_token *text,
                size_t n)
{
    *d = (struct draft){.ctx = ctx, .seq = seq, .chance = CHANCE};
    if (ctx)
        d->fed = tern_seq_reuse(ctx, seq, text, n);
}

size_t draft_lag(struct draft *d, const tern_token *text, size_t n)
{
    size_t held = d->n_guess ? d->n_guess - 1 : 0;
    for (size_t i = 0; i < held && d->fed + 1 < n && d->guess[i] == text[d->fed]; i++)
        d->fed++;
    d->n_guess = 0;
    if (d->fed >= n)
        d->fed = n - 1; /* the last one again, for its logits */
    d->fed = tern_seq_keep(d->ctx, d->seq, (uint32_t)d->fed);
    return n - d->fed;
}

/* Evaluates text[d->fed .. n), the last with logits. */
static bool take_in(struct draft *d, const tern_token *text, size_t n, const atomic_int *cancel)
{
    uint64_t begin = clock_ns();
    size_t lag = n - d->fed;
    while (d->fed < n) {
        size_t end = n - d->fed < d->ctx->memory.n_batch ? n : d->fed + d->ctx->memory.n_batch;
        for (size_t i = d->fed; i < end; i++) {
            if (tern_batch_add(d->ctx, d->seq, text[i], i + 1 == n ? TERN_ROW_LOGITS : 0, NULL)) {
                tern_batch_clear(d->ctx);
                return false;
            }
        }
        if (atomic_load(cancel) || tern_forward(d->ctx))
            return false;
        d->fed = end;
    }
    if (lag > 2 || d->fill <= 0)
        d->fill = (double)(clock_ns() - begin) * 1e-9 / (double)lag;
    return true;
}

void draft_guess(struct draft *d, const tern_token *text, size_t n, size_t max,
                 const atomic_int *cancel)
{
    static const struct tern_sampler_params greedy = {.temperature = 0};
    (void)draft_lag(d, text, n);
    size_t room = d->ctx->memory.n_ctx;
    if (n > room || !take_in(d, text, n, cancel))
        return;
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < max && n + i <= room; i++) {
        if (i && (tern_batch_add(d->ctx, d->seq, d->guess[i - 1], TERN_ROW_LOGITS, NULL) ||
                  tern_forward(d->ctx)))
            break;
        d->guess[d->n_guess++] = tern_sample(d->ctx, &greedy, tern_logits(d->ctx, 0), NULL, 0, 0);
    }
    if (d->n_guess > 1) {
        double each = (double)(clock_ns() - begin) * 1e-9 / (double)(d->n_guess - 1);
        d->each += d->each > 0 ? (each - d->each) / 8 : each;
    }
}

void draft_learn(struct draft *d, size_t right)
{
    for (size_t i = 0; i <= right && i < d->n_guess; i++) {
        if (d->seen < MEMORY)
            d->seen++;
        d->chance += ((float)(i < right) - d->chance) / (float)(d->seen + 1);
    }
}

void draft_pass(struct draft *d)
{
    d->chance += (CHANCE - d->chance) / 512;
}

void draft_finish(struct draft *d, const tern_token *text, size_t n)
{
    if (!d->ctx)
        return;
    (void)draft_lag(d, text, n + 1);
}
