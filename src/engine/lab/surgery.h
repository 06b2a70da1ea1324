/* What follows from an editor's change. Sums are made again in the order of the steps, so that
 * values which were left alone keep their bits. */
#ifndef LAB_SURGERY_H
#define LAB_SURGERY_H

#include "engine/lab/observe.h"

/* x = before (+ aside) (+ y) */
void surgery_sum(struct observer *o, bool aside, bool y);

/* The keys and values of the batch into the cache again */
void surgery_store(struct forward *f, const struct layer *w);

/* The input of `down` again as integers, where it reads those */
void surgery_round(struct forward *f, const struct layer *w);

/* The experts of row i become those with a weight other than 0 in weights [n], at most as many as
 * the router chooses, by id. Those that it chose fill the places left, with weight 0. */
void surgery_choose(struct forward *f, const struct experts *x, size_t i, const float *weights);

#endif
