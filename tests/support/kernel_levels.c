/* Levels: see kernel_levels.h. */
#include "kernel_levels.h"

#include <string.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

const struct level levels[N_LEVELS] = {
    {"avx2", CPU_AVX2},
    {"avx2 vnni", CPU_AVX2 | CPU_AVX_VNNI},
    {"avx512", CPU_AVX2 | CPU_AVX512},
    {"avx512 vnni", CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI},
    {"neon", CPU_NEON},
    {"neon dotprod", CPU_NEON | CPU_DOTPROD},
};

const struct level *level_find(size_t i)
{
    struct kernels k;
    if (levels[i].cpu & ~cpu_detect())
        return NULL;
    kernels_fill(&k, levels[i].cpu);
    return strcmp(k.name, "ref") ? &levels[i] : NULL;
}
