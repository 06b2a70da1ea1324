/* Speed of the kernels, best of several runs: `prog_kernels --bench [NAME [THREADS]]`. A line per
 * case with a column per level, so that a slot that does not win is seen; matmul and attention also
 * as a percentage of what the machine can do at best (kernel_limits.h): reading these bytes, or the
 * level's dots from registers. THREADS share the matmuls; the rest runs on one. */
#ifndef TESTS_KERNEL_BENCH_H
#define TESTS_KERNEL_BENCH_H

/* Returns the exit status. */
int bench_all(const char *only, int threads);

#endif
