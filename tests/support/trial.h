/* The world of a trial of a kernel: random numbers, and buffers that end at an unmapped page and begin
 * after a canary. A trial is a pure function of its number and seed. Failures are printed with slot,
 * seed, shape and index. */
#ifndef TESTS_TRIAL_H
#define TESTS_TRIAL_H

#include "kernels/kernels.h"

enum { N_REGIONS = 48, REGION = 1 << 20, CANARY = 64 };

struct trial {
    struct kernels k, ref;
    const char *slot, *level;
    uint64_t seed, state, hash; /* hash: of all results of ref */
    char *region[N_REGIONS];
    size_t bytes[N_REGIONS], used;
    char shape[160];
    int failures;
};

void trial_open(struct trial *t);
void trial_close(struct trial *t);

/* Counts a failure and prints the first ones. */
void trial_mismatch(struct trial *t, const char *what, size_t i, double got, double want);

/* Counts canaries of this trial that were written to as failures. */
void trial_check_canaries(struct trial *t);

/* `bytes` bytes that end where memory ends, filled with NaN patterns. */
void *trial_take(struct trial *t, size_t bytes);

/* Equal bits; NaNs are alike. */
void trial_same_floats(struct trial *t, const char *what, const float *got, const float *want,
                       size_t n);
void trial_same_bytes(struct trial *t, const char *what, const void *got, const void *want,
                      size_t n);

/* ---- numbers ---- */

enum { PLAIN, WIDE, TINY, ZEROS, HUGE_ONES, N_KINDS };

size_t trial_in(struct trial *t, size_t lo, size_t hi); /* in [lo, hi] */
uint64_t trial_rnd(struct trial *t);
size_t trial_length(struct trial *t); /* of a row: every tail length; it becomes the shape */
float trial_float(struct trial *t, size_t kind);
float *trial_floats(struct trial *t, size_t n, size_t kind); /* taken */

/* Finite f16 or bf16 of any exponent, which `exponent` has the bits of */
void trial_halves(struct trial *t, uint16_t *h, size_t n, uint16_t exponent, size_t kind);

#endif
