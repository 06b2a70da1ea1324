/* Float dots in the vocabulary of ops_*.h: matmul with f32, f16 and bf16 weights, and attention,
 * which is two of them around an exp. One micro-kernel serves all: lines of a matrix, whose lanes
 * are outputs, times scalars of x. `float_init` sets the slots. */
#ifndef KERNELS_SIMD_FLOAT_H
#define KERNELS_SIMD_FLOAT_H

#include "kernels/simd_math.h"
#include "kernels/simd_rows.h"

enum { AHEAD = 2048 }; /* bytes of prefetch */

/* A matrix of lines. Part p of line c begins at element
 * c * line + (p / tile_parts) * tile + (p % tile_parts) * WIDTH, and of y at element
 * (p / tile_parts) * y_tile + (p % tile_parts) * WIDTH. A tile of 0 is one tile met twice. */
struct lines {
    const void *w;
    enum tern_type type;
    size_t line, tile, y_tile, tile_parts;
    size_t n;    /* lines */
    size_t last; /* elements of the last part, when `partial`; else it is whole */
    bool partial;
    const char *next; /* memory to prefetch, a cache line per line, or NULL: AHEAD of w */
};

SIMD vf load_part(const struct lines *m, size_t c, size_t part, bool partial)
{
    size_t i = c * m->line + part / m->tile_parts * m->tile + part % m->tile_parts * WIDTH;
    if (m->type == TERN_F32) {
        const float *p = (const float *)m->w + i;
        return partial ? vf_load_n(p, m->last) : vf_load(p);
    }
    const uint16_t *p = (const uint16_t *)m->w + i;
    if (m->type == TERN_BF16)
        return vf_load_bf16(p);
    return partial ? vf_load_f16_n(p, m->last) : vf_load_f16(p);
}

SIMD void prefetch_line(const struct lines *m, size_t c, size_t parts)
{
    size_t bytes = m->type == TERN_F32 ? 4 : 2;
    if (m->next) {
        __builtin_prefetch(m->next + c * 64);
        return;
    }
    const char *p = (const char *)m->w + c * m->line * bytes + AHEAD;
    for (size_t part = 0; part < parts; part += m->tile_parts)
        if (c * m->line * bytes % 64 == 0)
            __builtin_prefetch(p + part / m->tile_parts * m->tile * bytes);
}

/* y[t][part p, lane j] = sum_c x[t][c] * w[c, part p, lane j] by fma, c ascending, from +0, for
 * `parts` parts and `tokens` rows, both constants where this is called. */
SIMD void dot_lines(float *const *y, struct lines m, const float *const *x, size_t parts,
                    size_t tokens)
{
    vf acc[16][8]; /* [parts, tokens]: registers, once unrolled */
#pragma GCC unroll 16
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            acc[p][t] = vf_set1(0);
    for (size_t c = 0; c < m.n; c++) {
        vf w[16];
        prefetch_line(&m, c, parts);
#pragma GCC unroll 16
        for (size_t p = 0; p < parts; p++)
            w[p] = load_part(&m, c, p, m.partial && p + 1 == parts);
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++) {
            vf xt = vf_set1(x[t][c]);
#pragma GCC unroll 16
            for (size_t p = 0; p < parts; p++)
                acc[p][t] = vf_fma(w[p], xt, acc[p][t]);
        }
    }
#pragma GCC unroll 16
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++) {
            float *to = y[t] + p / m.tile_parts * m.y_tile + p % m.tile_parts * WIDTH;
            if (m.partial && p + 1 == parts)
                vf_store_n(to, acc[p][t], m.last);
            else
                vf_store(to, acc[p][t]);
        }
}

/* The same for rows first .. rows - 1, of which `tokens` at most: beyond the end the last row is
 * computed again, which writes the same numbers to the same place. */
