/* What sequences and the store of prefixes hold of a model on several machines, for files that are those of
 * one machine. Rank 0 writes and reads them; the others give and take their part of each block, state and
 * row of a log, as often as it asks, until it says that it was all. On a single machine nothing of this is
 * left. */
#ifndef MODEL_SPLIT_STORE_H
#define MODEL_SPLIT_STORE_H

#include <string.h>

#include "model/cache.h"
#include "model/prefix_store.h"
#include "model/split.h"

#ifdef TERN_MPI

/* On all, before anything of what follows: takes memory, and gives it back. */
enum tern_status store_open(const struct cache *c, const struct model *m, struct tern_error *e);
void store_close(void);

/* On the others, between the two: until rank 0 says that it was all, and gives its memory back. */
void store_follow(struct cache *c, struct prefix_store *p, const struct model *m);
void store_end(const struct model *m);

/* The block of a layer as one machine has it, `bytes` [layer_kv, attend_bytes]: to rank 0; from it */
void store_take(const struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
                void *whole, size_t bytes);
void store_put(struct cache *c, const struct model *m, size_t l, size_t seq, size_t block,
               const void *whole, size_t bytes);

/* A page of a class as one machine has it, until the next call; and where a page is read into, before it is
 * put. */
const unsigned char *store_page(const struct cache *c, const struct model *m, int class,
                                int32_t page);
unsigned char *store_page_room(const struct cache *c, const struct model *m, int class,
                               int32_t page);
void store_put_page(struct cache *c, const struct model *m, int class, int32_t page);

/* The same of a record or a row of the log that lies there: recurrent.h */
const float *store_floats(const struct cache *c, const struct model *m, const float *from);
float *store_floats_room(const struct model *m, float *to);
void store_put_floats(struct cache *c, const struct model *m, float *to);

/* Before the blocks are put: the sequence has n positions of these tokens; n_first numbers are for
 * cache_refill, and one more if there are rows of the layer that guesses. */
void store_begin(const struct model *m, size_t seq, const uint32_t *tokens, size_t n,
                 const uint64_t *first, size_t n_layers, size_t n_first);

/* Before the same call here: recurrent_refill, recurrent_add_snapshot, prefix_add, prefix_add_state */
void store_refill(const struct model *m, size_t seq, size_t at, size_t n, size_t tail);
void store_add_snapshot(const struct model *m, size_t seq, size_t at);
void store_add_node(const struct model *m, int32_t parent, const tern_token *tokens, size_t n,
                    uint64_t classes, size_t rows_from);
void store_add_state(const struct model *m, int32_t node, size_t after, bool is_end);

#else

#define store_end(m) ((void)0)

static inline void store_take(const struct cache *c, const struct model *m, size_t l, size_t seq,
                              size_t block, void *whole, size_t bytes)
{
    (void)m;
    memcpy(whole, cache_k(c, l, seq, block * BLOCK, 0), bytes);
}

static inline void store_put(struct cache *c, const struct model *m, size_t l, size_t seq,
                             size_t block, const void *whole, size_t bytes)
{
    (void)m;
    memcpy(cache_k(c, l, seq, block * BLOCK, 0), whole, bytes);
}

static inline unsigned char *store_page_room(const struct cache *c, const struct model *m,
                                             int class, int32_t page)
{
    (void)m;
    return c->classes[class].pages + (size_t)page * c->classes[class].page_bytes;
}

#define store_page(c, m, class, page) store_page_room(c, m, class, page)
#define store_put_page(c, m, class, page) ((void)0)
#define store_floats(c, m, from) (from)
#define store_floats_room(m, to) (to)
#define store_put_floats(c, m, to) ((void)0)
#define store_begin(m, seq, tokens, n, first, n_layers, n_first) ((void)0)
#define store_refill(m, seq, at, n, tail) ((void)0)
#define store_add_snapshot(m, seq, at) ((void)0)
#define store_add_node(m, parent, tokens, n, classes, rows_from) ((void)0)
#define store_add_state(m, node, after, is_end) ((void)0)

#endif

#endif
