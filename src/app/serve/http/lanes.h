/* Threads that work on requests, so that the thread of HTTP never does anything long: a lane for short work
 * and one for long. A lane is one thread, which takes one task after the other: first the one that would be over
 * first if all were worked on at once, each at the same pace. So little waits for little, however much waits. And
 * each has its turn: once as many bytes as it has are done for each that waits, whatever comes goes behind it. */
#ifndef SERVE_LANES_H
#define SERVE_LANES_H

#include "tern.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lanes;

enum lane { LANE_SHORT, LANE_LONG, N_LANES };

struct lane_task {
    struct lane_task *next;
    uint64_t bytes, turn; /* how much work it is; where it stands, set here */
    atomic_bool *lost;    /* nobody waits for it any more */
    void (*run)(void *arg);
    void *arg;
};

/* The threads take no signals that the calling thread blocks. */
enum tern_status lanes_open(struct lanes **out, struct tern_error *e);
/* Has t->run(t->arg) called in that lane; t may go as soon as it is. Any thread. */
void lanes_add(struct lanes *l, enum lane lane, struct lane_task *t);
/* Runs what waits, then ends the threads. False: what is worked on took longer than so many seconds; it goes on, and
 * all that it uses must stay. NULL is fine. */
bool lanes_close(struct lanes *l, int seconds);

/* What is worked on, and all that waits, is given up as soon as it asks. */
void lanes_give_up(struct lanes *l);

/* Whether this thread, if it is that of a lane, works for nobody: tern.h's `stop` asks. */
bool lanes_is_given_up(void);
/* This thread is that of the short lane: what takes long is to be given up with fault_later. */
bool lanes_is_short(void);

#endif
