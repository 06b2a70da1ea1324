/* The mixers that keep a state, defined: a file each. plain.c calls them row by row; recurrence.c
 * computes the same bits for many rows, and shares what is defined for one row. */
#ifndef MODEL_PLAIN_MIXER_H
#define MODEL_PLAIN_MIXER_H

#include "model/state.h"

/* y [dim] = the mixer of h [dim], the normed row; moves the sequence's state on by the row */
void plain_recurrent(struct forward *f, const struct layer *w, const struct row *row, float *y,
                     const float *h);
void plain_convolution(struct forward *f, const struct layer *w, const struct row *row, float *y,
                       const float *h);

/* What they share: the row of the log, with its decay and beta; f->plain.conv = conv(in) */
void plain_log(struct forward *f, const struct layer *w, const struct row *row, const float *in);
void plain_convolve(struct forward *f, const struct layer *w, float *state, const float *in,
                    bool silu);

/* From what decay [n_decay] and beta project, of a head: the numbers that its state reads */
void recurrent_numbers(const struct mixer *x, size_t head, float *decay, float *beta);

/* Heads h0 .. h1 - 1 of what follows, and of it what has no norm to wait for, or the norm and the rest */
struct finish {
    size_t h0, h1;
    unsigned halves;
};
enum { FINISH_VALUES = 1, FINISH_NORM = 2, FINISH_ALL = 3 };

/* o [v_heads * v_dim], read from the states, becomes what the output matrix reads; v the values
 * that went in, z the gate; z is overwritten. */
void recurrent_finish(const struct kernels *k, const struct mixer *x, float *o, const float *v,
                      float *z, struct finish part);

/* q or k of a head [k_dim], out of the convolution, as the state reads it */
void recurrent_key(const struct kernels *k, const struct mixer *x, float *key, bool is_query);

/* Of the columns of a head, block number `at`: how many; its place in S of the layer */
static inline size_t state_columns(const struct mixer *x, size_t at)
{
    size_t left = x->v_dim - at * STATE_COLUMNS;
    return left < STATE_COLUMNS ? left : STATE_COLUMNS;
}
static inline size_t state_place(const struct mixer *x, size_t head, size_t at)
{
    return mixer_inputs(x) + x->k_dim * (head * x->v_dim + at * STATE_COLUMNS);
}

#endif
