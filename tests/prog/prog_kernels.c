/* Trials of every kernel of every target against ref.c as a plain program, for emulators and other
 * machines: prints a line per target with a hash of ref.c's results, which is the same everywhere.
 *   prog_kernels [TRIALS [SEED]]    prog_kernels --bench [NAME [THREADS]]    prog_kernels --known
 *   prog_kernels --default: the target that this machine gets
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bench.h"
#include "kernel_trials.h"
#include "kernels/known_answers.h"

static int run_trials(size_t count, uint64_t seed)
{
    struct trial t;
    int passed = 0, failed = 0;
    trial_open(&t);
    for (size_t i = 0; i < N_LEVELS; i++) {
        const struct level *level = level_find(i);
        if (!level)
            continue;
        t.hash = 0;
        for (size_t slot = 0; slot < N_SLOTS; slot++)
            if (trial_run(&t, level, slot, seed, count))
                failed++;
            else
                passed++;
        printf("%-14s %016" PRIx64 "\n", level->name, t.hash);
    }
    trial_close(&t);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

static int print_known(void)
{
    struct kernels k;
    uint64_t answer;
    const char *name;
    kernels_fill(&k, 0);
    for (size_t i = 0; (name = known_answer(&k, i, &answer)); i++)
        printf("%-14s 0x%016" PRIx64 "\n", name, answer);
    return 0;
}

static int print_default(void)
{
    struct kernels k;
    struct tern_error e;
    enum tern_status s = kernels_init(&k, NULL, &e);
    printf("%s\n", s ? e.text : k.name);
    return (int)s;
}

/* Trials of each slot. On this machine, test_kernels runs the same ones and more; run-tests says so by
 * an emulator without a name. */
static size_t enough(void)
{
    const char *emulator = getenv("EMULATOR");
    return emulator && !*emulator ? 2 : 200;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--default"))
        return print_default();
    if (argc > 1 && !strcmp(argv[1], "--known"))
        return print_known();
    if (argc > 1 && !strcmp(argv[1], "--bench"))
        return bench_all(argc > 2 && *argv[2] ? argv[2] : NULL, argc > 3 ? atoi(argv[3]) : 1);
    size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : enough();
    return run_trials(count, argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
}
