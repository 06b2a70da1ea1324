/* Attention of queries that share a KV head over one block, in the vocabulary of ops_*.h. Both dots
 * run through one micro-kernel: lines, whose lanes are outputs, times scalars. In score a line is
 * one dim of the keys, and the scalars are queries. In mix a line is the value of one position, and
 * the scalars are weights. `attend_init` sets the slots, except score of q8 (simd_score.h). */
#ifndef KERNELS_SIMD_ATTEND_H
#define KERNELS_SIMD_ATTEND_H

#include "kernels/simd_lines.h"
#include "kernels/simd_math.h"
#include "kernels/simd_rows.h"

#define NOINLINE __attribute__((noinline)) /* for size */

enum { SIDE_BY_SIDE = 4 }; /* vectors of weights whose exps are computed side by side */

/* Vector p of line c is at byte c * line + p * part. */
struct panel {
    const char *w;
    size_t n, line, part;
    size_t y_part;      /* floats between the vectors of y */
    size_t last;        /* elements of the last vector that are there */
    const float *scale; /* [n] q8: of the lines */
    const char *ahead;  /* prefetched meanwhile, `step` bytes a line: in sequence, each cache */
    size_t step;        /* line once. 0: nothing that is not there already */
};

/* Rows of x and of y that meet a panel */
struct meet {
    float *y;
    const float *x;
    size_t y_stride, x_stride;
    size_t rows; /* 1 .. TOKENS */
    bool more;   /* y goes on from what it holds */
};

/* Line c at `at`, its vector p */
SIMD vf panel_load(const struct panel *s, enum tern_cache_type type, const char *at, size_t c,
                   size_t p, bool whole)
{
    at += p * s->part;
    if (type == TERN_CACHE_Q8)
        return vf_mul(vf_load_int8((const int8_t *)at), vf_set1(s->scale[c]));
    if (type == TERN_CACHE_F32)
        return whole ? vf_load((const float *)(const void *)at)
                     : vf_load_n((const float *)(const void *)at, s->last);
    return whole ? vf_load_f16((const uint16_t *)(const void *)at)
                 : vf_load_f16_n((const uint16_t *)(const void *)at, s->last);
}

/* Sums of `parts` vectors and `rows` rows, at most [4][8], from +0 or, for `more`, from what y holds,
 * and where the rows are. Beyond the last row it is computed again, which writes the same numbers to
 * the same place. `parts`, `rows` and `whole` (all lanes of the last vector are there) are constants
 * where this is called, so that sums are registers. */
SIMD void sums_begin(vf sum[4][8], float **y, const float **x, const struct panel *s,
                     const struct meet *m, size_t parts, size_t rows, bool whole)
{
    UNROLL(t, rows) {
        size_t row = t < m->rows ? t : m->rows - 1;
        y[t] = m->y + row * m->y_stride;
        x[t] = m->x + row * m->x_stride;
        UNROLL(p, parts)
            sum[p][t] = vf_set1(0);
    }
    if (m->more)
        UNROLL(t, rows)
            UNROLL(p, parts)
                sum[p][t] = whole ? vf_load(y[t] + p * s->y_part) : vf_load_n(y[t], s->last);
}

SIMD void sums_end(vf sum[4][8], float **y, const struct panel *s, size_t parts, size_t rows,
                   bool whole)
{
    UNROLL(t, rows)
        UNROLL(p, parts)
            if (whole)
                vf_store(y[t] + p * s->y_part, sum[p][t]);
            else
                vf_store_n(y[t], sum[p][t], s->last);
}

/* sum[part p, lane j][t] += x[t] * w[p, lane j] by fma */
SIMD void sums_add(vf sum[4][8], const vf *w, const float **x, size_t c, size_t parts, size_t rows)
{
    UNROLL(t, rows) {
        vf xt = vf_set1(x[t][c]);
        UNROLL(p, parts)
            sum[p][t] = vf_fma(w[p], xt, sum[p][t]);
    }
}

