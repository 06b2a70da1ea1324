/* The limits that kernels are held against: the widest multiply-add that a weight type may use,
 * with all operands in registers, and the plain read of memory. For programs that measure; nothing
 * that evaluates a model reaches this. <arch>_<isa>_peak.c has those of a row of kernels/targets.h.
 */
#ifndef PEAK_PEAK_H
#define PEAK_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peak {
    const char *instruction;
    unsigned macs; /* multiply-adds of one round */
    void (*run)(uint64_t rounds);
};

/* The best that a processor with the CPU bits `cpu` has for float or integer weights; NULL where
 * there is only plain C. */
const struct peak *peak_find(unsigned cpu, bool quantized);

/* Reads p .. p + n once, in order; n is a multiple of 256, p on 64 bytes. */
void peak_read(unsigned cpu, const void *p, size_t n);

/* What a target adds to those before it; NULL: nothing. For peak.c. */
struct peaks {
    struct peak floats, ints; /* run NULL: none */
    void (*read)(const void *p, size_t n);
};

#endif
