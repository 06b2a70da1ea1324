/* Perplexity: see perplexity.h. Every way is a list of sequences for score(). */
#include "app/cli/perplexity.h"

#include "app/cli/out.h"
#include "app/cli/parser.h"
#include "app/cli/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LN2 = 0.69314718055994530942;

/* -log p(tokens[i + 1] | tokens[0 .. i]) for i = first .. n - 2 is added to p. The cache begins
 * empty; rows before `first` are evaluated without logits. */
static enum tern_status score(const struct perplexity_job *job, struct perplexity *p,
                              const tern_token *tokens, size_t n, size_t first,
                              struct tern_error *e)
{
    const tern_model *model = tern_context_model(job->ctx);
    struct tern_memory plan;
    tern_context_memory(job->ctx, &plan);
    tern_seq_keep(job->ctx, 0, 0);
    tern_seq_expect(job->ctx, 0, (uint32_t)n - 1);
    for (size_t i = 0; i + 1 < n;) {
        size_t scored = 0;
        for (size_t rows = 0; i + 1 < n && rows < plan.n_batch && scored < plan.n_logits; rows++) {
            unsigned flags = i >= first ? TERN_ROW_LOGITS : 0;
            enum tern_status s = tern_batch_add(job->ctx, 0, tokens[i], flags, e);
            if (s)
                return s;
            scored += i++ >= first;
        }
        enum tern_status s = tern_forward(job->ctx);
        if (s)
            return s;
        for (size_t k = 0; k < scored; k++) {
            tern_token token = tokens[i - scored + k + 1];
            double x = -tern_logprob(model, tern_logits(job->ctx, k), token);
            if (job->on_token)
                job->on_token(job->arg, token, tern_logits(job->ctx, k));
            p->tokens++;
            p->nll += x;
            p->nll2 += x * x;
        }
    }
    return tern_numeric_status(job->ctx, e);
}

/* Bytes of text that tokens stand for. */
static enum tern_status text_bytes(const tern_model *model, const tern_token *tokens, size_t n,
                                   uint64_t *bytes, struct tern_error *e)
{
    tern_decoder *d = NULL;
    enum tern_status s = tern_decoder_open(&d, model, 0, e);
    if (s)
        return s;
    size_t got;
    for (size_t i = 0; i < n; i++) {
        tern_decoder_push(d, tokens[i], &got);
        *bytes += got;
    }
    tern_decoder_finish(d, &got);
    *bytes += got;
    tern_decoder_close(d);
    return TERN_OK;
}

static enum tern_status too_short(struct tern_error *e, size_t n, size_t want)
{
    snprintf(e->text, sizeof e->text,
             "the text has %zu tokens, but perplexity needs %zu; use a longer text%s", n, want,
             want > 2 ? " or a smaller -c" : "");
    return e->code = TERN_LIMIT;
}

static void report(const struct perplexity_job *job, const struct perplexity *p)
{
    if (job->progress)
        job->progress(p);
}

/* ---- windows ------------------------------------------------------------------------------ */

static enum tern_status slide(const struct perplexity_job *job, struct perplexity *p,
                              const tern_token *tokens, size_t n, tern_token *sequence,
                              struct tern_error *e)
{
    tern_token bos = tokens_prefix(tern_context_model(job->ctx));
    size_t lead = bos >= 0, room = job->window - lead;
    size_t scored = 1 - lead; /* tokens that need no score any more */
    if (lead)
        sequence[0] = bos;
    for (size_t start = 0; scored < n; start += job->stride) {
        size_t count = n - start < room ? n - start : room;
        memcpy(sequence + lead, tokens + start, count * sizeof *tokens);
        enum tern_status s = score(job, p, sequence, lead + count, lead + (scored - start) - 1, e);
        if (s)
            return s;
        p->done = scored = start + count;
        report(job, p);
    }
    return TERN_OK;
}

enum tern_status perplexity_windows(const struct perplexity_job *job, struct perplexity *p,
                                    struct tern_error *e)
{
    tern_token *tokens, *sequence;
    size_t n;
    const tern_model *model = tern_context_model(job->ctx);
    enum tern_status s = tokens_take(model, job->text, job->n, 0, 0, &tokens, &n, e);
    memset(p, 0, sizeof *p);
    if (s)
        return s;
    p->total = n;
    p->bytes = job->n;
    if (n && tokens_prefix(model) < 0) { /* then the first token is not scored */
        uint64_t first = 0;
        s = text_bytes(model, tokens, 1, &first, e);
        p->bytes -= first < p->bytes ? first : p->bytes;
    }
    sequence = malloc(job->window * sizeof *sequence);
    if (!sequence)
        s = parser_no_memory_for(e, "a window");
    else if (!s && n < 2)
        s = too_short(e, n, 2);
    else if (!s)
        s = slide(job, p, tokens, n, sequence, e);
    free(sequence);
    free(tokens);
    return s;
}