/* y[t][part p, lane j] = sum_c x[t][c] * w[c, part p, lane j] by fma, c ascending */
SIMD void panel_dot(const struct panel *s, enum tern_cache_type type, const struct meet *m,
                    size_t parts, size_t rows, bool whole)
{
    vf sum[4][8], w[4];
    float *y[8];
    const float *x[8];
    const char *at = s->w, *ahead = s->ahead;
    size_t n = s->n, line = s->line, step = s->step;
    sums_begin(sum, y, x, s, m, parts, rows, whole);
    for (size_t c = 0; c < n; c++, at += line, ahead += step) {
        __builtin_prefetch(ahead, 0, 2);
        if (type == TERN_CACHE_F32)
            __builtin_prefetch(ahead + 64, 0, 2);
        UNROLL(p, parts)
            w[p] = panel_load(s, type, at, c, p, whole);
        sums_add(sum, w, x, c, parts, rows);
    }
    sums_end(sum, y, s, parts, rows, whole);
}

/* PARTS whole vectors, or one */
SIMD void panel_run(const struct panel *s, enum tern_cache_type type, const struct meet *m,
                    bool one)
{
    if (!one && TOKENS > 4 && m->rows > 4)
        panel_dot(s, type, m, PARTS, TOKENS, true);
    else if (!one && m->rows > 2)
        panel_dot(s, type, m, PARTS, 4, true);
    else if (!one && m->rows == 2)
        panel_dot(s, type, m, PARTS, 2, true);
    else if (!one)
        panel_dot(s, type, m, PARTS, 1, true);
    else if (s->last == WIDTH) /* one chain of fma takes as long as TOKENS of them */
        panel_dot(s, type, m, 1, TOKENS, true);
    else
        panel_dot(s, type, m, 1, TOKENS, false);
}

typedef void (*panel_fn)(const struct panel *s, const struct meet *m, bool one);

static void panel_f16(const struct panel *s, const struct meet *m, bool one)
{
    panel_run(s, TERN_CACHE_F16, m, one);
}

static void panel_f32(const struct panel *s, const struct meet *m, bool one)
{
    panel_run(s, TERN_CACHE_F32, m, one);
}

static void panel_q8(const struct panel *s, const struct meet *m, bool one)
{
    panel_run(s, TERN_CACHE_Q8, m, one);
}

/* ---- score ---- */

/* PARTS vectors of positions at a time. Meanwhile the V of the block is prefetched: as many bytes.
 */
static NOINLINE void score(const struct attend *b, panel_fn run, size_t size)
{
    size_t line = TILE_ROWS * size, tile = b->q.k * line;
    size_t end = (b->see[b->q.n - 1].hi + TILE_ROWS - 1u) / TILE_ROWS;
    struct panel s = {.n = b->q.k, .line = line, .last = WIDTH, .y_part = WIDTH};
    s.part = TILES > 1 ? tile : line / PER_16;
    for (size_t t = b->see[0].lo / TILE_ROWS; t < end; t += TILES) {
        s.w = (const char *)b->k + t * tile;
        s.ahead = (const char *)b->v + t * tile, s.step = TILES * line;
        if (t + TILES > end) /* one tile met twice */
            s.part = s.y_part = 0;
        for (size_t g = 0, rows; g < b->q.n; g += rows) {
            rows = next_rows(b->q.n - g);
            run(&s,
                &(struct meet){b->scores + g * BLOCK + t * TILE_ROWS, b->q.x + g * b->q.stride,
                               BLOCK, b->q.stride, rows, false},
                false);
            s.step = 0;
        }
    }
}

static void score_f16(const struct attend *b)
{
    score(b, panel_f16, 2);
}

static void score_f32(const struct attend *b)
{
    score(b, panel_f32, 4);
}

/* ---- weigh ---- */

/* visible ? x : other, for the positions p, p + 1 ... */
SIMD vf visible(struct span see, size_t p, vf x, vf other)
{
    if (p >= see.lo && p + WIDTH <= see.hi)
        return x;
    vf at = vf_add(vf_set1((float)p), vf_count());
    x = vf_select(vf_lt(at, vf_set1((float)see.lo)), other, x);
    return vf_select(vf_lt(at, vf_set1((float)see.hi)), x, other);
}