SIMD void dot_some(float *y, size_t y_stride, struct lines m, const float *x, size_t x_stride,
                   size_t first, size_t rows, size_t parts, size_t tokens)
{
    float *to[8];
    const float *from[8];
#pragma GCC unroll 8
    for (size_t t = 0; t < tokens; t++) {
        size_t row = first + t < rows ? first + t : rows - 1;
        to[t] = y + row * y_stride;
        from[t] = x + row * x_stride;
    }
    dot_lines(to, m, from, parts, tokens);
}

/* The same for any number of rows. */
SIMD void dot_rows(float *y, size_t y_stride, struct lines m, const float *x, size_t x_stride,
                   size_t rows, size_t parts)
{
    for (size_t i = 0; i < rows; i += TOKENS)
        if (TOKENS > 4 && rows - i <= 4)
            dot_some(y, y_stride, m, x, x_stride, i, rows, parts, 4);
        else
            dot_some(y, y_stride, m, x, x_stride, i, rows, parts, TOKENS);
}

/* ---- matmul ---- */

SIMD void matmul_float(float *y, size_t y_stride, const void *w, enum tern_type type, size_t tile0,
                       size_t tile1, const struct activations *x)
{
    size_t tile = x->k * TILE_ROWS, bytes = type == TERN_F32 ? 4 : 2, t = tile0;
    struct lines m = {.type = type, .line = TILE_ROWS, .tile_parts = PER_16, .n = x->k};
    m.tile = tile, m.y_tile = TILE_ROWS;
    for (; x->n == 1 && t + FLOAT_DECODE <= tile1; t += FLOAT_DECODE) {
        m.w = (const char *)w + t * tile * bytes;
        dot_some(y + t * TILE_ROWS, 0, m, x->x, 0, 0, 1, FLOAT_DECODE * PER_16, 1);
    }
    for (; t < tile1; t += TILES) {
        m.w = (const char *)w + t * tile * bytes;
        if (t + TILES > tile1)
            m.tile = m.y_tile = 0;
        if (x->n == 1)
            dot_some(y + t * TILE_ROWS, 0, m, x->x, 0, 0, 1, TILES * PER_16, 1);
        else
            dot_rows(y + t * TILE_ROWS, y_stride, m, x->x, x->stride, x->n, TILES * PER_16);
    }
}

static void matmul_f32(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                       const struct activations *x)
{
    matmul_float(y, y_stride, w, TERN_F32, tile0, tile1, x);
}

static void matmul_f16(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                       const struct activations *x)
{
    matmul_float(y, y_stride, w, TERN_F16, tile0, tile1, x);
}

static void matmul_bf16(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                        const struct activations *x)
{
    matmul_float(y, y_stride, w, TERN_BF16, tile0, tile1, x);
}

/* ---- attention ---- */

/* dot_rows for queries: one alone, as in decoding without shared heads, is not computed twice. */
SIMD void dot_queries(float *y, size_t y_stride, struct lines m, const float *x, size_t x_stride,
                      size_t rows, size_t parts)
{
    if (rows == 1)
        dot_some(y, 0, m, x, 0, 0, 1, parts, 1);
    else
        dot_rows(y, y_stride, m, x, x_stride, rows, parts);
}

/* scores [n_q, 256] = q . k for the tiles that hold visible positions; no scale yet. Meanwhile the
 * V of the visible positions is prefetched, a line per step. */
SIMD void score(const struct attend *b, enum tern_type type)
{
    size_t bytes = type == TERN_F32 ? 4 : 2, tile = b->k_dim * TILE_ROWS;
    size_t end = (b->hi + TILE_ROWS - 1) / TILE_ROWS;
    struct lines m = {.type = type, .line = TILE_ROWS, .tile_parts = PER_16, .n = b->k_dim};
    m.tile = tile, m.y_tile = TILE_ROWS;
    for (size_t t = b->lo / TILE_ROWS; t < end; t += TILES) {
        m.w = (const char *)b->k + t * tile * bytes;
        m.next = (const char *)b->v + t * TILE_ROWS * b->v_dim * bytes;
        if (t + TILES > end)
            m.tile = m.y_tile = 0;
        dot_queries(b->scores + t * TILE_ROWS, BLOCK, m, b->q, b->q_stride, b->n_q, TILES * PER_16);
    }
}

