/* Text and tokens of tern.h: the tokenizer, and the sampler, behind the handles. */
#include <math.h>
#include <stdlib.h>

#include "base/fpenv.h"
#include "engine/api_constraint.h"
#include "engine/context.h"
#include "sample/candidates.h"
#include "text/decoder.h"

struct tern_decoder {
    struct decoder *decoder;
};

static enum tern_status no_tokenizer(struct tern_error *e)
{
    return error_set(
        e, TERN_USAGE,
        "the model file has no tokenizer: convert it with one, or use token ids (--prompt-ids)");
}

enum tern_status tern_tokenize(const tern_model *m, const char *text, size_t n, unsigned flags,
                               tern_token *tokens, size_t max, size_t *n_tokens,
                               struct tern_error *e)
{
    if (!m->tokenizer)
        return no_tokenizer(e);
    struct fpenv saved = fpenv_enter();
    enum tern_status s = tokenizer_encode(m->tokenizer, text, n, flags, tokens, max, n_tokens, e);
    fpenv_leave(saved);
    return s;
}

enum tern_status tern_decoder_open(tern_decoder **out, const tern_model *m, int show_special,
                                   struct tern_error *e)
{
    *out = NULL;
    if (!m->tokenizer)
        return no_tokenizer(e);
    struct tern_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return error_memory(e, "a decoder", sizeof *d);
    enum tern_status s = decoder_open(&d->decoder, m->tokenizer, show_special != 0, e);
    if (s)
        free(d);
    else
        *out = d;
    if (!s && m->chat)
        decoder_show(d->decoder, chat_marks(m->chat));
    return s;
}

void tern_decoder_close(tern_decoder *d)
{
    if (d)
        decoder_close(d->decoder);
    free(d);
}

const char *tern_decoder_push(tern_decoder *d, tern_token token, size_t *n)
{
    return decoder_push(d->decoder, token, n);
}

const char *tern_decoder_finish(tern_decoder *d, size_t *n)
{
    return decoder_finish(d->decoder, n);
}

const char *tern_decoder_bytes(tern_decoder *d, tern_token token, size_t *n)
{
    return decoder_bytes(d->decoder, token, n);
}

const char *tern_token_text(const tern_model *m, tern_token token, size_t *n)
{
    *n = 0;
    return m->tokenizer ? tokenizer_text(m->tokenizer, token, n) : "";
}

int tern_token_is_special(const tern_model *m, tern_token token)
{
    return m->tokenizer && tokenizer_is_special(m->tokenizer, token);
}

int tern_token_is_end(const tern_model *m, tern_token token)
{
    for (size_t i = 0; i < m->n_end_tokens; i++)
        if (m->end_tokens[i] == token)
            return 1;
    return 0;
}

struct tern_sampler_params tern_sampler_defaults(const tern_model *m)
{
    return m ? m->sampler : sampler_defaults();
}

enum tern_status tern_sampler_order(struct tern_sampler_params *params, const char *text,
                                    struct tern_error *e)
{
    return sampler_order(params, text, e);
}

tern_token tern_sample(tern_context *ctx, const struct tern_sampler_params *params,
                       const float *logits, const tern_token *history, size_t n_history,
                       uint64_t index)
{
    const uint32_t *mask = NULL;
    if (!params)
        params = &ctx->model->sampler;
    if (params->constraint && (!api_constraint_fits(params->constraint, ctx->model) ||
                               tern_constraint_mask(params->constraint, &mask, NULL)))
        return -1;
    struct fpenv saved = fpenv_enter();
    tern_token token =
        sampler_pick(&ctx->samplers[0], params, logits, history, n_history, index, mask);
    fpenv_leave(saved);
    return token;
}

/* Not inlined, so that no compiler moves the subtraction out of the exact state. */
static __attribute__((noinline)) double logprob(const tern_model *m, const float *logits,
                                                tern_token token)
{
    return (double)logits[token] - (double)m->kernels.log_sum_exp(logits, m->model->vocab);
}

double tern_logprob(const tern_model *m, const float *logits, tern_token token)
{
    if ((uint64_t)token >= m->model->vocab)
        return (double)-INFINITY;
    struct fpenv saved = fpenv_enter();
    double p = logprob(m, logits, token);
    fpenv_leave(saved);
    return p;
}

size_t tern_top(tern_context *ctx, const float *logits, struct tern_choice *top, size_t max)
{
    struct fpenv saved = fpenv_enter();
    struct candidates c;
    candidates_init(&c, &ctx->samplers[0], logits);
    if (max < c.n)
        c.n = max;
    double sum = (double)ctx->model->kernels.log_sum_exp(logits, ctx->model->model->vocab);
    for (size_t i = 0; i < c.n; i++) {
        struct sampler_item item = candidates_at(&c, i);
        top[i] = (struct tern_choice){item.id, (double)item.value - sum};
    }
    fpenv_leave(saved);
    return c.n;
}
