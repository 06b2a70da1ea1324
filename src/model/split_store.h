/* What a sequence holds of a model on several machines, for its file, which is that of one machine. Rank 0
 * writes and reads it; the others give and take their heads' part of each block, as often as it asks,
 * until it says that it was all. On a single machine nothing of this is left. */
#ifndef MODEL_SPLIT_STORE_H
#define MODEL_SPLIT_STORE_H

#include <string.h>

#include "model/cache.h"
#include "model/split.h"

#ifdef TERN_MPI

/* The block of a layer as one machine has it, `bytes` [layer_kv, attend_bytes]: to rank 0; from it */
enum tern_status store_take(const struct cache *c, const struct model *m, size_t l, size_t seq,
                            size_t block, void *whole, size_t bytes, struct tern_error *e);
void store_put(struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
               const void *whole, size_t bytes);

/* Before the blocks are put: the sequence has n positions of these tokens; n_first numbers are for
 * cache_refill, and one more if there are rows of the layer that guesses. */
void store_begin(const struct model *m, size_t seq, const uint32_t *tokens, size_t n,
                 const uint64_t *first, size_t n_layers, size_t n_first);

void store_end(const struct model *m);

/* On the others, until store_end */
enum tern_status store_follow(struct cache *c, const struct model *m, struct tern_error *e);

#else

static inline enum tern_status store_take(const struct cache *c, const struct model *m, size_t l,
                                          size_t seq, size_t block, void *whole, size_t bytes,
                                          struct tern_error *e)
{
    (void)m, (void)e;
    memcpy(whole, cache_k(c, l, seq, block * BLOCK, 0), bytes);
    return TERN_OK;
}

static inline void store_put(struct cache *c, const struct model *m, size_t l, size_t seq,
                             size_t block, const void *whole, size_t bytes)
{
    (void)m;
    memcpy(cache_k(c, l, seq, block * BLOCK, 0), whole, bytes);
}

#define store_begin(m, seq, tokens, n, first, n_layers, n_first) ((void)0)
#define store_end(m) ((void)0)

#endif

#endif
