/* Where the weights' bytes live: mapped from the file, as weights_open leaves them, or copied into
 * memory. Both may be locked in memory. */
#ifndef WEIGHTS_LOAD_H
#define WEIGHTS_LOAD_H

#include "base/pool.h"
#include "weights/weights.h"

/* Replaces the mapping, at the same addresses, by private memory on huge pages where the system
 * has them, filled from the file: each thread reads, and so places near itself, that part of every
 * tensor which it will multiply. To be called before tensor bytes are used. TERN_NO_MEMORY before
 * anything is read when they do not fit; TERN_IO when the file is another one by now. After an
 * error the weights can only be closed. TERN_CANCELLED when the pool is stopped. */
enum tern_status load_copy(struct weights *w, struct pool *pool, struct tern_error *e);

/* Asks the system to begin reading a mapped file now, ahead of those who will need it, and to keep
 * it on huge pages, where its file system can. */
void load_ahead(const struct weights *w);

/* Keeps the bytes from being swapped out or dropped; reads what is not there yet. TERN_CANCELLED when
 * the pool is stopped. */
enum tern_status load_lock(const struct weights *w, struct pool *pool, struct tern_error *e);

#endif
