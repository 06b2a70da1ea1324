/* What a head does, in five numbers over its rows of weights; and its picture in little. */
#ifndef LOOK_HEAD_SCORES_H
#define LOOK_HEAD_SCORES_H

#include "app/look/subject.h"

/* w_ij: weight of key j in row i. Means are over all rows but the first, which has no choice. */
struct head_scores {
    double entropy;   /* of a row, in bits: -sum_j w_ij log2 w_ij */
    double sink;      /* what goes to position 0, and to a sink */
    double previous;  /* w_i,i-1 */
    double duplicate; /* sum over earlier j with the same token as i */
    double induction; /* sum over j whose token before is the token of i (Olsson et al. 2022) */
};

struct head_picture {
    uint64_t layer, head;
    struct head_scores scores;
    size_t side;          /* cells a side */
    unsigned char *cells; /* [side, side] largest weight of each cell, 255 for 1; owned */
};

/* Looks at every row of a head. `row` is scratch [length]. A picture has at most `side` cells a
 * side; cell c holds positions c * length / side to (c + 1) * length / side - 1. Returns
 * TERN_CANCELLED when a signal asked to stop. */
enum tern_status head_picture_take(struct head_picture *p, const struct subject *s,
                                   const tern_attention *a, size_t side, float *row,
                                   struct tern_error *e);

#endif