/* The visible positions, and those that share SIDE_BY_SIDE vectors with them */
SIMD struct span around(struct span see)
{
    size_t step = SIDE_BY_SIDE * WIDTH;
    return (struct span){(uint16_t)(see.lo / step * step),
                         (uint16_t)((see.hi + step - 1) / step * step)};
}

SIMD vf to_bf16(vf x)
{
    vf c = vf_mul(x, vf_set1(65537));
    return vf_sub(c, vf_sub(c, x));
}

SIMD vf alibi_biases(float slope, vf position)
{
    if (slope < 0)
        return vf_mul(vf_set1(-slope), position);
    return to_bf16(vf_mul(vf_set1(slope), to_bf16(position)));
}

static NOINLINE void add_alibi(float *s, struct span to, struct alibi a, size_t first)
{
    vf own = alibi_biases(a.slope, vf_set1(a.position));
    for (size_t p = to.lo; p < to.hi; p += WIDTH) {
        vf at = vf_add(vf_set1((float)(first + p)), vf_count());
        vf_store(s + p, vf_add(vf_load(s + p), vf_sub(alibi_biases(a.slope, at), own)));
    }
}

/* s = scale * s, softly capped */
static NOINLINE void cap_scores(float *s, struct span to, const struct attend *b)
{
    vf scale = vf_set1(b->scale), cap = vf_set1(b->softcap);
    for (size_t p = to.lo; p < to.hi; p += WIDTH) {
        vf x = vf_mul(vf_load(s + p), scale);
        if (b->softcap > 0)
            x = vf_mul(cap, vf_tanh(vf_div(x, cap)));
        vf_store(s + p, x);
    }
}

/* s = -inf where it is masked, and the largest */
SIMD float top_query(float *s, struct span see)
{
    struct span to = around(see);
    vf top[SIDE_BY_SIDE], low = vf_set1(-INFINITY);
    for (size_t p = to.lo; p < see.lo; p += WIDTH)
        vf_store(s + p, visible(see, p, vf_load(s + p), low));
    for (size_t p = see.hi / WIDTH * WIDTH; p < to.hi; p += WIDTH)
        vf_store(s + p, visible(see, p, vf_load(s + p), low));
    UNROLL(i, SIDE_BY_SIDE)
        top[i] = low;
    for (size_t p = to.lo; p < to.hi; p += SIDE_BY_SIDE * WIDTH)
        UNROLL(i, SIDE_BY_SIDE)
            top[i] = vf_max(vf_load(s + p + i * WIDTH), top[i]);
#pragma GCC unroll 4
    for (size_t i = 1; i < SIDE_BY_SIDE; i++)
        top[0] = vf_max(top[i], top[0]);
    return vf_top(top[0]);
}

/* s = exp(scale * s - m), which is 0 where it is masked; their sum */
SIMD float exp_query(float *s, struct span to, float by, float m)
{
    vf e[SIDE_BY_SIDE], sum[PER_16], max = vf_set1(m), scale = vf_set1(by);
    load_16(sum, s, 0);
    for (size_t p = to.lo; p < to.hi; p += SIDE_BY_SIDE * WIDTH) {
        UNROLL(i, SIDE_BY_SIDE)
            e[i] = vf_sub(vf_mul(vf_load(s + p + i * WIDTH), scale), max);
        vf_exps(e, SIDE_BY_SIDE, true);
        UNROLL(i, SIDE_BY_SIDE) {
            vf_store(s + p + i * WIDTH, e[i]);
            sum[i % PER_16] = vf_add(sum[i % PER_16], e[i]);
        }
    }
    return sum_16(sum);
}

