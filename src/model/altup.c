/* Several streams and a learned residual: see altup.h. */
#include "model/altup.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "model/linear.h"
#include "model/moments.h"
#include "model/ple.h"
#include "model/residual.h"

/* ---- a row ---- */

void altup_match(const struct forward *f, float *y, const float *x)
{
    size_t n = f->model->dim;
    float of_y = moments_square(y, n, 0);
    f->kernels->scale(y, sqrtf(moments_square(x, n, 0)) / sqrtf(of_y > 1e-5f ? of_y : 1e-5f), n);
}

/* m [TILE_ROWS], of which the streams are the first */
static void modalities(const struct forward *f, const struct layer *w, const float *x, float *room,
                       float *m)
{
    size_t dim = f->model->dim, n = f->model->n_streams;
    norm_row(f, room, x, &w->altup.norm, dim);
    linear(f, m, TILE_ROWS, &w->altup.router, 0, 1,
           &(struct activations){.n = 1, .k = dim, .stride = dim, .x = room});
    f->kernels->scale(m, 1 / (float)dim, n);
    f->kernels->softcap(m, 1, n); /* tanh */
}

/* sum_j w[j] m[j], from 0 */
static float mixed(const float *w, const float *m, size_t n)
{
    float sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += w[j] * m[j];
    return sum;
}

void altup_predict_by(const struct forward *f, const struct layer *w, const float *x, float *room,
                      float *p)
{
    size_t n = f->model->n_streams;
    _Alignas(64) float m[TILE_ROWS];
    modalities(f, w, x, room, m);
    for (size_t i = 0; i < n * n; i++)
        p[i] = mixed(w->altup.predict + i * n, m, n);
}

void altup_correct_by(const struct forward *f, const struct layer *w, const float *x, float *room,
                      float *c)
{
    size_t n = f->model->n_streams;
    _Alignas(64) float m[TILE_ROWS];
    modalities(f, w, x, room, m);
    for (size_t i = 0; i < n; i++)
        c[i] = mixed(w->altup.correct + i * n, m, n) + 1;
}

void altup_predict(const struct forward *f, const struct layer *w, float *x, float *streams,
                   size_t stride, float *room)
{
    enum { PART = 64 }; /* columns at a time */
    size_t dim = f->model->dim, n = f->model->n_streams;
    float c[MAX_STREAMS * MAX_STREAMS];
    _Alignas(64) float old[MAX_STREAMS][PART];
    altup_predict_by(f, w, x, room, c);
    memcpy(streams, x, dim * sizeof *x);
    for (size_t at = 0; at < dim; at += PART) {
        size_t part = min_size(PART, dim - at);
        for (size_t i = 0; i < n; i++)
            memcpy(old[i], streams + i * stride + at, part * sizeof *x);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                f->kernels->add_scaled(streams + i * stride + at, old[k], c[i * n + k], part);
    }
    memcpy(x, streams, dim * sizeof *x);
}

void altup_correct(const struct forward *f, const struct layer *w, float *x, float *streams,
                   size_t stride, float *first)
{
    size_t dim = f->model->dim, n = f->model->n_streams;
    float by[MAX_STREAMS];
    altup_correct_by(f, w, x, first, by);
    f->kernels->add_scaled(x, streams, -1, dim); /* now the change */
    for (size_t i = 0; i < n; i++)
        f->kernels->add_scaled(streams + i * stride, x, by[i], dim);
    memcpy(x, streams, dim * sizeof *x);
    for (size_t c = 0; c < dim; c++)
        first[c] = x[c] * w->altup.scale[c];
}

void altup_add(const struct forward *f, float *streams, size_t stride, const float *y)
{
    for (size_t i = 1; i < f->model->n_streams; i++)
        f->kernels->add(streams + i * stride, y, f->model->dim);
}

void laurel_add(const struct forward *f, float *x, const float *l)
{
    f->kernels->add(x, l, f->model->dim);
    f->kernels->scale(x, LAUREL_SCALE, f->model->dim);
}

/* ---- rows of a batch ---- */

struct altup_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in;
    const struct matrix *m;
    float *to; /* [n_batch, stride] */
    size_t stride;
    size_t stream;
};

static float *streams_of(const struct forward *f, size_t row)
{
    return f->streams + row * f->model->n_streams * f->dim_stride;
}

static void run_rows(struct forward *f, pool_fn fn, struct altup_job job)
{
    job.f = f;
    profile_run(f->profile, OP_NORM, f->pool, f->n, fn, &job);
}

static void predict_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    struct forward *f = job->f;
    for (size_t i = begin; i < end; i++)
        altup_predict(f, job->w, f->x + i * f->dim_stride, streams_of(f, i), f->dim_stride,
                      f->scratch[thread].in.x);
}

