/* Keys and values into the cache, rounded to its type, and back. */
#ifndef MODEL_KV_STORE_H
#define MODEL_KV_STORE_H

#include <stdbool.h>

#include "model/state.h"

/* One head's key or value x [head_dim] of a row, rounded to the cache's type; marks what is out of
 * its range. */
void kv_store(struct forward *f, size_t l, const struct row *row, size_t head, bool is_key,
              const float *x, size_t head_dim, struct attention_scratch *s);

/* x [head_dim], rounded to the cache's type, to position p of a head's K or V of a block. Uses q8,
 * scale, sum and half of the scratch. */
void kv_write(const struct kernels *k, void *to, enum tern_cache_type type, bool is_key,
              const float *x, size_t head_dim, size_t p, struct attention_scratch *s);

/* A key or value that has the cache's type (q8: integers and scales), to position p of the head's K
 * or V of a block. */
void kv_put(void *to, enum tern_cache_type type, bool is_key, const void *x, const uint16_t *scale,
            size_t head_dim, size_t p);

/* Zeros in positions begin .. end - 1 (at most 256) of a layer's block. zeros [head_dim values, or
 * their scales] */
void kv_clear(unsigned char *block, const struct cache *c, const struct layer *w, size_t begin,
              size_t end, const void *zeros);

/* x [head_dim] = the key or value of a position, as f32; exact */
void kv_load(float *x, const struct cache *c, size_t l, size_t seq, size_t position, size_t head,
             bool is_key, size_t head_dim);

#endif
