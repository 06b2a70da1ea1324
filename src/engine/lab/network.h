/* What all machines of a model do together, and what that costs (tern_lab.h). A measurement of one of them
 * is made by all at the same time, for processes of one host share its memory and its processors. In: what
 * each one measured; out: what all do. Without MPI it is what was measured here. */
#ifndef LAB_NETWORK_H
#define LAB_NETWORK_H

#include "engine/order.h"
#include "tern_lab.h"

#ifdef TERN_MPI

/* At the beginning: of reads, or of the peak of a type. m may be NULL. */
void network_begin(const struct tern_model *m, bool reads, enum tern_type type);

/* At the end: how fast all of the model is read, or multiplied, when each does its share at this speed. 0
 * where one of them could not measure. */
double network_together(const struct tern_model *m, double here);

/* On the others, as rank 0 ordered (ORDER_METER) */
void network_follow(struct tern_model *m, const struct order *order);

#else

#define network_begin(m, reads, type) ((void)0)
#define network_together(m, here) (here)

#endif

#endif
