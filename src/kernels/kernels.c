/* The table of targets, and the choice among them. In: what the processor can run, and the name
 * given to --cpu. Out: a filled struct kernels that has proved itself on known answers.
 *
 * ADDING A TARGET: its file (kernels.h), its init in targets.h, its row here. */
#include "kernels/kernels.h"

#include <string.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "kernels/known_answers.h"
#include "kernels/targets.h"

struct target {
    const char *name; /* for --cpu; targets of one name are steps of it */
    unsigned needs;   /* CPU bits */
    void (*init)(struct kernels *k);
};

/* Narrow to wide: each overrides slots of those before it. */
static const struct target targets[] = {
    {"ref", 0, ref_init},
#if defined(__x86_64__) && !defined(REF_ONLY)
    {"avx2", CPU_AVX2, x86_avx2_init},
    {"avx2", CPU_AVX2 | CPU_AVX_VNNI, x86_avxvnni_init},
    {"avx512", CPU_AVX512, x86_avx512_init},
    {"avx512", CPU_AVX512 | CPU_AVX512_VNNI, x86_avx512vnni_init},
#endif
#if defined(__aarch64__) && !defined(REF_ONLY)
    {"neon", CPU_NEON, arm_neon_init},
    {"neon", CPU_NEON | CPU_DOTPROD, arm_dotprod_init},
#endif
};

static const char *const names[] = {
    "plain", "ref",
#if defined(__x86_64__) && !defined(REF_ONLY)
    "avx2",  "avx512",
#endif
#if defined(__aarch64__) && !defined(REF_ONLY)
    "neon",
#endif
    NULL,
};

const char *const *kernels_targets(void)
{
    return names;
}

void kernels_fill(struct kernels *k, unsigned cpu)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!(targets[i].needs & ~cpu)) {
            targets[i].init(k);
            k->name = targets[i].name;
        }
}

enum tern_status kernels_init(struct kernels *k, const char *cpu, struct tern_error *e)
{
    unsigned bits;
    enum tern_status status = cpu_parse(cpu, &bits, e);
    if (status)
        return status;
    kernels_fill(k, bits);
    k->plain = cpu && !strcmp(cpu, "plain");
    k->name = k->plain ? "plain" : k->name;
    struct fpenv saved = fpenv_enter();
    const char *wrong = known_wrong(k);
    fpenv_leave(saved);
    if (wrong)
        return error_set(e, TERN_INTERNAL,
                         "kernel %s of target %s gives a wrong answer on this machine; "
                         "--cpu ref avoids it, slowly; please report this processor",
                         wrong, k->name);
    return TERN_OK;
}
