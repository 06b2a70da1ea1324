/* What the files of the engine share: the two handles behind tern.h, the only place where the
 * parts meet. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/fpenv.h"
#include "base/pool.h"
#include "base/xxh64.h"
#include "kernels/kernels.h"
#include "model/cache.h"
#include "model/state.h"
#include "model/model.h"
#include "engine/lab/observe.h"
#include "text/chat.h"
#include "sample/sampler.h"
#include "text/tokenizer.h"

/* Marks what libtern.so exports; everything else stays inside. */
#define EXPORT __attribute__((visibility("default")))

enum { MAX_END_TOKENS = 64, MAX_THREADS = 1024 };

struct tern_model {
    struct model *model; /* owned, with the weights file */
    struct kernels kernels;
    struct pool *pool;
    struct tokenizer *tokenizer; /* NULL: a file without one, ids only */
    struct chat *chat;           /* NULL: no template */
    struct tern_sampler_params sampler;
    tern_token end_tokens[MAX_END_TOKENS];
    size_t n_end_tokens;
    char *name, *source, *licence, *converter; /* owned; NULL if absent */
    char threads_why[160];
};

struct tern_context {
    struct tern_model *model; /* borrowed */
    struct cache cache;
    struct forward forward;
    struct observer *observer; /* NULL: nobody looks */
    struct tern_memory memory;
    struct sampler sampler; /* owns scratch and decoder */
    uint32_t *pending;      /* [n_seqs] rows of the batch being built */
    uint32_t *expected;     /* [n_seqs] tern_seq_expect */
    struct row *again;      /* [n_batch] rows of what is evaluated again; or NULL */
    uint64_t n_again;
    uint32_t n_logit_rows; /* of the batch being built */
    uint32_t first_logits; /* first logit row of the last batch that can be seen */
    uint64_t logit_position[TERN_MAX_LOGITS];
    bool fingerprint;
    struct xxh64 hash;
    uint64_t hashed_rows;
};

/* Evaluates the batch, whose rows are of one sequence and all ask for logits, on trial: lengths,
 * logits, fingerprint and numeric status stay as they are until context_show makes the rows seen,
 * one by one, each as tern_forward would have left it (a cancel between two rows included). What is
 * not shown leaves no trace: the next batch, or context_drop, takes it back. *usable is false when
 * a value was not finite: then nothing is on trial, and the rows are to be evaluated one at a
 * time, because it may come from a row that would never have been evaluated. */
enum tern_status context_try(struct tern_context *c, bool *usable);
enum tern_status context_show(struct tern_context *c);
void context_drop(struct tern_context *c);

/* Evaluates the sequence again if its RoPE frequencies are not those of its length. */
void context_settle(struct tern_context *c, uint32_t seq);

/* Section bodies of the file as parsed keys; false when the section is absent. */
enum tern_status engine_section(const struct tern_model *m, const char *tag, struct keys *keys,
                                bool *found, struct tern_error *e);

/* Opens the built-in template `name`, or the file's own (NULL; none if it has none). */
enum tern_status engine_open_chat(struct tern_model *m, const char *name, struct tern_error *e);

/* max |a - b| / max |b| of the model's logits against the source's golden ones, and the bound that
 * the file states for it; *found is false when it has none. */
enum tern_status engine_golden(struct tern_model *m, bool *found, float *error, float *bound,
                               struct tern_error *e);

#endif
