/* What the suites of the forward pass share: a small model and a context, ids fed to it, its logits
 * kept. */
#ifndef TESTS_FORWARD_RUN_H
#define TESTS_FORWARD_RUN_H

#include "toy.h"

enum { VOCAB = 96, MAX = 600, CTX = 1024, BATCH = 64 };

struct run {
    char path[256];
    struct toy toy;
    tern_model *model;
    tern_context *ctx;
};

typedef float logits_rows[MAX][VOCAB]; /* too large for a stack */

struct toy run_toy(void);

void run_write(struct run *r, struct toy toy);
void run_start(struct run *r, enum tern_cache_type type, uint32_t n_seqs); /* after run_write */
void run_open(struct run *r, struct toy toy, uint32_t n_seqs);             /* both, f32 */
void run_close(struct run *r);

void run_add(const struct run *r, uint32_t seq, tern_token token, unsigned flags);

/* Appends ids [n] to the sequence; out[i] gets the logits after ids[i]. */
void run_feed(const struct run *r, uint32_t seq, const tern_token *ids, size_t n, logits_rows out);

/* The same from an empty sequence 0. */
void run_feed_fresh(const struct run *r, const tern_token *ids, size_t n, logits_rows out);

void run_ids(tern_token *ids, size_t n, unsigned seed);

int run_same(const float *a, const float *b); /* [VOCAB], in all bits */

/* Overwrites `bytes` of a tensor from byte `offset` on. */
void run_patch(const char *path, const char *name, size_t offset, const void *data, size_t bytes);

#endif
