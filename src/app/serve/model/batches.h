/* The turns of the model thread: jobs begin, take a step together, and end. */
#ifndef SERVE_BATCHES_H
#define SERVE_BATCHES_H

#include "app/serve/model/model_thread.h"

/* Something can be done. Under the lock. */
bool batches_have_work(struct scheduler *s);
/* Ends what was closed, begins what fits, and evaluates one batch, and one of tokens that are looked at. */
void batches_turn(struct scheduler *s);
/* Ends all jobs that run or wait, as failed. */
void batches_end_all(struct scheduler *s);

#endif
