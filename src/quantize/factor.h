/* What is known of a matrix's inputs, and what the encoder makes of it. In: H = X^T X of input
 * rows X [n, k]. Out: the factors of H = U D U^T, U unit upper triangular: an error e of a row of
 * weights costs e^T H e = sum over j of d_j (e_j + sum_{i<j} u_ij e_i)^2.
 *
 * Columns are taken in bands of at most 4096 that do not feel each other, so that memory and
 * time stay bounded. Sums over X use the matmul kernel of f32, whose order is fixed, and the rest
 * is plain double arithmetic: the same bits for any number of threads and any processor. */
#ifndef QUANTIZE_FACTOR_H
#define QUANTIZE_FACTOR_H

#include "base/arena.h"
#include "base/pool.h"
#include "kernels/kernels.h"

struct gram {               /* H, lower triangle within the bands */
    size_t k, stride, band; /* k is a multiple of 32; columns of a band; floats of a row */
    float *h;               /* [k, stride]: row i, column j - first column of i's band */
};

struct factor {
    size_t k, stride, band;
    float *u;        /* [k, stride]: row j holds u_ij for the columns i < j of its band */
    float *d;        /* [k] */
    float *diagonal; /* [k] of H, damped */
    const float *h;  /* [k, stride] all of H's bands, not damped, borrowed */
    double *work;
    struct arena arena;
};

/* Shape of the gram of matrices with k columns, and its bytes. */
struct gram gram_shape(size_t k);
uint64_t gram_bytes(size_t k);

/* Scratch for gram_add: up to n rows of up to k columns. */
struct gram_scratch {
    float *x;     /* [n, x_stride]: the caller puts input rows here */
    float *tiles; /* X^T as tiles [k, n] */
    float *t;     /* X^T row by row [k, t_stride] */
    float *y;     /* [threads, 16, 4096] */
    size_t x_stride, t_stride;
    struct arena arena;
};
enum tern_status gram_scratch_open(struct gram_scratch *s, size_t n, size_t k, int n_threads,
                                   struct tern_error *e);
void gram_scratch_close(struct gram_scratch *s);

/* H += X^T X for the n rows in s->x, of which k columns count. */
void gram_add(const struct gram *g, struct gram_scratch *s, size_t n, size_t k,
              const struct kernels *kernels, struct pool *pool);

/* Room for the factor of a gram of up to k columns. */
enum tern_status factor_open(struct factor *f, size_t k, struct tern_error *e);
void factor_close(struct factor *f);

/* Factors g with `damping` times its mean diagonal added to it, and fills the upper triangle of its
 * bands. False when g is not finite; a gram of zeros gives U = 1, d = 1. */
bool factor_make(struct factor *f, const struct gram *g, double damping, struct pool *pool);

#endif
