/* The residual stream x [n_batch, dim]: norms read it, steps add to it. */
#ifndef MODEL_RESIDUAL_H
#define MODEL_RESIDUAL_H

#include <stdbool.h>

#include "model/state.h"

static inline bool has_norm(const struct norm *norm)
{
    return norm && norm->weight;
}

/* y = norm(x)   [n]; y may be x */
void norm_row(const struct forward *f, float *y, const float *x, const struct norm *norm, size_t n);

/* x = round(x s) / s, s = 127 / max |x| (1e-5 at least): the inputs of BitNet's matrices   [n] */
void round_row(float *x, size_t n);

/* att[i, j] *= softplus(gate[i])   att [n, width], gate [n] */
void soft_gate(float *att, const float *gate, size_t n, size_t width);

/* x[i, c] += y[i, c] * residual_scale   for c0 <= c < c1; y [dim] is scaled in place */
void residual_add(const struct forward *f, size_t i, float *y, size_t c0, size_t c1);

/* x += norm(y)   where the layer has such a norm */
void step_post_norm(struct forward *f, const struct norm *norm);

/* The input of o (w->out_norm) or of down (w->down_norm), normed where it has a norm, and rounded where the layer wants it */
void step_inner_norm(struct forward *f, const struct layer *w, const struct norm *norm);

#endif
