/* The jobs that wait for a sequence. Clients take turns, whatever they have asked for before: each job gets
 * a round when it arrives, one behind the last round of its client's other jobs, and the lowest round goes
 * first. All under the scheduler's lock. */
#ifndef SERVE_WAITING_H
#define SERVE_WAITING_H

#include "app/serve/model/model_thread.h"

void waiting_add(struct scheduler *s, struct job *j);
void waiting_remove(struct scheduler *s, struct job *j);
/* The next one in turn for which may_start is true; it still waits. NULL: none. */
struct job *waiting_next(struct scheduler *s,
                         bool (*may_start)(struct scheduler *s, struct job *j));
/* Its turn has come: it waits no longer. */
void waiting_take(struct scheduler *s, struct job *j);

#endif
