/* Logits: see head.h. */
#include "model/head.h"

#include <float.h>
#include <string.h>

#include "base/sizes.h"
#include "model/linear.h"
#include "model/residual.h"
#include "model/split.h"

struct head_job {
    struct forward *f;
    const struct input *in;
};

static void logits_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct head_job *job = arg;
    struct forward *f = job->f;
    const struct matrix *head = &f->model->head;
    struct activations act = input_view(f, job->in, thread);
    size_t t0 = tile_first(begin, act.n), t1 = tile_end(end, head->rows, act.n);
    size_t r0 = t0 * TILE_ROWS, r1 = min_size(t1 * TILE_ROWS, head->rows);
    linear(f, f->logits, f->vocab_stride, head, t0, t1, &act);
    for (size_t i = 0; i < act.n; i++) {
        float *y = f->logits + i * f->vocab_stride + r0;
        if (f->model->logit_scale != 1)
            f->kernels->scale(y, f->model->logit_scale, r1 - r0);
        if (!f->kernels->in_range(y, r1 - r0, FLT_MAX)) /* a cap would hide it */
            mark_bad(f, f->model->n_layers, BAD_LOGIT);
        if (f->model->logit_cap > 0)
            f->kernels->softcap(y, f->model->logit_cap, r1 - r0);
    }
}

/* Moves the rows that want logits to the front of y, where nothing else needs to be by now. */
static void gather_logit_rows(struct forward *f)
{
    f->n_logits = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].flags & TERN_ROW_LOGITS)
            memcpy(f->y + f->n_logits++ * f->dim_stride, f->x + i * f->dim_stride,
                   f->model->dim * sizeof *f->x);
}

void head_run(struct forward *f, const struct norm *norm)
{
    struct input in = {.src = f->y,
                       .stride = f->dim_stride,
                       .n = f->n_logits,
                       .k = f->model->dim,
                       .norm = norm,
                       .layer = f->model->n_layers,
                       .quantize = type_is_quantized(f->model->head.type),
                       .floats = !type_is_quantized(f->model->head.type)};
    if (!f->n_logits)
        return;
    input_prepare(f, &in);
    run_own(f, OP_LOGITS, own_tiles(own_rows(f->model, f->model->vocab), in.n), logits_items,
            &(struct head_job){.f = f, .in = &in});
}

void step_logits(struct forward *f)
{
    state_watch(f, f->model->n_layers, WATCH_ATTENTION);
    gather_logit_rows(f);
    head_run(f, &f->model->final_norm);
    split_finish(f);
    state_watch(f, f->model->n_layers, WATCH_LOGITS);
}

void step_hidden(struct forward *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].flags & TERN_ROW_HIDDEN)
            norm_row(f, f->x + f->n_hidden++ * f->dim_stride, f->x + i * f->dim_stride,
                     &f->model->final_norm, f->model->dim);
}
