/* The definition of the graph, and a way to run it: --cpu plain. */
#ifndef MODEL_PLAIN_H
#define MODEL_PLAIN_H

#include <stdbool.h>

#include "model/act_buffer.h"
#include "model/model.h"

struct forward;
struct row;

/* What one row needs; state.c cuts it. It takes memory only when plain_rows runs. */
struct plain {
    float *x;         /* [dim] the residual stream */
    float *h;         /* [dim] norm(x) */
    float *y, *z;     /* [dim] what a step adds to x */
    float *e;         /* [dim] x through the experts' own norm */
    float *join;      /* [2, dim] what the layer that guesses reads */
    float *streams;   /* [n_streams, dim] of altup.h */
    float *ple, *ple_row; /* [n_layers, ple_dim] each layer's own embedding, and the token's part */
    float *q, *k, *v; /* [n_heads * head_dim], [n_kv_heads * head_dim] twice */
    float *att;       /* [n_heads * head_dim] */
    float *gate, *up; /* [hidden] */
    float *cos, *sin; /* [n_ropes, half] */
    float *mix, *conv, *z_gate; /* what a mixer reads, convolved; its gate */
    float *decay, *beta;        /* [v_heads * n_decay], [v_heads] */
    float *scores;    /* [256] of a block of positions; of the router: [n_experts] */
    float *a, *A;     /* [head_dim] sums over a block, and over all blocks so far */
    bool *taken;      /* [n_experts] */
    size_t rope_stride;
    struct choice *chosen; /* [experts_used] */
    struct act_buffer in;  /* [1, widest k] the input of a matrix, quantized */
};

/* y = W x + bias   W [rows, k], x [k], y [rows], in layer l */
void plain_matmul(struct forward *f, size_t l, float *y, const struct matrix *w, const float *x);

/* One row of the layer that guesses (mtp.h): from h [dim] the state g [dim], and if wanted its logits */
void plain_guess(struct forward *f, const struct row *row, const float *h, float *g, float *logits);
/* Several streams and the learned residual (altup.h), defined: from the embedded row, the residual of
 * the normed row h into z, and the row for the head */
void plain_spread(struct forward *f);
void plain_laurel(struct forward *f, const struct layer *w, const float *h);
void plain_merge(struct forward *f);

/* Evaluates the rows of the batch, one after the other. False when it was cancelled. */
bool plain_rows(struct forward *f);

#endif