void step_predict(struct forward *f, const struct layer *w)
{
    if (!f->model->n_streams)
        return;
    state_watch(f, w->index, WATCH_STREAMS);
    run_rows(f, predict_items, (struct altup_job){.w = w});
}

static void correct_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        altup_correct(f, job->w, f->x + i * f->dim_stride, streams_of(f, i), f->dim_stride,
                      f->z + i * f->dim_stride);
}

void step_correct(struct forward *f, const struct layer *w)
{
    if (f->model->n_streams)
        run_rows(f, correct_items, (struct altup_job){.w = w});
}

/* ---- the residual ---- */

static void laurel_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    struct forward *f = job->f;
    float *h = f->scratch[thread].in.x;
    for (size_t i = begin; i < end; i++) {
        float *z = f->z + i * f->dim_stride;
        norm_row(f, z, z, &job->w->laurel_norm, f->model->dim);
        norm_row(f, h, f->x + i * f->dim_stride, &job->w->attn_norm, f->model->dim);
        f->kernels->add(z, h, f->model->dim);
    }
}

void step_laurel(struct forward *f, const struct layer *w)
{
    if (!w->laurel_left.data)
        return;
    struct input in = {.src = f->x, .stride = f->dim_stride, .n = f->n, .k = f->model->dim};
    in.norm = &w->attn_norm, in.layer = w->index;
    ple_pass(f, w, &in, &(struct ple_pair){&w->laurel_left, &w->laurel_right, f->z, false});
    run_rows(f, laurel_items, (struct altup_job){.w = w});
}

static void add_laurel_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    const struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        laurel_add(f, f->x + i * f->dim_stride, f->z + i * f->dim_stride);
}

void step_add_laurel(struct forward *f, const struct layer *w)
{
    if (w->laurel_left.data)
        run_rows(f, add_laurel_items, (struct altup_job){.w = w});
}

/* ---- the first streams, and the last ---- */

static void project_piece(void *arg, const struct piece *p)
{
    const struct altup_job *job = arg;
    linear(job->f, job->to + p->row * job->stride, job->stride, job->m, p->begin, p->end, &p->act);
}

static void project_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->m->rows, begin, end, project_piece, arg, thread);
}

/* to = W src, for all rows */
static void project(struct forward *f, const struct matrix *m, const float *src, size_t src_stride,
                    float *to, size_t stride, enum operation op)
{
    struct input in = {.src = src, .stride = src_stride, .n = f->n, .k = m->k};
    in.quantize = type_is_quantized(m->type), in.layer = f->model->n_layers;
    input_prepare(f, &in);
    profile_run(f->profile, op, f->pool, tile_items(m->rows, f->n), project_items,
                &(struct altup_job){.f = f, .in = &in, .m = m, .to = to, .stride = stride});
}

static void match_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    const struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        altup_match(f, streams_of(f, i) + job->stream * f->dim_stride, f->x + i * f->dim_stride);
}

void step_spread(struct forward *f)
{
    size_t n = f->model->n_streams, stride = n * f->dim_stride;
    for (size_t s = 1; s < n; s++) {
        struct matrix m = matrix_rows(&f->model->altup_in, s - 1, 0, f->model->dim);
        project(f, &m, f->x, f->dim_stride, f->streams + s * f->dim_stride, stride, OP_EMBED);
        run_rows(f, match_items, (struct altup_job){.stream = s});
    }
}

/* y, matched to x, joins the sum in z; the last one makes the mean, in x. */
static void merge_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct altup_job *job = arg;
    const struct forward *f = job->f;
    size_t dim = f->model->dim, n = f->model->n_streams;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = f->x + i * f->dim_stride, *y = f->y + i * f->dim_stride,
              *z = f->z + i * f->dim_stride;
        altup_match(f, y, x);
        if (job->stream == 1)
            memcpy(z, x, dim * sizeof *z);
        f->kernels->add(z, y, dim);
        if (job->stream + 1 < n)
            continue;
        f->kernels->scale(z, 1 / (float)n, dim);
        memcpy(x, z, dim * sizeof *x);
    }
}

void step_merge(struct forward *f)
{
    size_t n = f->model->n_streams;
    if (n)
        state_watch(f, f->model->n_layers, WATCH_STREAMS);
    for (size_t s = 1; s < n; s++) {
        struct matrix m = matrix_rows(&f->model->altup_out, s - 1, 0, f->model->dim);
        project(f, &m, f->streams + s * f->dim_stride, n * f->dim_stride, f->y, f->dim_stride,
                OP_LOGITS);
        run_rows(f, merge_items, (struct altup_job){.stream = s});
    }
}
