/* What the suites of sequences that go on share: a model, a context, tokens fed to it, and the hash of
 * their logits. */
#ifndef TESTS_SEQUENCE_RUN_H
#define TESTS_SEQUENCE_RUN_H

#include <stdbool.h>

#include "tern_lab.h"
#include "toy.h"

extern tern_model *seq_model;
extern struct tern_model_info seq_info;
extern tern_token seq_text[800]; /* of the whole vocabulary */
extern char seq_model_path[256], seq_path[256];

bool seq_is_slow(void); /* the program is built so that it takes many times as long */

struct toy seq_small_toy(void);
void seq_open_toy(const struct toy *toy);
void seq_open_golden(const char *name);
void seq_open_path(void); /* what is at model_path */
void seq_close(void);     /* and removes the files */

tern_context *seq_context(uint32_t n_ctx, uint32_t n_batch, enum tern_cache_type type);

/* Evaluates tokens[from .. to), as many at a time as the context's batch. */
void seq_feed(tern_context *ctx, const tern_token *tokens, size_t from, size_t to, bool logits);

/* Of the logits of tokens[from .. to), which follow what the sequence holds, or a new one. */
uint64_t seq_mark(tern_context *ctx, const tern_token *tokens, size_t from, size_t to);
uint64_t seq_fresh_mark(enum tern_cache_type type, const tern_token *tokens, size_t from,
                        size_t to);

#endif
