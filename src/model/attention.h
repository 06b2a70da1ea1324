/* Attention: keys and values into the cache, and the memory that reading them takes. The step
 * itself is step_attend (steps.h). */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/kernels.h"
#include "model/model.h"

struct forward;
struct row;

/* Neighbouring rows of one sequence, and the blocks that they see */
struct attention_tile {
    size_t row, rows;
    size_t block, n_blocks;
    size_t unit;    /* number of its first (KV head, block) among those of all tiles */
    size_t partial; /* place of its first query's result among those of all tiles */
};

/* What the threads share */
struct attention {
    size_t max_queries, max_dim;  /* of a tile; of a head */
    size_t stride, groups;        /* max_dim rounded up to whole groups of 32, and their number */
    struct attention_tile *tiles; /* [n_batch] */
    size_t n_tiles;
    float *m, *l, *a; /* [capacity, ...] results of blocks, where blocks are shared out */
    size_t capacity;
};

/* What each thread has for itself, for one tile and KV head */
struct attention_scratch {
    float *x;       /* [max_queries, stride] queries; for a q8 cache: */
    int8_t *q;      /* [max_queries, stride] */
    float *q_scale; /* [max_queries, groups] */
    int32_t *q_sum;
    float *wide;      /* [2, 256, max_dim] K and V of a block as f32 */
    struct span *see; /* [max_queries] */
    float *scores;    /* [16, 256] */
    float *m, *l, *a; /* [max_queries], ..., [max_queries, stride] of a block */
    float *M, *L, *A; /* of the blocks so far */
    int8_t *q8;       /* one key or value, quantized: [max_dim], */
    float *scale;     /* its scales [max_dim / 32], */
    int32_t *sum;     /* and sums */
    uint16_t *half;   /* [max_dim] as f16; or the scales */
};

/* Cuts the memory from the arena, or measures it. */
void attention_take(struct attention *t, struct arena *a, const struct model *m, size_t n_ctx,
                    size_t n_batch);
void attention_take_scratch(const struct attention *t, struct arena *a,
                            struct attention_scratch *s);

/* One head's key or value x [head_dim] of a row, rounded to the cache's type; marks what is out of
 * its range. */
void attention_store(struct forward *f, size_t l, const struct row *row, size_t head, bool is_key,
                     const float *x, size_t head_dim, struct attention_scratch *s);

/* Puts it, in the cache's type (q8: integers and scales), to position p of the head's K or V of a
 * block. */
void attention_put(void *to, enum tern_cache_type type, bool is_key, const void *x,
                   const uint16_t *scale, size_t head_dim, size_t p);

#endif