/* A positive scale leaves the largest where it is, and can wait for exp. */
static void weigh(const struct attend *b)
{
    bool wait = b->scale > 0 && !(b->softcap > 0);
    float scale = wait ? b->scale : 1;
    for (size_t g = 0; g < b->q.n; g++) {
        float *s = b->scores + g * BLOCK;
        if (b->alibi)
            add_alibi(s, around(b->see[g]), b->alibi[g], b->first);
        if (!wait)
            cap_scores(s, around(b->see[g]), b);
        b->m[g] = top_query(s, b->see[g]) * scale + 0.0f; /* -0 becomes +0 */
    }
    for (size_t g = 0; g < b->q.n; g++)
        b->l[g] = exp_query(b->scores + g * BLOCK, around(b->see[g]), scale, b->m[g]);
}

/* ---- mix ---- */

/* A column of V, the dims d, d + 1 ... of PARTS vectors or one, for query g and its next
 * neighbours */
struct column {
    panel_fn run;
    struct panel panel; /* of all positions */
    size_t d;
    bool one;
};

static NOINLINE void mix_span(const struct attend *b, const struct column *v, size_t g, size_t rows,
                              size_t lo, size_t hi, bool more)
{
    struct panel s = v->panel;
    s.n = hi - lo;
    s.w += lo * s.line;
    s.ahead += lo * s.step;
    s.scale = s.scale ? s.scale + lo : NULL;
    v->run(&s,
           &(struct meet){b->a + g * b->a_stride + v->d, b->scores + g * BLOCK + lo, b->a_stride,
                          BLOCK, rows, more},
           v->one);
}

/* First what each query sees alone before the positions that all of them see, then those, then the
 * rest of each. */
static NOINLINE void mix_rows(const struct attend *b, const struct column *v, size_t first,
                              size_t rows)
{
    const struct span *see = b->see + first;
    struct span all = {see[rows - 1].lo, see[0].hi};
    bool more = all.lo > see[0].lo, apart = all.lo >= all.hi;
    for (size_t i = 0; i < rows && (more || apart); i++)
        mix_span(b, v, first + i, 1, see[i].lo, apart ? see[i].hi : all.lo, false);
    if (apart)
        return;
    mix_span(b, v, first, rows, all.lo, all.hi, more);
    for (size_t i = 0; i < rows; i++)
        if (see[i].hi > all.hi)
            mix_span(b, v, first + i, 1, all.hi, see[i].hi, true);
}

/* scales of 32 dims, of all positions, as f32 */
static NOINLINE void widen_scales(float *scale, const void *v, size_t v_dim, size_t d)
{
    const char *scales = (const char *)v + (v_dim + 31) / 32 * 32 * BLOCK;
    const uint16_t *h = (const uint16_t *)(const void *)scales + d / 32 * BLOCK;
    for (size_t p = 0; p < BLOCK; p += WIDTH)
        vf_store(scale + p, vf_load_f16(h + p));
}

/* Meanwhile the next K is prefetched; of q8, whose score takes less time, most of the next V too.
 */
static NOINLINE void mix(const struct attend *b, panel_fn run, enum tern_cache_type type)
{
    size_t size = type == TERN_CACHE_Q8 ? 1 : type == TERN_CACHE_F16 ? 2 : 4;
    size_t dims = type == TERN_CACHE_Q8 ? (b->v_dim + 31) / 32 * 32 : b->v_dim;
    float scale[BLOCK];
    struct column v = {.run = run};
    v.panel = (struct panel){.line = dims * size, .part = WIDTH * size, .y_part = WIDTH};
    const char *ahead = b->next ? b->next : b->v;
    size_t step = b->next ? PARTS * WIDTH * (type == TERN_CACHE_F32 ? 4 : 2) : 0;
    v.panel.scale = scale;
    for (size_t d = 0; d < b->v_dim; d += (v.one ? 1u : PARTS) * WIDTH) {
        size_t left = b->v_dim - d;
        v.d = d;
        v.one = left < PARTS * WIDTH;
        v.panel.last = left < WIDTH ? left : WIDTH;
        v.panel.w = (const char *)b->v + d * size;
        v.panel.ahead = ahead, v.panel.step = step;
        if (type == TERN_CACHE_Q8 && d % GROUP == 0)
            widen_scales(scale, b->v, b->v_dim, d);
        for (size_t g = 0, rows; g < b->q.n; g += rows) {
            rows = next_rows(b->q.n - g);
            mix_rows(b, &v, g, rows);
            v.panel.step = 0;
        }
        ahead += BLOCK * step;
    }
}

