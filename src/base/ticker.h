/* A function that is called once a second, in a thread of its own, whatever other threads do. Built with
 * MPI=1 only. */
#ifndef BASE_TICKER_H
#define BASE_TICKER_H

#include "base/error.h"

struct ticker;

enum tern_status ticker_open(struct ticker **out, void (*fn)(void), struct tern_error *e);
void ticker_close(struct ticker *t); /* fn has ended, and is not called again; NULL is fine */

#endif