/* visible ? x : other, for the positions p, p + 1 ... */
SIMD vf visible(const struct attend *b, size_t p, vf x, vf other)
{
    vf at = vf_add(vf_set1((float)p), vf_count());
    x = vf_select(vf_lt(at, vf_set1((float)b->lo)), other, x);
    return vf_select(vf_lt(at, vf_set1((float)b->hi)), x, other);
}

/* s [256] becomes exp(s - m), 0 where masked; *m and *l as in kernels.h */
SIMD void weigh(float *s, const struct attend *b, float *m, float *l)
{
    size_t from = b->lo / 16 * 16;
    vf top = vf_set1(-INFINITY), sum[PER_16], scale = vf_set1(b->scale), cap = vf_set1(b->softcap);
    for (size_t p = from; p < b->hi; p += WIDTH) {
        vf x = vf_mul(vf_load(s + p), scale);
        if (b->softcap > 0)
            x = vf_mul(cap, vf_tanh(vf_div(x, cap)));
        x = visible(b, p, x, vf_set1(-INFINITY));
        vf_store(s + p, x);
        top = vf_max(x, top);
    }
    *m = vf_top(top) + 0.0f; /* -0 becomes +0 */
    vf max = vf_set1(*m);
    load_16(sum, s, 0);
    for (size_t p = from; p < b->hi; p += 16)
        for (size_t j = 0; j < PER_16; j++) {
            size_t at = p + j * WIDTH;
            vf e = vf_exp(vf_sub(vf_load(s + at), max));
            e = visible(b, at, e, vf_set1(0));
            vf_store(s + at, e);
            sum[j] = vf_add(sum[j], e);
        }
    *l = sum_16(sum);
}

/* a [n_q, v_dim] = scores . v over the visible positions */
SIMD void mix(const struct attend *b, enum tern_type type)
{
    size_t bytes = type == TERN_F32 ? 4 : 2, d = 0;
    struct lines m = {.type = type, .line = b->v_dim, .tile_parts = PARTS, .n = b->hi - b->lo};
    const char *v = (const char *)b->v + b->lo * b->v_dim * bytes;
    const float *e = b->scores + b->lo;
    for (; d + PARTS * WIDTH <= b->v_dim; d += PARTS * WIDTH) {
        m.w = v + d * bytes;
        dot_queries(b->a + d, b->a_stride, m, e, BLOCK, b->n_q, PARTS);
    }
    for (; d + WIDTH <= b->v_dim; d += WIDTH) {
        m.w = v + d * bytes;
        dot_rows(b->a + d, b->a_stride, m, e, BLOCK, b->n_q, 1);
    }
    m.partial = true;
    m.last = b->v_dim - d;
    m.w = v + d * bytes;
    for (size_t i = 0; m.last && i < b->n_q; i++)
        dot_some(b->a + d, b->a_stride, m, e, BLOCK, i, b->n_q, 1, 1);
}

SIMD void attend(const struct attend *b, enum tern_type type)
{
    score(b, type);
    for (size_t g = 0; g < b->n_q; g++)
        weigh(b->scores + g * BLOCK, b, &b->m[g], &b->l[g]);
    mix(b, type);
}

static void attend_f16(const struct attend *b)
{
    attend(b, TERN_F16);
}

static void attend_f32(const struct attend *b)
{
    attend(b, TERN_F32);
}

SIMD void float_init(struct kernels *k)
{
    k->matmul[TERN_F32] = matmul_f32;
    k->matmul[TERN_F16] = matmul_f16;
    k->matmul[TERN_BF16] = matmul_bf16;
    k->attend[TERN_CACHE_F16] = attend_f16;
    k->attend[TERN_CACHE_F32] = attend_f32;
}

#endif
