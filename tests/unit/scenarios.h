/* What programs do with a model, each as one function, so that every call that it makes can be made
 * to fail in turn: test_no_memory.c, test_no_io.c. ADDING ONE: a function in scenarios.c, a row of
 * `scenarios`. */
#ifndef TESTS_SCENARIOS_H
#define TESTS_SCENARIOS_H

#include "tern.h"

#include <stdbool.h>

enum { N_SCENARIOS = 28 };

struct scenario {
    const char *name;
    enum tern_status (*run)(struct tern_error *e);
    /* A file that it replaces in one step, in the folder of the scenarios; or NULL. Before each run
     * it holds the text "old". */
    const char *writes;
    bool keeps; /* what it does is kept for the next call, and takes memory */
    bool slow;  /* one run takes more than 50 ms */
};
extern const struct scenario scenarios[N_SCENARIOS];

void scenarios_setup(void); /* for AROUND_EACH */
void scenarios_teardown(void);

/* Runs one, with its file as it must be before. */
enum tern_status scenario_run(const struct scenario *s, struct tern_error *e);

/* Fails the test unless everything is as it was before a run with this outcome: the sequence to the
 * bit of its next logits, the conversation, the names of the files. If the run failed, the file that
 * it replaces holds "old" still. */
void scenario_must_hold(const struct scenario *s, enum tern_status outcome, const char *when);

#endif
