/* Threads: one function run over a range of items by persistent workers. In: a count and a
 * function; out: every item done. pool.c alone knows pthreads, futexes and how to wait.
 *
 * The caller is thread 0, the workers are 1 .. pool_threads - 1. A call is a barrier: all that was
 * written before it is seen by fn, all that fn wrote is seen after it. Work must be split over
 * output elements or fixed blocks, so that results do not depend on who did what. Threads run with
 * fpenv.h's state and with asynchronous signals blocked. A pool does not survive fork(). */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct pool;

/* Items begin .. end - 1 are yours; begin < end. `thread` < pool_threads numbers who runs it. A
 * thread may be called several times in a run. */
typedef void (*pool_fn)(void *arg, size_t begin, size_t end, int thread);

/* Starts n_threads - 1 workers (n_threads >= 1). TERN_NO_MEMORY where the system has no more. */
enum tern_status pool_open(struct pool **out, int n_threads, struct tern_error *e);
void pool_close(struct pool *p); /* NULL is fine */
int pool_threads(const struct pool *p);

/* Runs fn over n_items < 2^32 items. Each thread has a contiguous share, equal to within one item, and
 * works through it from its begin, in pieces: about a quarter of what is left, and never less than a
 * sixteenth of the share (pool_cut). A thread whose share is done takes half of what is left of the fullest,
 * from its end. So threads may differ in speed and items in size, and nobody waits longer than for
 * the pieces in work. With one item or one thread fn runs on the caller at once. Not to be called
 * from within fn, nor by two threads at a time (pool_lock). */
void pool_run(struct pool *p, size_t n_items, pool_fn fn, void *arg);

/* How small the last pieces of the next runs may be: the share's 1 / pieces. With small ones threads
 * end together; but each piece reads again what items share. */
enum { POOL_COARSE = 16, POOL_FINE = 48 };
void pool_cut(struct pool *p, size_t pieces);

/* From now on the calling thread asks `stop` before its pieces, often and for all threads. Once it
 * says non-zero, what is left of every run is skipped: what runs were to write is then worth nothing,
 * and whoever started them looks at pool_stopped. NULL: nobody is asked. */
void pool_stop_when(struct pool *p, int (*stop)(void *arg), void *arg);

/* Whether work is to stop, for a long item to ask on its thread. */
bool pool_stopped(struct pool *p, int thread);

/* Serves one step at a time to contexts that live in different threads. Not recursive. */
void pool_lock(struct pool *p);
void pool_unlock(struct pool *p);

/* Runs make() unless it was done before, in whatever thread, and waits for it. `*done` is false at
 * first. */
void pool_once(atomic_bool *done, void (*make)(void));

#endif
