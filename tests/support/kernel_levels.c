/* Levels: see kernel_levels.h. */
#include "kernel_levels.h"

#include <string.h>

#include "base/cpu.h"

#define LEVEL(file, name, needs) {#file, needs},
const struct level levels[N_LEVELS] = {TARGETS(LEVEL, LEVEL)};

const struct level *level_find(size_t i)
{
    struct kernels k;
    if (levels[i].cpu & ~cpu_detect())
        return NULL;
    kernels_fill(&k, levels[i].cpu);
    return strcmp(k.name, "ref") ? &levels[i] : NULL;
}
