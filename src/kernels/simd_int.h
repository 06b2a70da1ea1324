/* matmul with q8 and q4 weights in the vocabulary of ops_*.h: integer dots of groups of 32, whose
 * lanes are rows of a tile. `int_init` sets the slots. */
#ifndef KERNELS_SIMD_INT_H
#define KERNELS_SIMD_INT_H

enum {
    INT_PER_16 = 16 / WIDTH,
    INT_AHEAD = 4096, /* bytes of prefetch */
    Q8_LINES = 512,   /* bytes of a block before its scales */
    Q4_LINES = 256
};

/* A matrix of blocks, and the rows of x that meet it: one row (q, scale and sum one after the
 * other), or octets, beginning at some row of the first */
struct blocks {
    const unsigned char *w; /* first tile */
    size_t tile, y_tile;    /* bytes between tiles, floats between their rows of y; 0: one tile met
                               twice */
    size_t groups;
    bool q4, one; /* constants where this is used */
    const int8_t *q;
    const float *scale;
    const int32_t *sum;
    const unsigned char
        *next; /* memory to prefetch, `ahead` bytes a group; for one row: INT_AHEAD */
    size_t ahead;
};

/* Bytes from group to group of x, and from quad to quad of k */
SIMD size_t x_group(const struct blocks *b, size_t one)
{
    return b->one ? one : sizeof(struct octet);
}

SIMD size_t x_quad(const struct blocks *b)
{
    return b->one ? 4 : 4 * OCTET;
}

/* acc[p][t] += dot * (ws * xs) for group g of all tiles (parts) and rows (tokens) */
SIMD void add_group(vf acc[8][8], const struct blocks *b, size_t g, size_t parts, size_t tokens)
{
    size_t lines = b->q4 ? Q4_LINES : Q8_LINES, bytes = lines + 2 * TILE_ROWS;
    const unsigned char *block[8];
    const int8_t *q = b->q + g * x_group(b, GROUP);
    const float *xs = (const float *)(const void *)((const char *)b->scale + g * x_group(b, 4));
    const int32_t *sum = (const int32_t *)(const void *)((const char *)b->sum + g * x_group(b, 4));
    int32_t bias[8]; /* what the sum takes back */
    va dot[8][8];
#pragma GCC unroll 8
    for (size_t t = 0; t < tokens; t++)
        bias[t] = -(b->q4 ? BIAS_Q4 : BIAS_Q8) * sum[t];
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++) {
        block[p] = b->w + p / INT_PER_16 * b->tile + g * bytes;
        if (b->one && p % INT_PER_16 == 0)
#pragma GCC unroll 9
            for (size_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(block[p] + INT_AHEAD + i);
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            dot[p][t] = va_start(bias + t, b->q4);
    }
    for (size_t i = 0; !b->one && i < b->ahead; i += 64)
        __builtin_prefetch(b->next + g * b->ahead + i);
#pragma GCC unroll INT_UNROLL
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
#pragma GCC unroll 2
        for (size_t i = 0; i < 2; i++)
#pragma GCC unroll 8
            for (size_t t = 0; t < tokens; t++) {
                vx x = vx_load(q + (2 * j + i) * x_quad(b) + 4 * t);
#pragma GCC unroll 8
                for (size_t p = 0; p < parts; p++)
                    dot[p][t] = va_dot(dot[p][t], w[p][i], x, b->q4);
            }
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++) {
        const unsigned char *scales = block[p] + lines + p % INT_PER_16 * 2 * WIDTH;
        vf ws = vf_load_f16((const uint16_t *)(const void *)scales);
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++) {
            vf s = vf_mul(ws, vf_set1(xs[t]));
            acc[p][t] = vf_fma(va_end(dot[p][t], bias + t, b->q4), s, acc[p][t]);
        }
    }
}

/* y[t][r] for `parts` vectors of rows of w and `tokens` rows of x (both constants), of which the
 * first n are stored */
SIMD void dot_blocks(float *y, size_t y_stride, const struct blocks *b, size_t parts, size_t tokens,
                     size_t n)
{
    vf acc[8][8];
#pragma GCC unroll 8
    for (size_t p = 0; p < parts; p++)
#pragma GCC unroll 8
        for (size_t t = 0; t < tokens; t++)
            acc[p][t] = vf_set1(0);
    for (size_t g = 0; g < b->groups; g++)
        add_group(acc, b, g, parts, tokens);
#pragma GCC unroll 8
    for (size_t t = 0; t < tokens; t++)
        if (t < n)
#pragma GCC unroll 8
            for (size_t p = 0; p < parts; p++)
                vf_store(y + t * y_stride + p / INT_PER_16 * b->y_tile + p % INT_PER_16 * WIDTH,
                         acc[p][t]);
}

/* The same for one row of x. */
SIMD void dot_one(float *y, struct blocks b, const struct activations *x, size_t parts)
{
    b.one = true, b.q = x->q, b.scale = x->scale, b.sum = x->sum;
    dot_blocks(y, 0, &b, parts, 1, 1);
}

/* The same for all rows of x. Meanwhile the next tiles, `bytes` of them, come nearer. */
SIMD void dot_octets(float *y, size_t y_stride, struct blocks b, const struct activations *x,
                     size_t parts, size_t bytes)
{
    size_t times = (x->n + INT_TOKENS - 1) / INT_TOKENS;
    const unsigned char *end = b.w + 2 * bytes;
    b.ahead = (bytes / (times * b.groups) + 63) / 64 * 64;
    b.next = b.w + bytes;
    for (size_t i = 0; i < x->n; i += INT_TOKENS, b.next += b.groups * b.ahead) {
        const struct octet *o = x->octets + octet_at(i, 0, x->k);
        size_t lane = i % OCTET, left = x->n - i;
        b.q = o->q[0][lane], b.scale = o->scale + lane, b.sum = o->sum + lane;
        if (b.next >= end)
            b.ahead = 0;
        if (INT_TOKENS > 4 && left <= 4)
            dot_blocks(y + i * y_stride, y_stride, &b, parts, 4, left);
        else
            dot_blocks(y + i * y_stride, y_stride, &b, parts, INT_TOKENS, left);
    }
}

SIMD void matmul_int(float *y, size_t y_stride, const void *w, bool q4, size_t tile0, size_t tile1,
                     const struct activations *x)
{
    size_t groups = (x->k + GROUP - 1) / GROUP, t = tile0;
    size_t tile = groups * ((q4 ? Q4_LINES : Q8_LINES) + 2 * TILE_ROWS);
    struct blocks b = {.tile = tile, .y_tile = TILE_ROWS, .groups = groups, .q4 = q4};
    for (; x->n == 1 && t < tile1; t++) { /* one stream through memory */
        b.w = (const unsigned char *)w + t * tile;
        dot_one(y + t * TILE_ROWS, b, x, INT_PER_16);
    }
    for (; t < tile1; t += INT_TILES) {
        b.w = (const unsigned char *)w + t * tile;
        if (t + INT_TILES > tile1)
            b.tile = b.y_tile = 0;
        dot_octets(y + t * TILE_ROWS, y_stride, b, x, INT_TILES * INT_PER_16, INT_TILES * tile);
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
