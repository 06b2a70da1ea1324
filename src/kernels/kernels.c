/* The choice among targets. In: what the processor can run, and the name given to --cpu. Out: a
 * filled struct kernels that has proved itself on known answers. */
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fpenv.h"
#include "kernels/known_answers.h"
#include "kernels/targets.h"

#define ROW(file, name, needs) {#name, needs, file##_init},
#define NAME(file, name, needs) #name,

/* Each row overrides slots of those before it. */
static const struct target {
    const char *name;
    unsigned needs; /* CPU bits */
    void (*init)(struct kernels *k);
} targets[] = {TARGETS(ROW)};

enum { N_ROWS = sizeof targets / sizeof *targets };

static const char *const names[] = {TARGETS(NAME) NULL};

const char *const *kernels_targets(void)
{
    return names;
}

enum tern_status kernels_cpu(const char *name, unsigned *bits, struct tern_error *e)
{
    const unsigned have = cpu_detect();
    char can[96] = "";
    if (!name) {
        *bits = have;
        return TERN_OK;
    }
    for (const struct target *t = targets; t < targets + N_ROWS; t++) {
        if (t->needs & ~have)
            continue;
        if (!strcmp(t->name, name)) {
            *bits = t->needs;
            return TERN_OK;
        }
        snprintf(can + strlen(can), sizeof can - strlen(can), "%s%s", *can ? ", " : "", t->name);
    }
    return error_set(e, TERN_USAGE, "this machine cannot run the cpu target '%s'; it can run: %s",
                     name, can);
}

void kernels_fill(struct kernels *k, unsigned cpu)
{
    for (const struct target *t = targets; t < targets + N_ROWS; t++)
        if (!(t->needs & ~cpu)) {
            t->init(k);
            k->name = t->name;
        }
}

enum tern_status kernels_init(struct kernels *k, const char *cpu, struct tern_error *e)
{
    unsigned bits;
    enum tern_status status = kernels_cpu(cpu, &bits, e);
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
