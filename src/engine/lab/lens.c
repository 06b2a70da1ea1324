/* The logit lens: see lens.h. The last step runs on a copy of the context's state, so that logits,
 * profile and numeric status stay as they are; only scratch is shared. */
#include "engine/lab/lens.h"

#include <string.h>

#include "base/fpenv.h"
#include "base/sizes.h"
#include "engine/meet.h"
#include "model/head.h"
#include "tern_lab.h"

/* Rows x [f->n_logits, stride] through the head; logits [f->n_logits, vocab] without gaps */
static void run_rows(struct forward *f, const float *x, size_t stride, float *logits)
{
    for (size_t i = 0; i < f->n_logits; i++)
        memcpy(f->y + i * f->dim_stride, x + i * stride, f->model->dim * sizeof *x);
    head_run(f, &f->model->final_norm);
    for (size_t i = 0; i < f->n_logits; i++)
        memcpy(logits + i * f->model->vocab, f->logits + i * f->vocab_stride,
               f->model->vocab * sizeof *logits);
}

enum tern_status lens_run(struct tern_context *c, const float *x, size_t n_rows, size_t stride,
                          float *logits, bool capped, struct tern_error *e)
{
    struct forward f = c->forward;
    struct model m = *f.model;
    struct arena arena = {0};
    size_t most = min_size(n_rows, f.most_logits);
    arena_take(&arena, most * f.vocab_stride, sizeof *f.logits);
    enum tern_status s = arena_open(&arena, "the rows of logits", e);
    if (s)
        return s;
    m.logit_cap = capped ? m.logit_cap : 0;
    f.model = &m, f.profile = NULL;
    f.logits = arena_take(&arena, most * f.vocab_stride, sizeof *f.logits);
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    for (size_t i = 0; i < n_rows; i += most) {
        f.n_logits = min_size(most, n_rows - i);
        run_rows(&f, x + i * stride, stride, logits + i * m.vocab);
    }
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
    arena_close(&arena);
    return TERN_OK;
}

enum tern_status tern_lens(tern_context *c, const float *x, size_t n_rows, size_t stride,
                           float *logits, struct tern_error *e)
{
    enum tern_status s = meet_alone(c->model, "the logit lens", e);
    if (s)
        return s;
    if (n_rows > 1 && stride < c->model->model->dim)
        return error_set(e, TERN_USAGE, "rows of %zu floats cannot be %zu floats apart",
                         c->model->model->dim, stride);
    return lens_run(c, x, n_rows, stride, logits, true, e);
}
