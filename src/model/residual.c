/* The residual stream: see residual.h. */
#include "model/residual.h"

#include "kernels/math.h"
#include "model/linear.h"
#include "model/split.h"

void norm_row(const struct forward *f, float *y, const float *x, const struct norm *norm, size_t n)
{
    if (f->model->layer_norm)
        f->kernels->layernorm(y, x, norm->weight, norm->bias, n, f->model->norm_eps);
    else
        f->kernels->rmsnorm(y, x, norm->weight, n, f->model->norm_eps);
}

void round_row(float *x, size_t n)
{
    const float even = 0x1.8p23f; /* added and taken away: rounds to the nearest, ties to even */
    float m = 1e-5f;
    for (size_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : -x[i] > m ? -x[i] : m;
    float s = 127 / m;
    for (size_t i = 0; i < n; i++) {
        float scaled = x[i] * s, shifted = scaled + even;
        x[i] = (shifted - even) / s;
    }
}

void soft_gate(float *att, const float *gate, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++) {
        float by = math_softplus(gate[i]);
        for (size_t j = 0; j < width; j++)
            att[i * width + j] *= by;
    }
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

struct inner_norm_job {
    struct forward *f;
    const struct layer *w;
    const struct norm *norm;
};

/* Rows of att, or of ffn, which may be quantized again */
static void inner_norm_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct inner_norm_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    bool is_ffn = job->norm == &w->down_norm;
    size_t n = is_ffn ? w->down.k : w->o.k;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = is_ffn ? f->ffn.x + i * f->ffn.stride : f->att + i * f->q_stride;
        if (has_norm(job->norm))
            norm_row(f, x, x, job->norm, n);
        if (w->round_inputs)
            round_row(x, n);
        if (is_ffn && type_is_quantized(w->down.type))
            quantize_row(f, w->index, &f->ffn, f->n, n, i, 0, x, n);
    }
}

void step_inner_norm(struct forward *f, const struct layer *w, const struct norm *norm)
{
    if (!has_norm(norm) && !w->round_inputs)
        return;
    if (norm == &w->down_norm)
        split_floats(f, f->ffn.x, f->ffn.stride, cut_rows(w->down.k));
    else
        split_floats(f, f->att, f->q_stride, cut_heads(w, w->o.k / w->n_heads));
    profile_run(f->profile, OP_NORM, f->pool, f->n, inner_norm_items,
                &(struct inner_norm_job){.f = f, .w = w, .norm = norm});
}