/* ---- lines -------------------------------------------------------------------------------- */

static enum tern_status score_line(const struct perplexity_job *job, struct perplexity *p,
                                   const char *line, size_t n, struct tern_error *e)
{
    const tern_model *model = tern_context_model(job->ctx);
    tern_token *tokens;
    size_t n_tokens;
    enum tern_status s = tokens_take(model, line, n, TERN_ADD_SPECIAL, 0, &tokens, &n_tokens, e);
    if (s)
        return s;
    uint64_t bytes = n;
    if (n_tokens > job->window) {
        n_tokens = job->window;
        bytes = 0;
        s = text_bytes(model, tokens, n_tokens, &bytes, e);
    }
    p->bytes += bytes;
    if (!s)
        s = score(job, p, tokens, n_tokens, 0, e);
    free(tokens);
    return s;
}

enum tern_status perplexity_lines(const struct perplexity_job *job, struct perplexity *p,
                                  struct tern_error *e)
{
    memset(p, 0, sizeof *p);
    p->total = job->n;
    for (size_t at = 0; at < job->n;) {
        const char *line = job->text + at, *end = memchr(line, '\n', job->n - at);
        size_t n = end ? (size_t)(end - line) : job->n - at;
        enum tern_status s = n ? score_line(job, p, line, n, e) : TERN_OK;
        if (s)
            return s;
        at += n + 1;
        p->done = at < job->n ? at : job->n;
        report(job, p);
    }
    return p->tokens ? TERN_OK : too_short(e, 0, 2);
}

/* ---- llama.cpp's procedure ---------------------------------------------------------------- */

static enum tern_status pieces(const struct perplexity_job *job, struct perplexity *p,
                               tern_token *tokens, size_t n, struct tern_error *e)
{
    const tern_model *model = tern_context_model(job->ctx);
    tern_token bos = tokens_prefix(model);
    size_t window = job->window, first = window / 2;
    p->total = n;
    for (size_t at = 0; at + window <= n; at += window) {
        if (bos >= 0)
            tokens[at] = bos;
        enum tern_status s =
            text_bytes(model, tokens + at + first + 1, window - first - 1, &p->bytes, e);
        if (!s)
            s = score(job, p, tokens + at, window, first, e);
        if (s)
            return s;
        p->done = at + window;
        report(job, p);
    }
    return TERN_OK;
}

enum tern_status perplexity_llamacpp(const struct perplexity_job *job, struct perplexity *p,
                                     struct tern_error *e)
{
    tern_token *tokens;
    size_t n;
    const tern_model *model = tern_context_model(job->ctx);
    size_t bytes = job->n - (job->n && job->text[job->n - 1] == '\n'); /* it drops this one */
    enum tern_status s = tokens_take(model, job->text, bytes, TERN_ADD_SPECIAL, 0, &tokens, &n, e);
    memset(p, 0, sizeof *p);
    if (s)
        return s;
    s = n < 2 * (size_t)job->window ? too_short(e, n, 2 * (size_t)job->window)
                                    : pieces(job, p, tokens, n, e);
    free(tokens);
    return s;
}

/* ---- result ------------------------------------------------------------------------------- */

/* The standard error is that of the mean of independent values, carried through exp. */
void perplexity_print(const struct perplexity *p, bool whole)
{
    double n = (double)p->tokens, mean = p->nll / n;
    double variance = p->nll2 / n - mean * mean, value = exp(mean);
    double error = n > 1 && variance > 0 ? value * sqrt(variance / (n - 1)) : 0;
    out_print("tokens      %llu\n", (unsigned long long)p->tokens);
    out_print("nll         %.4f\n", p->nll);
    out_print("perplexity  %.4f +/- %.4f\n", value, error);
    out_print("bits/token  %.4f\n", mean / LN2);
    if (whole)
        out_print("bits/byte   %.4f\n", p->nll / LN2 / (double)p->bytes);
    else
        out_print("stopped     before the end of the text\n");
}
