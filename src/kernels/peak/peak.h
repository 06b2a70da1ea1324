/* The limits that kernels are held against: the widest multiply-add that a weight type may use,
 * with all operands in registers, and the plain read of memory. For programs that measure; nothing
 * that evaluates a model reaches this. ADDING A TARGET: a file <arch>_<isa>_peak.c, its rows in
 * peak.c. */
#ifndef PEAK_PEAK_H
#define PEAK_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peak {
    const char *instruction;
    unsigned needs; /* CPU bits */
    bool quantized; /* of int8 and int4 weights; else of float weights */
    unsigned macs;  /* multiply-adds of one round */
    void (*run)(uint64_t rounds);
};

/* The best that a processor with the CPU bits `cpu` has for float or integer weights; NULL where
 * there is only plain C. */
const struct peak *peak_find(unsigned cpu, bool quantized);

/* Reads p .. p + n once, in order; n is a multiple of 256, p on 64 bytes. */
void peak_read(unsigned cpu, const void *p, size_t n);

/* For peak.c: what each target has. */
extern const struct peak x86_avx2_fma, x86_avx2_dot, x86_avxvnni_dot, x86_avx512_fma,
    x86_avx512_dot, x86_avx512vnni_dot, arm_neon_fma, arm_neon_dot, arm_dotprod_dot;
void x86_avx2_read(const void *p, size_t n);
void x86_avx512_read(const void *p, size_t n);
void arm_neon_read(const void *p, size_t n);

#endif