static void mix_f16(const struct attend *b)
{
    mix(b, panel_f16, TERN_CACHE_F16);
}

static void mix_f32(const struct attend *b)
{
    mix(b, panel_f32, TERN_CACHE_F32);
}

static void mix_q8(const struct attend *b)
{
    mix(b, panel_q8, TERN_CACHE_Q8);
}

/* Four heads of at most WIDTH dims and two queries, of which the last may be there again: eight
 * chains of fma side by side, where each alone would wait for itself. */
SIMD void mix_four(const struct attend *b, size_t n, bool whole)
{
    const uint16_t *v[4];
    const float *e[4][2];
    size_t dim = b->v_dim, second = b->q.n - 1;
    vf acc[4][2];
    UNROLL(i, 4) {
        const struct attend *head = &b[i < n ? i : n - 1];
        v[i] = head->v;
        e[i][0] = head->scores;
        e[i][1] = head->scores + second * BLOCK;
        acc[i][0] = acc[i][1] = vf_set1(0);
    }
    for (size_t p = b->see->lo; p < b->see->hi; p++)
        UNROLL(i, 4) {
            vf w = whole ? vf_load_f16(v[i] + p * dim) : vf_load_f16_n(v[i] + p * dim, dim);
            acc[i][0] = vf_fma(w, vf_set1(e[i][0][p]), acc[i][0]);
            acc[i][1] = vf_fma(w, vf_set1(e[i][1][p]), acc[i][1]);
        }
    UNROLL(i, 4) {
        const struct attend *head = &b[i < n ? i : n - 1];
        float *a[2] = {head->a, head->a + second * b->a_stride};
        for (size_t t = 0; t < 2; t++)
            if (whole)
                vf_store(a[t], acc[i][t]);
            else
                vf_store_n(a[t], acc[i][t], dim);
    }
}

static void mix_heads(const struct attend *b, size_t n)
{
    if (b->v_dim > WIDTH || b->q.n > 2) {
        for (size_t i = 0; i < n; i++)
            mix_f16(&b[i]);
        return;
    }
    for (size_t i = 0; i < n; i += 4)
        if (b->v_dim == WIDTH)
            mix_four(b + i, n - i < 4 ? n - i : 4, true);
        else
            mix_four(b + i, n - i < 4 ? n - i : 4, false);
}

/* ---- widen ---- */

static void widen_f16(float *y, const void *v, size_t dim, size_t n)
{
    const uint16_t *h = v;
    size_t i = 0, end = n * dim;
    VECTORS(i, end)
    vf_store(y + i, vf_load_f16(h + i));
    if (i < end)
        vf_store_n(y + i, vf_load_f16_n(h + i, end - i), end - i);
}

static void widen_q8(float *y, const void *v, size_t dim, size_t n)
{
    size_t padded = (dim + 31) / 32 * 32;
    float scale[BLOCK];
    for (size_t d = 0; d < dim; d += WIDTH) {
        if (d % 32 == 0)
            widen_scales(scale, v, dim, d);
        for (size_t p = 0; p < n; p++) {
            vf x = vf_load_int8((const int8_t *)v + p * padded + d);
            x = vf_mul(x, vf_set1(scale[p]));
            if (dim - d < WIDTH)
                vf_store_n(y + p * dim + d, x, dim - d);
            else
                vf_store(y + p * dim + d, x);
        }
    }
}

SIMD void attend_init(struct kernels *k)
{
    k->score[TERN_CACHE_F16] = score_f16;
    k->score[TERN_CACHE_F32] = score_f32;
    k->weigh = weigh;
    k->mix[TERN_CACHE_F16] = mix_f16;
    k->mix[TERN_CACHE_F32] = mix_f32;
    k->mix[TERN_CACHE_Q8] = mix_q8;
    k->mix_heads = mix_heads;
    k->widen[TERN_CACHE_F16] = widen_f16;
    k->widen[TERN_CACHE_Q8] = widen_q8;
}

#endif
