/* Attention over the cache, and the memory that it takes. */
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
struct strip {
    size_t row, rows;
    size_t block, n_blocks;
    size_t part;    /* number of its first (KV head, block) among those of all strips */
    size_t partial; /* place of its first query's result among those of all strips */
};

/* What the threads share */
struct attention {
    size_t max_queries, max_dim; /* of a strip; of a head */
    size_t stride, groups;       /* max_dim rounded up to whole groups of 32, and their number */
    struct strip *strips;        /* [n_batch] */
    size_t n_strips;
    float *m, *l, *a; /* [capacity, ...] results of blocks, where blocks are shared out */
    size_t capacity;
};

/* What each thread has for itself, for one strip and KV head */
struct attention_scratch {
    float *x;       /* [max_queries, stride] queries; for a q8 cache: */
    int8_t *q;      /* [max_queries, stride] */
    float *q_scale; /* [max_queries, groups] */
    int32_t *q_sum;
    float *wide;      /* [2, 256, stride] K and V of a block as f32 */
    struct span *see; /* [max_queries] */
    struct alibi *alibi;
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

/* In latent attention v[j] is the first dims of k[j], and att[i, h] is as wide as they are.
 * att[i, h] = sum_j softmax_j((q[i, h] . k[j] + alibi) * scale) v[j]   over the visible positions j */
void step_attend(struct forward *f, const struct layer *w);

#endif
