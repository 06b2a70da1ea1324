/* Embeddings: see run_embedding.h. A mean is summed in binary64 in the order of the rows, so that batches do
 * not change its bits. */
#include "app/serve/model/run_embedding.h"

#include <math.h>
#include <stdlib.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/run_text.h"

bool run_embedding_begin(struct scheduler *s, struct job *j)
{
    j->sum = calloc(s->server->info.dim, sizeof *j->sum);
    if (!j->sum)
        run_text_fail(j, 503, "no memory for an embedding");
    return j->sum;
}

static bool asks(const struct job *j, size_t i)
{
    bool is_last = i + 1 == j->request.n_prompt;
    return j->request.kind == JOB_EMBED_MEAN || (j->request.kind == JOB_EMBED_LAST && is_last);
}

size_t run_embedding_add(struct scheduler *s, struct job *j, size_t max)
{
    bool looks = j->request.kind == JOB_ATTENTION; /* at its last row: run_attention.h */
    size_t from = tern_seq_length(s->ctx, j->seq), n = 0;
    for (; n < max && from + n + looks < j->request.n_prompt; n++)
        if (tern_batch_add(s->ctx, j->seq, j->request.prompt[from + n],
                           asks(j, from + n) ? TERN_ROW_HIDDEN : 0, &j->error))
            break;
    return n;
}

/* The rows of a job that were evaluated, whose first hidden state is *row. */
static void take_rows(struct scheduler *s, struct job *j, size_t n, size_t *row)
{
    size_t length = tern_seq_length(s->ctx, j->seq);
    for (size_t i = length - n; i < length; i++) {
        const float *h = asks(j, i) ? tern_hidden(s->ctx, (*row)++) : NULL;
        for (size_t k = 0; h && k < s->server->info.dim; k++)
            j->sum[k] += (double)h[k];
    }
}

void run_embedding_take(struct scheduler *s, struct job *const *jobs, const size_t *taken, size_t n)
{
    size_t row = 0;
    for (size_t i = 0; i < n; i++)
        take_rows(s, jobs[i], taken[i], &row);
}

static void normalize(struct job *j, size_t dim)
{
    double squares = 0;
    for (size_t k = 0; k < dim; k++)
        squares += j->sum[k] * j->sum[k];
    double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (size_t k = 0; k < dim; k++)
        j->embedding[k] = (float)(j->sum[k] * scale);
}

void run_embedding_end(struct scheduler *s, struct job *j)
{
    size_t dim = s->server->info.dim;
    double now = stopwatch_now();
    j->last = (struct job_event){.kind = JOB_DONE,
                                 .n_prompt = j->request.n_prompt,
                                 .text = "",
                                 .dim = dim,
                                 .queue_seconds = j->started - j->submitted,
                                 .prompt_seconds = now - j->started};
    if (j->error.code) {
        run_text_fail(j, j->error.code == TERN_USAGE ? 400 : 500, "%s", j->error.text);
        return;
    }
    j->embedding = malloc(dim * sizeof *j->embedding);
    if (!j->embedding) {
        run_text_fail(j, 503, "no memory for an embedding");
        return;
    }
    normalize(j, dim);
    j->last.embedding = j->embedding;
    for (size_t k = 0; k < dim; k++)
        if (!isfinite(j->embedding[k])) {
            run_text_fail(j, 500, "the embedding is not finite: the weights may be damaged");
            return;
        }
}
