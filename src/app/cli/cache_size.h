/* What the KV cache of a model takes, written out: layers x KV heads x head size x 2 x 2 bytes, beside
 * what other attention would take. In: a model. Out: numbers and one sentence. */
#ifndef CLI_CACHE_SIZE_H
#define CLI_CACHE_SIZE_H

#include "tern_lab.h"

enum { CACHE_SIZES = 4, CACHE_LENGTHS = 3 };

struct cache_size {
    char name[24];     /* "this model", "MHA, 8 KV heads", "MQA, 1 KV head", "window 512" */
    uint64_t position; /* bytes of K and V of a position, f16, in all layers */
    uint64_t at[CACHE_LENGTHS]; /* at cache_lengths, with 4 bytes for each token */
};

extern const uint32_t cache_lengths[CACHE_LENGTHS]; /* 512, 4096, 32768 */

/* The model itself; with a KV head for every head; with one; and where every layer has the model's
 * window, or one of 512. A window bounds what a layer keeps; whole pages are not counted. */
void cache_sizes(const tern_model *model, struct cache_size sizes[CACHE_SIZES]);

/* "5 layers x 4 KV heads x 64 x 2 x 2 bytes = 5,120 a position, plus 4 for its token" into text [n];
 * returns text. */
const char *cache_sum(const tern_model *model, char *text, size_t n);

#endif
