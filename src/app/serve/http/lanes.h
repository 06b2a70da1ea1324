/* Threads that work on requests, so that the thread of HTTP never does anything long: a lane for short work
 * and one for long. A lane is one thread, which takes its tasks in turn. */
#ifndef SERVE_LANES_H
#define SERVE_LANES_H

#include "tern.h"

#include <stdbool.h>

struct lanes;

enum lane { LANE_SHORT, LANE_LONG, N_LANES };

struct lane_task {
    struct lane_task *next;
    void (*run)(void *arg);
    void *arg;
};

/* The threads take no signals that the calling thread blocks. */
enum tern_status lanes_open(struct lanes **out, struct tern_error *e);
/* Has t->run(t->arg) called in that lane; t may go as soon as it is. Any thread. */
void lanes_add(struct lanes *l, enum lane lane, struct lane_task *t);
/* Runs what waits, then ends the threads. NULL is fine. */
void lanes_close(struct lanes *l);

/* This thread is that of the short lane: what takes long is to be given up with fault_later. */
bool lanes_is_short(void);

#endif
