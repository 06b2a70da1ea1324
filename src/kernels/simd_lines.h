/* Lines of a matrix, whose lanes are outputs, times scalars of x, in the vocabulary of ops_*.h: the
 * micro-kernel of matmul with float weights. */
#ifndef KERNELS_SIMD_LINES_H
#define KERNELS_SIMD_LINES_H

enum {
    AHEAD = 2048,  /* bytes of prefetch, */
    SHORT = 16384, /* but not for tiles so short that most of it is read already */
};

/* A matrix of lines. Part p of line c begins at element
 * c * line + (p / tile_parts) * tile + (p % tile_parts) * WIDTH, and of y at element
 * (p / tile_parts) * y_tile + (p % tile_parts) * WIDTH. A tile of 0 is one tile met twice. */
struct lines {
    const void *w;
    enum tern_type type;
    size_t line, tile, y_tile, tile_parts;
    size_t n; /* lines */
};

SIMD vf load_part(const struct lines *m, size_t c, size_t part)
{
    size_t i = c * m->line + part / m->tile_parts * m->tile + part % m->tile_parts * WIDTH;
    if (m->type == TERN_F32)
        return vf_load((const float *)m->w + i);
    const uint16_t *p = (const uint16_t *)m->w + i;
    return m->type == TERN_BF16 ? vf_load_bf16(p) : vf_load_f16(p);
}

SIMD void prefetch_line(const struct lines *m, size_t c, size_t parts)
{
    size_t bytes = m->type == TERN_F32 ? 4 : 2;
    if (m->n * m->line * bytes <= SHORT)
        return;
    const char *p = (const char *)m->w + c * m->line * bytes + AHEAD;
#pragma GCC unroll 16
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
    UNROLL(p, parts)
        UNROLL(t, tokens)
            acc[p][t] = vf_set1(0);
    for (size_t c = 0; c < m.n; c++) {
        vf w[16];
        prefetch_line(&m, c, parts);
        UNROLL(p, parts)
            w[p] = load_part(&m, c, p);
        UNROLL(t, tokens) {
            vf xt = vf_set1(x[t][c]);
            UNROLL(p, parts)
                acc[p][t] = vf_fma(w[p], xt, acc[p][t]);
        }
    }
    UNROLL(p, parts)
        UNROLL(t, tokens)
            vf_store(y[t] + p / m.tile_parts * m.y_tile + p % m.tile_parts * WIDTH, acc[p][t]);
}

/* The same for rows first .. rows - 1, of which `tokens` at most: beyond the end the last row is
 * computed again, which writes the same numbers to the same place. */
SIMD void dot_some(float *y, size_t y_stride, struct lines m, const float *x, size_t x_stride,
                   size_t first, size_t rows, size_t parts, size_t tokens)
{
    float *to[8];
    const float *from[8];
    UNROLL(t, tokens) {
        size_t row = first + t < rows ? first + t : rows - 1;
        to[t] = y + row * y_stride;
        from[t] = x + row * x_stride;
    }
    dot_lines(to, m, from, parts, tokens);
}

/* Of `left` rows those that run next: TOKENS, but 8 where 6 would leave 2 are twice 4. */
SIMD size_t next_rows(size_t left)
{
    if (left > TOKENS && left <= 8)
        return 4;
    return left < TOKENS ? left : TOKENS;
}

/* The same for any number of rows. */
SIMD void dot_rows(float *y, size_t y_stride, struct lines m, const float *x, size_t x_stride,
                   size_t rows, size_t parts)
{
    for (size_t i = 0, n; i < rows; i += n)
        if ((n = next_rows(rows - i)) <= 4)
            dot_some(y, y_stride, m, x, x_stride, i, rows, parts, 4);
        else
            dot_some(y, y_stride, m, x, x_stride, i, rows, parts, TOKENS);
}

#endif
