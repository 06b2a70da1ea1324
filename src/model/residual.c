/* The residual stream: see residual.h. */
#include "model/residual.h"

void norm_row(const struct forward *f, float *y, const float *x, const struct norm *norm, size_t n)
{
    if (f->model->layer_norm)
        f->kernels->layernorm(y, x, norm->weight, norm->bias, n, f->model->norm_eps);
    else
        f->kernels->rmsnorm(y, x, norm->weight, n, f->model->norm_eps);
}

void residual_add(const struct forward *f, size_t i, float *y, size_t c0, size_t c1)
{
    if (f->model->residual_scale != 1)
        f->kernels->scale(y + c0, f->model->residual_scale, c1 - c0);
    f->kernels->add(f->x + i * f->dim_stride + c0, y + c0, c1 - c0);
}

struct post_norm_job {
    struct forward *f;
    const struct norm *norm;
};

/* Rows of y, normed, join the stream. */
static void post_norm_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct post_norm_job *job = arg;
    struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = f->y + i * f->dim_stride;
        norm_row(f, y, y, job->norm, f->model->dim);
        residual_add(f, i, y, 0, f->model->dim);
    }
}

void step_post_norm(struct forward *f, const struct norm *norm)
{
    if (has_norm(norm))
        profile_run(f->profile, OP_NORM, f->pool, f->n, post_norm_items,
                    &(struct post_norm_job){.f = f, .norm = norm});
}
