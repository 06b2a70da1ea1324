/* The jobs that wait for a sequence. Clients take turns, whatever they have asked for before: each job gets
 * a round when it arrives, one behind the last round of its client's other jobs, and the lowest round goes
 * first. All under the scheduler's lock.
 *
 * Turns do not help who finds all sequences taken by long answers of one client. So where clients can be told
 * apart, the last free sequence is for a client that has none, and the last quarter of the queue, rounded up, for
 * clients that have nothing in it. A queue of one place keeps none. */
#ifndef SERVE_WAITING_H
#define SERVE_WAITING_H

#include "app/serve/model/model_thread.h"

/* Whether the job must leave the last place to others: a place in the queue, or a free sequence. */
bool waiting_is_full_for(const struct scheduler *s, const struct job *j);
/* The most jobs of one client that there is ever room for, running ones included. */
size_t waiting_room(const struct scheduler *s);
bool waiting_must_leave(const struct scheduler *s, const struct job *j);

void waiting_add(struct scheduler *s, struct job *j);
void waiting_remove(struct scheduler *s, struct job *j);
/* The next one in turn for which may_start is true; it still waits. NULL: none. */
struct job *waiting_next(struct scheduler *s,
                         bool (*may_start)(struct scheduler *s, struct job *j));
/* Its turn has come: it waits no longer. */
void waiting_take(struct scheduler *s, struct job *j);

#endif
