/* Elementary functions of the canonical arithmetic: one definition each, in plain C, that every
 * target reproduces bit for bit. No libm. Arguments are clamped before any conversion to integer,
 * so that no input, NaN included, is undefined. */
#ifndef KERNELS_MATH_H
#define KERNELS_MATH_H

float math_exp(float x); /* +0 below the smallest normal result, +inf above the largest */
float math_log(float x); /* x > 0; -inf at 0, NaN below */
float math_softplus(float x); /* log(1 + exp(x)); x above 20 */
float math_tanh(float x);
float math_erf(float x);
/* sin and cos of an angle in radians; range reduction in binary64. */
void math_sincos(float x, float *sin, float *cos);

#endif
