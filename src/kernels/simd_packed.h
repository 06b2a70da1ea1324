/* Attention of many queries over one block, in the vocabulary of ops_*.h: K and V are f32 and lie in
 * the order in which they are read, line after line, so that loads never wait. `packed_init` sets the
 * slots.
 *
 * K is [256 / PACK][k_dim][PACK positions]. V is [v_dim / PACK][256][PACK dims], and then
 * [256][WIDTH dims] for each vector of what is left; dims of the last vector that are not there are 0.
 */
#ifndef KERNELS_SIMD_PACKED_H
#define KERNELS_SIMD_PACKED_H

#include "kernels/simd_attend.h"

enum { PACK = PACK_PARTS * WIDTH };

/* panel_dot of lines that follow one another */
SIMD void packed_dot(const struct panel *s, const struct meet *m, size_t parts, size_t rows)
{
    vf sum[4][8], line[4];
    float *y[8];
    const float *x[8], *w = (const float *)(const void *)s->w;
    struct panel at = {.n = s->n, .y_part = WIDTH};
    const char *ahead = s->ahead;
    size_t step = s->step;
    sums_begin(sum, y, x, &at, m, parts, rows, true);
#pragma GCC unroll 2
    for (size_t c = 0; c < at.n; c++, w += parts * WIDTH, ahead += step) {
        __builtin_prefetch(ahead);
        UNROLL(p, parts)
            line[p] = vf_load(w + p * WIDTH);
        sums_add(sum, line, x, c, parts, rows);
    }
    sums_end(sum, y, &at, parts, rows, true);
}

static NOINLINE void panel_packed(const struct panel *s, const struct meet *m, bool one)
{
    if (one)
        packed_dot(s, m, 1, PACK_ROWS);
    else if (m->rows > 1)
        packed_dot(s, m, PACK_PARTS, PACK_ROWS);
    else
        packed_dot(s, m, PACK_PARTS, 1);
}

/* A panel of n lines that prefetches its share, where so many like it prefetch all that is ahead */
SIMD struct panel panel_ahead(const struct ahead *a, size_t n, size_t panels)
{
    size_t lines = n * panels;
    return (struct panel){.n = n,
                          .ahead = a->bytes ? a->at : (const char *)a,
                          .step = (a->bytes + lines - 1) / lines};
}

/* Turns in which PACK_ROWS at a time do something for all queries */
SIMD size_t turns_of(const struct attend *b)
{
    return (b->q.n + PACK_ROWS - 1) / PACK_ROWS;
}

/* Queries that see nothing of a panel are left out. */
static void score_packed(const struct attend *b)
{
    size_t panels = (b->see[b->q.n - 1].hi + PACK - 1u) / PACK - b->see[0].lo / PACK;
    struct panel s = panel_ahead(&b->score_ahead, b->q.k, panels * turns_of(b));
    for (size_t p = b->see[0].lo / PACK * PACK; p < b->see[b->q.n - 1].hi; p += PACK)
        for (size_t g = 0, rows; g < b->q.n; g += rows) {
            rows = b->q.n - g < PACK_ROWS ? b->q.n - g : PACK_ROWS;
            if (b->see[g + rows - 1].hi <= p || b->see[g].lo >= p + PACK)
                continue;
            s.w = (const char *)((const float *)b->k + p * b->q.k);
            panel_packed(&s,
                         &(struct meet){b->scores + g * BLOCK + p, b->q.x + g * b->q.stride, BLOCK,
                                        b->q.stride, rows, false},
                         false);
            s.ahead += s.n * s.step;
        }
}

static void mix_packed(const struct attend *b)
{
    size_t columns = b->v_dim / PACK + (b->v_dim % PACK + WIDTH - 1) / WIDTH;
    struct column v = {.run = panel_packed,
                       .panel = panel_ahead(&b->mix_ahead, BLOCK, columns * turns_of(b))};
    for (size_t d = 0; d < b->v_dim; d += (v.one ? 1u : PACK_PARTS) * WIDTH) {
        v.d = d;
        v.one = b->v_dim - d < PACK;
        v.panel.w = (const char *)((const float *)b->v + BLOCK * d);
        v.panel.line = (v.one ? 1u : PACK_PARTS) * WIDTH * sizeof(float);
        for (size_t g = 0, rows; g < b->q.n; g += rows) {
            rows = b->q.n - g < PACK_ROWS ? b->q.n - g : PACK_ROWS;
            mix_rows(b, &v, g, rows);
            v.panel.ahead += BLOCK * v.panel.step;
        }
    }
}

/* ---- packing ---- */

/* Lanes 0 .. rest - 1, at most WIDTH, of the numbers at p */
SIMD vf load_kv(enum tern_cache_type type, const void *p, size_t i, size_t rest)
{
    const uint16_t *h = (const uint16_t *)p + i;
    if (type == TERN_CACHE_Q8)
        return vf_load_int8((const int8_t *)p + i);
    if (type == TERN_CACHE_F32)
        return load_some((const float *)p + i, rest);
    return rest < WIDTH ? vf_load_f16_n(h, rest) : vf_load_f16(h);
}

SIMD void pack_k(float *y, const void *k, size_t dim, size_t n, enum tern_cache_type type)
{
    for (size_t p = 0; p < n; p += PACK)
        for (size_t d = 0; d < dim; d++, y += PACK)
            UNROLL(j, PACK_PARTS) {
                size_t tile = (p + j * WIDTH) / TILE_ROWS, last = n / TILE_ROWS - 1;
                size_t i = ((tile < last ? tile : last) * dim + d) * TILE_ROWS;
                vf_store(y + j * WIDTH, load_kv(type, k, i + j * WIDTH % TILE_ROWS, WIDTH));
            }
}

