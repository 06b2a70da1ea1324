/* Random trials of every kernel slot of a target against ref.c, shared by test_kernels.c (Check)
 * and prog_kernels.c (plain, for emulators). */
#ifndef TESTS_KERNEL_TRIALS_H
#define TESTS_KERNEL_TRIALS_H

#include "kernel_levels.h"
#include "trial.h"

enum { N_SLOTS = N_TYPES + 21 };

/* Runs `count` trials of one slot at one level; returns the number of failures. */
int trial_run(struct trial *t, const struct level *level, size_t slot, uint64_t seed, size_t count);

#endif
