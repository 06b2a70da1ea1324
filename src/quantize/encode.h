/* The search for the scales of q4 and q4c. In: 32 columns of 16 rows. Out: their values and scales.
 * Nearest rounding (formats.c) divides by the value of largest magnitude; here 22 scales of either
 * sign around it are tried, the best is refined by least squares, and where the inputs of the
 * matrix are known, the rounding error of a column is compensated in later columns (factor.h). */
#ifndef QUANTIZE_ENCODE_H
#define QUANTIZE_ENCODE_H

#include "kernels/formats.h"

struct values { /* what 16 codes stand for */
    float low, high;
    float nearest[512]; /* value nearest to all from (i - 256) / 2 to the next half */
};

struct group {
    const float *w;   /* [32 columns, 16 rows] the weights */
    const float *fix; /* [32, 16] what the errors of earlier groups add to them, or NULL */
    const float *u;   /* row j, column i < j: error of column i felt in column j; NULL: none is */
    size_t u_stride;
    const float *d;              /* [32] weight of a squared error in a column; NULL: all alike */
    const struct values *values; /* NULL: -8 .. 7 */
};

struct codes {
    float q[GROUP][TILE_ROWS]; /* what the codes stand for: whole numbers */
    float scale[TILE_ROWS];    /* values of f16; a zero is +0 */
    float loss[TILE_ROWS];     /* sum over j of d_j (b_j - scale p_j)^2, b and p as in encode.c */
};

/* From a table [16] of q4c, ascending. */
void values_make(struct values *v, const int8_t *table);

/* Finite w only; others give a scale that is not finite. */
void encode_group(const struct group *g, struct codes *best);

/* Descends on e^T H e for the errors e of all columns, those of other groups held: the best scales
 * for the codes, then the best code of each column in turn, twice. h [32, 32] is the group's part
 * of H, e [32, 16] its errors and he [32, 16] = H e; all but h and the losses are kept true. */
void polish_group(struct codes *c, const struct values *values, const float (*h)[GROUP],
                  float (*e)[TILE_ROWS], float (*he)[TILE_ROWS]);

#endif
