/* matmul with q8 and q4 weights in the vocabulary of ops_*.h: integer dots of groups of 32, whose
 * lanes are rows of a tile. `int_init` sets the slots. */
#ifndef KERNELS_SIMD_INT_H
#define KERNELS_SIMD_INT_H

enum {
    INT_PER_16 = 16 / WIDTH,
    INT_AHEAD = 1536, /* bytes of prefetch */
    CHUNK = 64,       /* groups whose biases are computed together */
    Q8_LINES = 512,   /* bytes of a block before its scales */
    Q4_LINES = 256
};

/* A matrix of blocks; for one row or several of x */
struct blocks {
    const unsigned char *w; /* first tile */
    size_t tile;            /* bytes between tiles */
    const int8_t *q;
    const float *scale;
    const int32_t *sum;
    size_t stride, group_stride, groups;
    bool q4;
};

/* acc[p][t] += dot * (ws * xs) for group g of all tiles (parts) and rows (tokens);
 * bias [8, CHUNK] at this group's column */
SIMD void add_group(vf acc[8][8], const struct blocks *b, size_t g, const int32_t *bias,
                    size_t parts, size_t tokens)
{
    size_t lines = b->q4 ? Q4_LINES : Q8_LINES, bytes = lines + 2 * TILE_ROWS;
    const unsigned char *block[8];
    va dot[8][8];
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++) {
        block[p] = b->w + p / INT_PER_16 * b->tile + g * bytes;
        if (p % INT_PER_16 == 0)
#pragma GCC unroll 9
            for (size_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(block[p] + INT_AHEAD + i);
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            dot[p][t] = va_start(bias + t * CHUNK, b->q4);
    }
#pragma GCC unroll 2
    for (size_t j = 0; j < 4; j++) { /* two quads of k at a time */
        vw w[8][2];
#pragma GCC unroll 8
        for (size_t p = 0; p < parts; p++) {
            size_t part = p % INT_PER_16 * 4 * WIDTH;
            if (b->q4) {
                vw_q4(w[p], block[p] + j * 64 + part);
            } else {
                w[p][0] = vw_q8(block[p] + 2 * j * 64 + part);
                w[p][1] = vw_q8(block[p] + (2 * j + 1) * 64 + part);
            }
        }
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++) {
            const int8_t *q = b->q + t * b->stride + g * GROUP + 8 * j;
            vx x0 = vx_load(q), x1 = vx_load(q + 4);
#pragma GCC unroll 8
            for (size_t p = 0; p < parts; p++)
                dot[p][t] = va_dot(dot[p][t], w[p][0], x0, b->q4);
#pragma GCC unroll 8
            for (size_t p = 0; p < parts; p++)
                dot[p][t] = va_dot(dot[p][t], w[p][1], x1, b->q4);
        }
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++) {
        const unsigned char *scales = block[p] + lines + p % INT_PER_16 * 2 * WIDTH;
        vf ws = vf_load_f16((const uint16_t *)(const void *)scales);
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++) {
            vf s = vf_mul(ws, vf_set1(b->scale[t * b->group_stride + g]));
            acc[p][t] = vf_fma(va_end(dot[p][t], bias + t * CHUNK, b->q4), s, acc[p][t]);
        }
    }
}

/* What the sums of x take back, for n groups from g on: -BIAS * sum */
SIMD void find_biases(int32_t *bias, const struct blocks *b, size_t g, size_t n, size_t tokens)
{
    int32_t factor = b->q4 ? -BIAS_Q4 : -BIAS_Q8;
    for (size_t t = 0; factor && t < tokens; t++)
        for (size_t i = 0; i < n; i++)
            bias[t * CHUNK + i] = factor * b->sum[t * b->group_stride + g + i];
}

/* y[t, 16 * tile + r] for `parts` vectors of rows and `tokens` rows of x, both constants */
SIMD void dot_blocks(float *y, size_t y_stride, struct blocks b, size_t parts, size_t tokens)
{
    vf acc[8][8];
    int32_t bias[8 * CHUNK];
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            acc[p][t] = vf_set1(0);
    for (size_t g0 = 0; g0 < b.groups; g0 += CHUNK) {
        size_t n = b.groups - g0 < CHUNK ? b.groups - g0 : CHUNK;
        find_biases(bias, &b, g0, n, tokens);
        for (size_t i = 0; i < n; i++)
            add_group(acc, &b, g0 + i, bias + i, parts, tokens);
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            vf_store(y + t * y_stride + p * WIDTH, acc[p][t]);
}

SIMD struct blocks skip_rows(struct blocks b, size_t n)
{
    b.q += n * b.stride;
    b.scale += n * b.group_stride;
    b.sum += n * b.group_stride;
    return b;
}

/* The same for any number of rows of x: TOKENS of them together, then fewer. */
SIMD void dot_block_rows(float *y, size_t y_stride, struct blocks b, size_t rows, size_t parts)
{
    for (; rows >= TOKENS; rows -= TOKENS) {
        dot_blocks(y, y_stride, b, parts, TOKENS);
        b = skip_rows(b, TOKENS);
        y += TOKENS * y_stride;
    }
    if (TOKENS > 4 && rows >= 4) {
        dot_blocks(y, y_stride, b, parts, 4);
        b = skip_rows(b, 4);
        y += 4 * y_stride;
        rows -= 4;
    }
    if (rows >= 2) {
        dot_blocks(y, y_stride, b, parts, 2);
        b = skip_rows(b, 2);
        y += 2 * y_stride;
        rows -= 2;
    }
    if (rows)
        dot_blocks(y, y_stride, b, parts, 1);
}

SIMD void matmul_int(float *y, size_t y_stride, const void *w, bool q4, size_t tile0, size_t tile1,
                     const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, t = tile0;
    size_t tile = groups * ((q4 ? Q4_LINES : Q8_LINES) + 2 * TILE_ROWS);
    struct blocks b = {(const unsigned char *)w + t * tile,
                       tile,
                       x->q,
                       x->scale,
                       x->sum,
                       x->stride,
                       x->group_stride,
                       groups,
                       q4};
    y += t * TILE_ROWS;
    if (x->n == 1)
        for (; t + INT_DECODE <= tile1; t += INT_DECODE) {
            dot_blocks(y, 0, b, INT_DECODE * INT_PER_16, 1);
            b.w += INT_DECODE * tile;
            y += INT_DECODE * TILE_ROWS;
        }
    else
        for (; TILES > 1 && t + TILES <= tile1; t += TILES) {
            dot_block_rows(y, y_stride, b, x->n, TILES * INT_PER_16);
            b.w += TILES * tile;
            y += TILES * TILE_ROWS;
        }
    for (; t < tile1; t++) {
        dot_block_rows(y, y_stride, b, x->n, INT_PER_16);
        b.w += tile;
        y += TILE_ROWS;
    }
}

static void matmul_q8(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    matmul_int(y, y_stride, w, false, tile0, tile1, x);
}

static void matmul_q4(float *y, size_t y_stride, const void *w, size_t tile0, size_t tile1,
                      const struct activations *x)
{
    matmul_int(y, y_stride, w, true, tile0, tile1, x);
}

SIMD void int_init(struct kernels *k)
{
    k->matmul[TERN_Q8] = matmul_q8;
    k->matmul[TERN_Q4] = matmul_q4;
}

#endif
