/* Two pieces of work that take turns: while one waits for something that no thread makes, such as the
 * network, the other one goes on. In: two arguments of a function; out: both done. Only one of the two
 * runs at any time, and who runs when depends on nothing but where they pass the turn. Built with
 * MPI=1 only. */
#ifndef BASE_RELAY_H
#define BASE_RELAY_H

#include "base/error.h"

struct relay;

enum tern_status relay_open(struct relay **out, struct tern_error *e);
void relay_close(struct relay *r); /* NULL is fine */

/* fn(works[0]) in this thread and fn(works[1]) in another; the first one begins. */
void relay_run(struct relay *r, void (*fn)(void *work), void *const works[2]);

/* From within fn, of works[i]: gives the turn to the other one, if that is not over, and goes on to wait for
 * what it needs; and takes it again, once the other one has given it. */
void relay_give(struct relay *r, int i);
void relay_take(struct relay *r, int i);

#endif
