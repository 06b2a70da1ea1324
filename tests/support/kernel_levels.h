/* The levels at which tests run the kernels: sets of CPU bits that choose different code. */
#ifndef TESTS_KERNEL_LEVELS_H
#define TESTS_KERNEL_LEVELS_H

#include <string.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

struct level {
    const char *name;
    unsigned cpu;
};

static const struct level levels[] = {
    {"avx2", CPU_AVX2},
    {"avx2 vnni", CPU_AVX2 | CPU_AVX_VNNI},
    {"avx512", CPU_AVX2 | CPU_AVX512},
    {"avx512 vnni", CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI},
    {"neon", CPU_NEON},
    {"neon dotprod", CPU_NEON | CPU_DOTPROD},
};

enum { N_LEVELS = sizeof levels / sizeof *levels };

/* Level number i, or NULL where this machine or this build has it not. */
static const struct level *level_find(size_t i)
{
    struct kernels k;
    if (levels[i].cpu & ~cpu_detect())
        return NULL;
    kernels_fill(&k, levels[i].cpu);
    return strcmp(k.name, "ref") ? &levels[i] : NULL;
}

#endif
