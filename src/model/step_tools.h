/* What the files of steps share: sizes, rows of activations, the note of a value out of range. */
#ifndef MODEL_STEP_TOOLS_H
#define MODEL_STEP_TOOLS_H

#include <stdbool.h>

#include "model/state.h"

enum {
    MOST_ROWS = 272, /* of a batch that go through a step together */
    COLUMNS = 128    /* of its output that are finished together, where there are several rows */
};

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t round_up(size_t n, size_t m)
{
    return (n + m - 1) / m * m;
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline void mark_bad(struct forward *f, size_t l, enum bad_step step)
{
    int none = 0;
    atomic_compare_exchange_strong(&f->bad, &none, 1 + 4 * (int)l + (int)step);
}

static inline void lines_take(struct arena *a, struct lines *in, size_t n, size_t k)
{
    size_t groups = round_up(k, GROUP) / GROUP;
    in->stride = round_up(k, 64);
    in->x = arena_take(a, n * in->stride, sizeof *in->x);
    in->q = arena_take(a, in->stride, sizeof *in->q);
    in->scale = arena_take(a, round_up(groups, 16), sizeof *in->scale);
    in->sum = arena_take(a, round_up(groups, 16), sizeof *in->sum);
    if (n > 1)
        in->octets = arena_take(a, round_up(n, OCTET) / OCTET * groups, sizeof *in->octets);
}

static inline bool has_norm(const struct norm *norm)
{
    return norm && norm->weight;
}

/* y = norm(x)   [n]; y may be x */
static inline void norm_row(const struct forward *f, float *y, const float *x,
                            const struct norm *norm, size_t n)
{
    if (f->model->layer_norm)
        f->kernels->layernorm(y, x, norm->weight, norm->bias, n, f->model->norm_eps);
    else
        f->kernels->rmsnorm(y, x, norm->weight, n, f->model->norm_eps);
}

/* What the feed-forward step reads x through: a parallel one may share attention's norm. */
static inline const struct norm *layer_ffn_norm(const struct layer *w)
{
    return w->parallel && !has_norm(&w->ffn_norm) ? &w->attn_norm : &w->ffn_norm;
}

/* Rows r0 .. r0 + n - 1 of matrix number `at` of w's (0, but for experts) as a matrix of their own;
 * r0 is a multiple of 16. */
static inline struct matrix matrix_rows(const struct matrix *w, size_t at, size_t r0, size_t n)
{
    size_t tile_bytes = format_tile_bytes(format_find(w->type), w->k);
    size_t tile = at * ceil_div(w->rows, TILE_ROWS) + r0 / TILE_ROWS;
    return (struct matrix){(const char *)w->data + tile * tile_bytes, w->type, n, w->k,
                           w->bias ? w->bias + at * w->rows + r0 : NULL};
}

/* Defined in steps.c: */

/* y[i, r] = sum_c w[r, c] x[i, c] + bias[r]   for the rows r of tiles tile0 <= t < tile1 */
void linear(const struct forward *f, float *y, size_t y_stride, const struct matrix *w,
            size_t tile0, size_t tile1, const struct activations *x);

/* x [n] as the quantized columns c .. c + n - 1 of row `at` of `rows` with k columns; c is a
 * multiple of 32. Quantizing hides what is not finite, so it is looked for here. */
void quantize_row(struct forward *f, size_t l, const struct lines *to, size_t rows, size_t k,
                  size_t at, size_t c, const float *x, size_t n);

/* Rows of a feed-forward step: of the batch, or of one expert */
struct ffn_rows {
    const struct activations *in;
    const struct lines *to; /* rows first .. first + n - 1 of it */
    size_t first, n;
    size_t form; /* the `rows` of quantize_row: 1 only for a single row of the batch */
};

/* Columns c .. c + n - 1 of act(gate) * up of one expert (0 where there are none), for which
 * s->gate and s->up have room; without a gate, of act(up). Quantized where down wants it. */
void ffn_columns(struct forward *f, const struct layer *w, size_t expert, const struct ffn_rows *r,
                 size_t c, size_t n, struct scratch *s);

/* x[i, c] += y[i, c] * residual_scale   for c0 <= c < c1 */
void step_join(const struct forward *f, size_t i, float *y, size_t c0, size_t c1);

/* f->z = the shared expert of norm(x) */
void step_shared_expert(struct forward *f, const struct layer *w);

#endif
