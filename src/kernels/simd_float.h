/* matmul with f32, f16 and bf16 weights in the vocabulary of ops_*.h. `float_init` sets the slots.
 */
#ifndef KERNELS_SIMD_FLOAT_H
#define KERNELS_SIMD_FLOAT_H

#include "kernels/simd_lines.h"

enum { PAIR_TILES = WIDTH == 16 ? 4 : 2 }; /* in flight for two rows of x: a guess and its token */

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
    for (; x->n == 2 && t + PAIR_TILES <= tile1; t += PAIR_TILES) {
        m.w = (const char *)w + t * tile * bytes;
        dot_some(y + t * TILE_ROWS, y_stride, m, x->x, x->stride, 0, 2, PAIR_TILES * PER_16, 2);
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

SIMD void float_init(struct kernels *k)
{
    k->matmul[TERN_F32] = matmul_f32;
    k->matmul[TERN_F16] = matmul_f16;
    k->matmul[TERN_BF16] = matmul_bf16;
}

#endif
