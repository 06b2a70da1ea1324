/* Texts in pieces: see text_pieces.h. */
#include "app/look/text_pieces.h"

#include "app/cli/signals.h"

enum { WINDOW = 1024 };

uint32_t text_pieces_window(const struct subject *s, size_t n)
{
    const struct option_value *ctx = &s->o->value[LOOK_CTX_SIZE];
    size_t most = s->info.max_seq < WINDOW ? s->info.max_seq : WINDOW;
    if (ctx->given)
        most = (size_t)ctx->integer;
    return (uint32_t)(n < most ? n : most);
}

/* The next rows of a sequence; row i is scored with next[i], as far as there is one. */
static enum tern_status run_rows(struct subject *s, const tern_token *rows, size_t n,
                                 const tern_token *next, size_t n_next, double *sum,
                                 struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++)
        status = tern_batch_add(s->ctx, 0, rows[i], sum && i < n_next ? TERN_ROW_LOGITS : 0, e);
    if (!status && (status = tern_forward(s->ctx)))
        e->code = status;
    for (size_t i = 0; !status && sum && i < n && i < n_next; i++)
        *sum -= tern_logprob(s->model, tern_logits(s->ctx, i), next[i]);
    return status ? status : tern_numeric_status(s->ctx, e);
}

enum tern_status text_pieces_run(struct subject *s, const tern_token *tokens, size_t n,
                                 uint32_t window, double *nll, size_t *scored, struct tern_error *e)
{
    struct tern_memory plan;
    bool has_bos = s->info.bos >= 0 && tokens[0] == s->info.bos && window > 1;
    enum tern_status status = TERN_OK;
    double sum = 0;
    size_t count = 0, step;
    tern_context_memory(s->ctx, &plan);
    step = nll ? plan.n_logits : plan.n_batch;
    for (size_t at = has_bos, end; !status; at = end) {
        end = n - at < window - has_bos ? n : at + window - has_bos;
        (void)tern_seq_keep(s->ctx, 0, 0);
        if (has_bos)
            status = run_rows(s, tokens, 1, tokens + at, end - at, nll ? &sum : NULL, e);
        for (size_t i = at, some; !status && i < end; i += some) {
            some = end - i < step ? end - i : step;
            status =
                run_rows(s, tokens + i, some, tokens + i + 1, end - i - 1, nll ? &sum : NULL, e);
        }
        count += end - at - (end > at && !has_bos);
        if (end == n)
            break;
    }
    if (nll)
        *nll = count ? sum / (double)count : 0, *scored = count;
    return status;
}

enum tern_status text_pieces_watch(struct subject *s, const tern_token *tokens, size_t n,
                                   uint32_t window, tern_observe_fn fn, void *arg,
                                   struct tern_error *e)
{
    struct subject own = *s;
    own.ctx = NULL, own.edit = NULL;
    enum tern_status status = subject_context(&own, window, 1, e);
    if (!status)
        status = tern_observe(own.ctx, fn, arg, e);
    if (!status)
        status = text_pieces_run(&own, tokens, n, window, NULL, NULL, e);
    signals_watch(s->ctx);
    tern_context_close(own.ctx);
    return status;
}
