/* The table of targets, narrow to wide: what --cpu may name. One row is one set of vector kernels.
 * A row has three columns:
 *
 *   file   <arch>_<isa>: file.c defines file_init, peak/file_peak.c defines file_peak
 *   name   of the target
 *   needs  CPU bits (base/cpu.h), with all that they imply: the target uses the kernels of every
 *          row that needs no others, the last one first
 *
 * Whoever needs something of every target expands TARGETS with macros of its own: the choice among
 * targets (kernels.c), the limits of the machine (peak/peak.c), the names that help texts show
 * (engine), the levels at which tests run the kernels.
 *
 * ADDING A TARGET: a row here; src/kernels/<arch>_<isa>.c, whose first line states its compiler
 * flags and which sets the slots that it wins (usually by the simd_*.h in the vocabulary of an
 * ops_<isa>.h); src/kernels/peak/<arch>_<isa>_peak.c. A new instruction set is a bit in base/cpu.h
 * and its detection in base/cpu.c. A new name also stands in the man page; a test holds it to this
 * table. */
#ifndef KERNELS_TARGETS_H
#define KERNELS_TARGETS_H

#include "base/cpu.h"
#include "kernels/kernels.h"

/* Plain C, for any processor. Under the name of plain, model/plain.c runs the graph as well. */
#define TARGETS_REF(TARGET) \
    TARGET(ref, plain, 0)   \
    TARGET(ref, ref, 0)

#define TARGETS_X86(TARGET)                                \
    TARGET(x86_avx2, avx2, CPU_AVX2)                       \
    TARGET(x86_avxvnni, avx2vnni, CPU_AVX2 | CPU_AVX_VNNI) \
    TARGET(x86_avx512, avx512, CPU_AVX2 | CPU_AVX512)      \
    TARGET(x86_avx512vnni, avx512vnni, CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI)

#define TARGETS_ARM(TARGET)          \
    TARGET(arm_neon, neon, CPU_NEON) \
    TARGET(arm_dotprod, dotprod, CPU_NEON | CPU_DOTPROD) \
    TARGET(arm_i8mm, i8mm, CPU_NEON | CPU_DOTPROD | CPU_I8MM)

/* Those of this build */
#if defined(__x86_64__) && !defined(REF_ONLY)
#define VECTOR_TARGETS(TARGET) TARGETS_X86(TARGET)
#elif defined(__aarch64__) && !defined(REF_ONLY)
#define VECTOR_TARGETS(TARGET) TARGETS_ARM(TARGET)
#else
#define VECTOR_TARGETS(TARGET)
#endif
#define TARGETS(TARGET) TARGETS_REF(TARGET) VECTOR_TARGETS(TARGET)

/* Puts the kernels of a row into the slots that it wins; ref_init fills all of them. */
#define DECLARE_INIT(file, name, needs) void file##_init(struct kernels *k);
TARGETS(DECLARE_INIT)

#endif
