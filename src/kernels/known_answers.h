/* Known answers: every slot runs once on fixed inputs, and the hash of its results is compared with
 * a constant made by ref.c. Under a millisecond. */
#ifndef KERNELS_KNOWN_ANSWERS_H
#define KERNELS_KNOWN_ANSWERS_H

#include "kernels/kernels.h"

/* NULL when every slot of k gives its known answer, else the name of the first that does not. */
const char *known_wrong(const struct kernels *k);

/* Answer number i of k and its name, or NULL past the end: for printing new constants. */
const char *known_answer(const struct kernels *k, size_t i, uint64_t *answer);

#endif
