/* Several streams (AltUp, Baykal et al. 2023) and a learned residual (Laurel), as Gemma 3n has them.
 * The layers read and change stream 0, which is x, alone. Before a layer all streams are mixed;
 * after it the others follow the change of stream 0. The last streams become one row for the head.
 *
 * The functions of a row are the definition, too: plain.c calls them. Streams of a row lie `stride`
 * floats apart; place 0 keeps stream 0 as it was before the layer. room [dim] is scratch. */
#ifndef MODEL_ALTUP_H
#define MODEL_ALTUP_H

#include "model/state.h"

enum { MAX_STREAMS = 8 };

#define LAUREL_SCALE 0x1.6a09e6p-1f /* sqrt(1 / 2) */

/* y *= sqrt(mean x^2) / sqrt(max(mean y^2, 1e-5))   both [dim] */
void altup_match(const struct forward *f, float *y, const float *x);

/* The numbers that mix the streams: p [n, n] = P m, with m of x before a layer; c [n] = C m + 1, with m
 * of x after it. room [dim] */
void altup_predict_by(const struct forward *f, const struct layer *w, const float *x, float *room,
                      float *p);
void altup_correct_by(const struct forward *f, const struct layer *w, const float *x, float *room,
                      float *c);

/* m = tanh(Wrouter norm(x) / dim);  s_i += sum_k (P m)[i, k] s_k, for every stream, s_0 = x */
void altup_predict(const struct forward *f, const struct layer *w, float *x, float *streams,
                   size_t stride, float *room);

/* m = tanh(Wrouter norm(x) / dim), d = x - s_0;  s_i += (C m + 1)[i] d;  x = the new s_0;
 * first = x * scale */
void altup_correct(const struct forward *f, const struct layer *w, float *x, float *streams,
                   size_t stride, float *first);

/* s_i += y for i > 0 */
void altup_add(const struct forward *f, float *streams, size_t stride, const float *y);

/* x = (x + l) / sqrt(2)   [dim], l of step_laurel */
void laurel_add(const struct forward *f, float *x, const float *l);

/* The steps. They do nothing where the model has one stream, or the layer no such part. */
void step_spread(struct forward *f);                            /* s_i = Win[i] x, matched to x */
void step_predict(struct forward *f, const struct layer *w);    /* altup_predict */
void step_laurel(struct forward *f, const struct layer *w);     /* l = h + norm(Wright Wleft h) */
void step_add_laurel(struct forward *f, const struct layer *w); /* laurel_add */
void step_correct(struct forward *f, const struct layer *w);    /* altup_correct */
void step_merge(struct forward *f); /* x = (x + sum of Wout[i] s_i, matched to x) / n */

#endif
