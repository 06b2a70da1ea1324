/* Texts that begin alike, for tests of the store of prefixes: a model of each kind, the logits at each
 * position of each text, and what holds of the store and of the pages that it shares with sequences,
 * whatever was done. */
#ifndef TESTS_PREFIX_TEXTS_H
#define TESTS_PREFIX_TEXTS_H

#include "engine/context.h"

enum { LENGTH = 700, N_CTX = 768, N_BATCH = 100, N_SEQS = 3, N_TEXTS = 5, N_MODELS = 13 };

struct texts {
    char path[256];
    tern_model *model;
    tern_context *ctx; /* the test's */
    size_t vocab;
    tern_token text[N_TEXTS][N_CTX];
    uint64_t rows[N_TEXTS][LENGTH]; /* hash of the logits at each position */
};
extern struct texts t;

bool texts_due(int i); /* in quick runs, few of the models and types of caches */
void texts_open(int model, enum tern_cache_type type);
void texts_close(void);

tern_context *texts_context(uint64_t bytes, enum tern_cache_type type); /* with a store */

size_t texts_common(size_t a, size_t b); /* tokens with which both begin */

/* Positions from .. to - 1 of a text in batches of `chunk`; the last row of each must be right. */
void texts_feed(uint32_t seq, size_t text, size_t from, size_t to, size_t chunk);

/* tern_prefix_find; what it leaves must be a beginning of the text. */
size_t texts_find(uint32_t seq, size_t text, size_t n);

size_t texts_random(size_t below);
void texts_seed(uint32_t seed);

void texts_check_store(const tern_context *c);

#endif
