/* Sums over a row in one order: 16 lanes, value i in lane i mod 16, then lane j + lane j + 8, 4, 2, 1.
 * ffn.c and altup.c use them. */
#ifndef MODEL_MOMENTS_H
#define MODEL_MOMENTS_H

#include <stddef.h>

/* sum x / n   [n] */
float moments_mean(const float *x, size_t n);

/* sum (x - about)^2 / n   [n] */
float moments_square(const float *x, size_t n, float about);

/* Sparse activations (Gemma 3n): x = max(x - (mean + c * deviation), 0)   [n] */
void moments_cut(float *x, size_t n, float c);

#endif
