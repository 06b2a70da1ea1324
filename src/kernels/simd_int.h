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

/* A matrix of blocks, and the rows of x and y that meet it */
struct blocks {
    const unsigned char *w; /* first tile */
    size_t tile, y_tile;    /* bytes between tiles, floats between their rows of y; 0: one tile met
                               twice */
    size_t groups;
    bool q4;
    const int8_t *q[8]; /* [tokens] */
    const float *scale[8];
    const int32_t *sum[8];
    float *y[8];
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
            const int8_t *q = b->q[t] + g * GROUP + 8 * j;
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
            vf s = vf_mul(ws, vf_set1(b->scale[t][g]));
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
            bias[t * CHUNK + i] = factor * b->sum[t][g + i];
}

/* y[t][r] for `parts` vectors of rows of w and `tokens` rows of x, both constants */
SIMD void dot_blocks(const struct blocks *b, size_t parts, size_t tokens)
{
    vf acc[8][8];
    int32_t bias[8 * CHUNK];
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            acc[p][t] = vf_set1(0);
    for (size_t g0 = 0; g0 < b->groups; g0 += CHUNK) {
        size_t n = b->groups - g0 < CHUNK ? b->groups - g0 : CHUNK;
        find_biases(bias, b, g0, n, tokens);
        for (size_t i = 0; i < n; i++)
            add_group(acc, b, g0 + i, bias + i, parts, tokens);
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            vf_store(b->y[t] + p / INT_PER_16 * b->y_tile + p % INT_PER_16 * WIDTH, acc[p][t]);
}

/* The same for the rows of x from `first` on, `tokens` at most: beyond the end the last row is
 * computed again, which writes the same numbers to the same place. */
SIMD void dot_some_blocks(struct blocks b, float *y, size_t y_stride, const struct activations *x,
                          size_t first, size_t parts, size_t tokens)
{
#pragma GCC unroll 8
    for (size_t t = 0; t < tokens; t++) {
        size_t row = first + t < x->n ? first + t : x->n - 1;
        b.q[t] = x->q + row * x->stride;
        b.scale[t] = x->scale + row * x->group_stride;
        b.sum[t] = x->sum + row * x->group_stride;
        b.y[t] = y + row * y_stride;
    }
    dot_blocks(&b, parts, tokens);
}

/* The same for all rows of x. */
SIMD void dot_all_blocks(struct blocks b, float *y, size_t y_stride, const struct activations *x,
                         size_t parts)
{
    for (size_t i = 0; i < x->n; i += INT_TOKENS)
        if (INT_TOKENS > 4 && x->n - i <= 4)
            dot_some_blocks(b, y, y_stride, x, i, parts, 4);
        else
            dot_some_blocks(b, y, y_stride, x, i, parts, INT_TOKENS);
}

SIMD void matmul_int(float *y, size_t y_stride, const void *w, bool q4, size_t tile0, size_t tile1,
                     const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, t = tile0;
    size_t tile = groups * ((q4 ? Q4_LINES : Q8_LINES) + 2 * TILE_ROWS);
    struct blocks b = {.tile = tile, .y_tile = TILE_ROWS, .groups = groups, .q4 = q4};
    for (; x->n == 1 && t + INT_DECODE <= tile1; t += INT_DECODE) {
        b.w = (const unsigned char *)w + t * tile;
        dot_some_blocks(b, y + t * TILE_ROWS, 0, x, 0, INT_DECODE * INT_PER_16, 1);
    }
    for (; t < tile1; t += TILES) {
        b.w = (const unsigned char *)w + t * tile;
        if (t + TILES > tile1)
            b.tile = b.y_tile = 0;
        if (x->n == 1)
            dot_some_blocks(b, y + t * TILE_ROWS, 0, x, 0, TILES * INT_PER_16, 1);
        else
            dot_all_blocks(b, y + t * TILE_ROWS, y_stride, x, TILES * INT_PER_16);
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
