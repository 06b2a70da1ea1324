/* xIELU (Huang and Schlag 2024), whose numbers each layer learns: (P, N, beta, eps) in a tensor.
 *   x > 0:  ap x^2 + beta x                                ap = softplus(P)
 *   else:   (exp(min(x, eps)) - 1 - x) an + beta x         an = beta + softplus(N)
 * A NaN stays one. Scalar, so its bits are those of every target. */
#ifndef MODEL_XIELU_H
#define MODEL_XIELU_H

#include <stddef.h>

/* y[i] = xielu(x[i])   [n] */
void xielu_apply(float *y, const float *x, size_t n, const float numbers[4]);

#endif
