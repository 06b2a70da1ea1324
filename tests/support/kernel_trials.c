/* Trials of all kernels: see kernel_trials.h. ADDING A KERNEL: a function in a file of its family,
 * and a row here. */
#include "kernel_trials.h"

#include "trials_attend.h"
#include "trials_matmul.h"
#include "trials_rows.h"

struct slot {
    const char *name;
    void (*run)(struct trial *t);
};

#define MATMUL_SLOT(id, name, ...) {"matmul " #name, try_matmul_##name},

static const struct slot slots[N_SLOTS] = {
    FORMATS(MATMUL_SLOT) /* one each */
    {"get_row", try_get_row},
    {"quantize", try_quantize},
    {"rmsnorm", try_rmsnorm},
    {"add", try_add},
    {"swiglu", try_swiglu},
    {"layernorm", try_layernorm},
    {"activate", try_activate},
    {"in place", try_in_place},
    {"rope_angles", try_rope_angles},
    {"rope", try_rope},
    {"to_f16", try_to_f16},
    {"in_range", try_in_range},
    {"attend f16", try_attend_f16},
    {"attend f32", try_attend_f32},
    {"attend q8", try_attend_q8},
    {"attend packed", try_attend_packed},
    {"widen", try_widen},
    {"merge", try_merge},
    {"divide", try_divide},
    {"log_sum_exp", try_log_sum_exp},
    {"mix_heads", try_mix_heads},
};

int trial_run(struct trial *t, const struct level *level, size_t slot, uint64_t seed, size_t count)
{
    int before = t->failures;
    kernels_fill(&t->k, level->cpu);
    t->level = level->name;
    t->slot = slots[slot].name;
    for (size_t i = 0; i < count; i++) {
        t->seed = seed + i;
        t->state = t->seed * N_SLOTS + slot;
        t->used = 0;
        slots[slot].run(t);
        trial_check_canaries(t);
    }
    return t->failures - before;
}
