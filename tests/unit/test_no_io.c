/* ldflags: -Wl,@tests/support/allocs.ld -Wl,@tests/support/io_faults.ld */
/* Every call that opens, reads, writes, syncs, renames, closes, maps a file or starts a thread fails
 * in turn, alone and with all after it, in what programs do with a model (scenarios.c): a sentence
 * with the code of an error of the system, or success; no block and no file is left open, and what
 * was there is as it was. Interrupted calls and short transfers change nothing. A scenario of many
 * calls fails some 40 of them; all with FAULTS=all. */
#include "allocs.h"
#include "golden.h"
#include "io_faults.h"
#include "scenarios.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The calls of a scenario that fail, of `all`: every step-th. */
static size_t step_of(const struct scenario *it, size_t all)
{
    return getenv("FAULTS") ? 1 : 1 + all / (it->slow ? 3 : golden_is_quick() ? 10 : 40);
}

static size_t n_failed;

static void run(const struct scenario *it, enum io_mode mode, size_t at)
{
    struct tern_error e;
    char when[96];
    allocs_start(0, 0);
    io_start(mode, at);
    enum tern_status s = scenario_run(it, &e);
    io_stop();
    size_t live = allocs_live();
    allocs_stop();
    snprintf(when, sizeof when, "mode %d, call %zu (%s)", (int)mode, at, io_failed());
    ck_assert_msg(live == 0 || it->keeps, "%s, %s: %zu blocks are left", it->name, when, live);
    ck_assert_msg(io_open_files() == 0, "%s, %s: %d files are open", it->name, when,
                  io_open_files());
    ck_assert_msg(!s || (mode <= IO_REST && at && e.code == s && *e.text), "%s, %s: status %d, %s",
                  it->name, when, (int)s, e.text);
    const bool is_other = mode == IO_REST || !strcmp(io_failed(), "mmap") ||
                          !strcmp(io_failed(), "pthread_create"); /* these are memory, too */
    ck_assert_msg(!s || s == TERN_IO || (is_other && s == TERN_NO_MEMORY), "%s, %s: status %d, %s",
                  it->name, when, (int)s, e.text);
    n_failed += s != 0;
    scenario_must_hold(it, s, when);
}

START_TEST(every_call_fails_in_turn)
{
    const struct scenario *it = &scenarios[_i];
    struct tern_error e;
    n_failed = 0;
    (void)scenario_run(it, &e); /* what it keeps for the next call is made before */
    run(it, IO_FAIL, 0);
    const size_t all = io_count(), step = step_of(it, all);
    run(it, IO_AGAIN, 0);
    run(it, IO_SHORT, 0);
    for (enum io_mode mode = IO_FAIL; mode <= IO_REST; mode++)
        for (size_t at = 1 + (mode == IO_REST ? step / 2 : 0); at <= all; at += step)
            run(it, mode, at);
    printf("%s: %zu calls, %zu times refused\n", it->name, all, n_failed);
    ck_assert_msg(n_failed > 0 || !it->writes, "%s: nothing failed", it->name);
    run(it, IO_FAIL, 0);
}
END_TEST

SUITE("no I/O", AROUND_EACH(scenarios_setup, scenarios_teardown),
      LOOP(every_call_fails_in_turn, 0, N_SCENARIOS))
