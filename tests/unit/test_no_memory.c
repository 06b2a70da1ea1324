/* ldflags: -Wl,@tests/support/allocs.ld */
/* Every allocation fails in turn, alone and with all after it, in what programs do with a model
 * (scenarios.c): TERN_NO_MEMORY or success, no block is left, and what was open is as it was. Parts
 * have such tests of their own in test_weights.c, test_tokenizer.c and test_quantize.c, programs in
 * test_faults.py. A scenario of many allocations fails some 40 of them; all with FAULTS=all. */
#include "allocs.h"
#include "golden.h"
#include "scenarios.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>

/* The calls of a scenario that fail, of `all`: every step-th. */
static size_t step_of(size_t all)
{
    return getenv("FAULTS") ? 1 : 1 + all / (golden_is_quick() ? 10 : 40);
}

/* In the process of the test: what a scenario keeps for the next call is made before. */
START_TEST(every_allocation_fails_in_turn)
{
    const struct scenario *it = &scenarios[_i];
    struct tern_error e;
    char when[64];
    for (int i = 0; i < 2; i++) {
        enum tern_status s = scenario_run(it, &e);
        ck_assert_msg(!s, "%s: %s", it->name, e.text);
        scenario_must_hold(it, s, "unharmed");
    }
    allocs_start(0, 0);
    scenario_run(it, &e);
    const size_t all = allocs_count(), step = step_of(all);
    size_t refused = 0;
    allocs_stop();
    scenario_must_hold(it, TERN_OK, "unharmed");
    for (int rest = 0; rest < 2; rest++)
        for (size_t at = 1 + (rest ? step / 2 : 0); at <= all; at += step) {
            snprintf(when, sizeof when, "allocation %zu%s", at, rest ? " and all after it" : "");
            allocs_start(at, rest);
            enum tern_status s = scenario_run(it, &e);
            size_t live = allocs_live();
            allocs_stop();
            ck_assert_msg(live == 0 || it->keeps, "%s, %s: %zu blocks are left", it->name, when,
                          live);
            ck_assert_msg(!s || (s == TERN_NO_MEMORY && e.code == s && *e.text),
                          "%s, %s: status %d, %s", it->name, when, (int)s, e.text);
            refused += s != 0;
            scenario_must_hold(it, s, when);
        }
    ck_assert_msg(refused > 0 || !all, "%s: nothing failed", it->name);
    ck_assert_int_eq(scenario_run(it, &e), TERN_OK);
    printf("%s: %zu allocations\n", it->name, all);
}
END_TEST

SUITE("no memory", AROUND_EACH(scenarios_setup, scenarios_teardown),
      LOOP(every_allocation_fails_in_turn, 0, N_SCENARIOS))