/* Floats between the positions of a packed V of `dim` dims, for its dims d .. d + WIDTH - 1, and where
 * these begin */
SIMD size_t packed_width(size_t d, size_t dim)
{
    return d / PACK * PACK + PACK > dim ? WIDTH : PACK;
}

SIMD float *packed_column(float *y, size_t d, size_t dim)
{
    size_t in = d % packed_width(d, dim);
    return y + BLOCK * (d - in) + in;
}

SIMD void pack_v(float *y, const void *v, size_t dim, size_t n, enum tern_cache_type type)
{
    size_t line = type == TERN_CACHE_Q8 ? (dim + GROUP - 1) / GROUP * GROUP : dim;
    float scale[BLOCK];
    for (size_t d = 0; d < dim; d += WIDTH) {
        size_t rest = dim - d, width = packed_width(d, dim);
        float *to = packed_column(y, d, dim);
        if (type == TERN_CACHE_Q8 && d % GROUP == 0)
            widen_scales(scale, v, dim, d);
        for (size_t p = 0; p < n; p++) {
            vf x = load_kv(type, v, p * line + d, rest);
            vf_store(to + p * width, type == TERN_CACHE_Q8 ? vf_mul(x, vf_set1(scale[p])) : x);
        }
    }
}

/* Lines d .. d + WIDTH - 1 of a K, of the positions p .. p + WIDTH - 1, f32; beyond line `end` zeros */
SIMD void load_lines(float *lines, const void *k, enum tern_cache_type type, size_t dim, size_t p,
                     size_t d, size_t end)
{
    size_t tile = p / TILE_ROWS, lane = p % TILE_ROWS, groups = (dim + GROUP - 1) / GROUP;
    for (size_t i = 0; i < WIDTH; i++) {
        vf x = vf_set1(0);
        if (d + i < end && type == TERN_CACHE_Q8) {
            size_t c = (d + i) % GROUP;
            const int8_t *q = (const int8_t *)k + (tile * groups + (d + i) / GROUP) * Q8_BYTES;
            const uint16_t *scales = (const uint16_t *)(const void *)(q + Q8_LINES);
            x = vf_load_fourth(q + c / 4 * 4 * TILE_ROWS + 4 * lane, c % 4);
            x = vf_mul(x, vf_load_f16(scales + lane));
        } else if (d + i < end) {
            x = load_kv(type, k, (tile * dim + d + i) * TILE_ROWS + lane, WIDTH);
        }
        vf_store(lines + i * WIDTH, x);
    }
}

/* Columns of WIDTH lines become rows, `width` floats apart. Each step zips the halves, so that an
 * index turns by a bit; the lines stay in the nearest cache. */
SIMD void turn_lines(float *to, size_t width, float *lines)
{
    float other[WIDTH * WIDTH], *from = lines, *into = other;
    for (size_t step = 1; step < WIDTH; step *= 2) {
        for (size_t i = 0; i < WIDTH / 2; i++) {
            vf x = vf_load(from + i * WIDTH), y = vf_load(from + (i + WIDTH / 2) * WIDTH);
            vf_zip(&x, &y);
            vf_store(into + 2 * i * WIDTH, x);
            vf_store(into + (2 * i + 1) * WIDTH, y);
        }
        float *swap = from;
        from = into, into = swap;
    }
    for (size_t i = 0; i < WIDTH; i++)
        vf_store(to + i * width, vf_load(from + i * WIDTH));
}

/* As pack_v has V, from a K: squares of WIDTH positions and dims */
static void turn_packed(float *y, const void *k, enum tern_cache_type type, size_t k_dim,
                        size_t v_dim, size_t n)
{
    float lines[WIDTH * WIDTH];
    for (size_t d = 0; d < v_dim; d += WIDTH) {
        float *to = packed_column(y, d, v_dim);
        size_t width = packed_width(d, v_dim);
        for (size_t p = 0; p < n; p += WIDTH) {
            load_lines(lines, k, type, k_dim, p, d, v_dim);
            turn_lines(to + p * width, width, lines);
        }
    }
}

static void pack_k_f16(float *y, const void *k, size_t dim, size_t n)
{
    pack_k(y, k, dim, n, TERN_CACHE_F16);
}

static void pack_k_f32(float *y, const void *k, size_t dim, size_t n)
{
    pack_k(y, k, dim, n, TERN_CACHE_F32);
}

static void pack_v_f16(float *y, const void *v, size_t dim, size_t n)
{
    pack_v(y, v, dim, n, TERN_CACHE_F16);
}

static void pack_v_f32(float *y, const void *v, size_t dim, size_t n)
{
    pack_v(y, v, dim, n, TERN_CACHE_F32);
}

static void pack_v_q8(float *y, const void *v, size_t dim, size_t n)
{
    pack_v(y, v, dim, n, TERN_CACHE_Q8);
}

SIMD void packed_init(struct kernels *k)
{
    k->pack_k[TERN_CACHE_F16] = pack_k_f16;
    k->pack_k[TERN_CACHE_F32] = pack_k_f32;
    k->pack_v[TERN_CACHE_F16] = pack_v_f16;
    k->pack_v[TERN_CACHE_F32] = pack_v_f32;
    k->pack_v[TERN_CACHE_Q8] = pack_v_q8;
    k->turn = turn_packed;
    k->score_packed = score_packed;
    k->mix_packed = k->mix_turned = mix_packed;
}

#endif
