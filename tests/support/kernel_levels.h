/* The levels at which tests run the kernels: a row of the table of targets each. */
#ifndef TESTS_KERNEL_LEVELS_H
#define TESTS_KERNEL_LEVELS_H

#include <stddef.h>

#include "kernels/targets.h"

struct level {
    const char *name; /* of the row's file */
    unsigned cpu;
};

#define ONE_LEVEL(file, name, needs) +1
enum { N_LEVELS = 0 TARGETS(ONE_LEVEL, ONE_LEVEL) };
extern const struct level levels[N_LEVELS];

/* Level number i, or NULL where this machine cannot run it, or where it is ref itself. */
const struct level *level_find(size_t i);

#endif
