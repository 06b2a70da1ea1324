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
#include "model/forward.h"
#include "model/model.h"
#include "text/sampler.h"
#include "text/tokenizer.h"

/* Marks what libtern.so exports; everything else stays inside. */
#define EXPORT __attribute__((visibility("default")))

enum { MAX_END_TOKENS = 64, MAX_THREADS = 1024 };

struct tern_model {
    struct model *model; /* owned, with the weights file */
    struct kernels kernels;
    struct pool *pool;
    struct tokenizer *tokenizer; /* NULL: a file without one, ids only */
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
    struct tern_memory memory;
    struct sampler_item *candidates; /* [vocab] scratch of the sampler */
    uint32_t *pending;               /* [n_seqs] rows of the batch being built */
    uint32_t n_logit_rows;           /* of the batch being built */
    uint64_t logit_position[TERN_MAX_LOGITS];
    bool fingerprint;
    struct xxh64 hash;
    uint64_t hashed_rows;
};

/* Section bodies of the file as parsed keys; false when the section is absent. */
enum tern_status engine_section(const struct tern_model *m, const char *tag, struct keys *keys,
                                bool *found, struct tern_error *e);

/* max |a - b| / max |b| of the model's logits against the source's golden ones, and the bound that
 * the file states for it; *found is false when it has none. */
enum tern_status engine_golden(struct tern_model *m, bool *found, float *error, float *bound,
                               struct tern_error *e);

#endif
