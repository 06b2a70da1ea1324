/* What the processor, and the operating system on it, can run: a set of bits, from which the kernels
 * choose a target (kernels/targets.h). A narrower processor is simulated by clearing bits. cpu.c
 * alone knows cpuid and the auxiliary vector.
 * A NEW INSTRUCTION SET: a bit here, its detection in cpu.c. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include "base/strict.h"

enum {
    CPU_AVX2 = 1 << 0,        /* AVX2, FMA and F16C */
    CPU_AVX_VNNI = 1 << 1,    /* 256-bit vpdpbusd without AVX-512; implies CPU_AVX2 */
    CPU_AVX512 = 1 << 2,      /* AVX-512 F, BW, VL and DQ; implies CPU_AVX2 */
    CPU_AVX512_VNNI = 1 << 3, /* implies CPU_AVX512 */
    CPU_NEON = 1 << 4,        /* AArch64's base vector set */
    CPU_DOTPROD = 1 << 5,     /* sdot and udot; implies CPU_NEON */
    CPU_I8MM = 1 << 6,        /* smmla; implies CPU_DOTPROD */
};

/* Every bit that this machine can run; 0: plain C only. */
unsigned cpu_detect(void);

#endif
