/* The levels at which tests run the kernels: the vector rows of the table of targets. */
#ifndef TESTS_KERNEL_LEVELS_H
#define TESTS_KERNEL_LEVELS_H

#include <stddef.h>

#include "kernels/targets.h"

struct level {
    const char *name;
    unsigned cpu;
};

#define ONE_LEVEL(file, name, needs) +1
enum { N_LEVELS = 0 VECTOR_TARGETS(ONE_LEVEL) };
extern const struct level levels[N_LEVELS + 1]; /* the last is empty: plain C has none */

/* Level number i, or NULL where this machine cannot run it. */
const struct level *level_find(size_t i);

#endif
