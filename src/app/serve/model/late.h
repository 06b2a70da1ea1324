/* The thread in which texts catch up whose constraint takes more than a step allows (tern_text_is_late), while
 * steps go on without them: first those that were late least often, so that a hard grammar waits for others
 * and not they for it. */
#ifndef SERVE_LATE_H
#define SERVE_LATE_H

#include "app/serve/model/model_thread.h"

/* Steps that the constraint of a text may take in a batch: some ten milliseconds. Hardly a mask of a schema needs
 * as many. */
enum { LATE_STEPS = 1 << 17 };

/* ---- model thread ---- */
bool late_open(struct scheduler *s); /* false: no thread */
void late_close(struct scheduler *s);
/* The job sits out if its text is late. */
void late_look(struct scheduler *s, struct job *j);
/* No job sits out any more: what is worked on is given up. */
void late_give_up(struct scheduler *s);

/* Whether this thread catches up for nobody: tern.h's `stop` asks. Under the lock. */
bool late_is_given_up(const struct scheduler *s);

#endif
