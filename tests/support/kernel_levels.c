/* Levels: see kernel_levels.h. */
#include "kernel_levels.h"

#include "base/cpu.h"

#define LEVEL(file, name, needs) {#name, needs},
const struct level levels[N_LEVELS + 1] = {VECTOR_TARGETS(LEVEL){NULL, 0}};

const struct level *level_find(size_t i)
{
    return levels[i].cpu & ~cpu_detect() ? NULL : &levels[i];
}
