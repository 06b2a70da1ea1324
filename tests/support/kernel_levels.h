/* The levels at which tests run the kernels: sets of CPU bits that choose different code. */
#ifndef TESTS_KERNEL_LEVELS_H
#define TESTS_KERNEL_LEVELS_H

#include <stddef.h>

struct level {
    const char *name;
    unsigned cpu;
};

enum { N_LEVELS = 6 };
extern const struct level levels[N_LEVELS];

/* Level number i, or NULL where this machine or this build has it not. */
const struct level *level_find(size_t i);

#endif
