/* The limits that kernels are held against: the instructions that a dot with weights of a type takes,
 * with all operands in registers, and the plain read of memory. For programs that measure; nothing
 * that evaluates a model reaches this. <arch>_<isa>_peak.c has those of a row of kernels/targets.h.
 */
#ifndef PEAK_PEAK_H
#define PEAK_PEAK_H

#include <stddef.h>
#include <stdint.h>

#include "tern.h"

struct peak {
    const char *instruction;
    unsigned macs; /* multiply-adds of one round */
    void (*run)(uint64_t rounds);
};

/* The best that a processor with the CPU bits `cpu` has for weights of `type`; NULL where there is
 * only plain C. */
const struct peak *peak_find(unsigned cpu, enum tern_type type);

/* Reads p .. p + n once, in order; n is a multiple of 256, p on 64 bytes. */
void peak_read(unsigned cpu, const void *p, size_t n);

/* What a target adds to those before it; NULL: nothing. For peak.c. */
struct peaks {
    struct peak floats, ints, q4; /* run NULL: none; ints: q8, q4c, and q4 where it has no own */
    void (*read)(const void *p, size_t n);
};

#endif
