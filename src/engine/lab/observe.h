/* The observer: somebody who is shown what every step gives. It hangs on forward's watch, which
 * passes through here in the order of the equations; what a step keeps is shown as it lies, a norm
 * is computed again from what it read. So nothing is slower without an observer, and with one no
 * bit of any result changes. Operations, their order and shapes: tern_observe in tern_lab.h.
 * ADDING AN OPERATION: its line in watch() of observe.c, its row in tern_lab.h; where no step keeps
 * it, a copy like state.h's `gate`. */
#ifndef LAB_OBSERVE_H
#define LAB_OBSERVE_H

#include "tern_lab.h"

#include "model/state.h"

struct observer;

/* Shows every later batch of f to fn. There must be no observer yet. */
enum tern_status observe_open(struct observer **out, struct forward *f, tern_observe_fn fn,
                              void *arg, struct tern_error *e);
void observe_close(struct observer *o); /* NULL is fine */

#endif
