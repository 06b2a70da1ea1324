/* A context: the cache and the forward pass behind tern_context, the batch being built, and what is
 * known of the rows evaluated last. */
#ifndef ENGINE_CONTEXT_H
#define ENGINE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/xxh64.h"
#include "engine/lab/observe.h"
#include "engine/model_handle.h"
#include "model/cache.h"
#include "model/state.h"
#include "sample/sampler.h"

struct tern_context {
    struct tern_model *model; /* borrowed */
    struct cache cache;
    struct forward forward;
    struct observer *observer; /* NULL: nobody looks */
    bool altered;              /* tern_altered */
    struct tern_memory memory;
    struct sampler sampler; /* owns scratch and decoder */
    uint32_t *pending;      /* [n_seqs] rows of the batch being built */
    uint32_t *expected;     /* [n_seqs] tern_seq_expect */
    struct row *again;      /* [n_batch] rows of what is evaluated again; or NULL */
    uint64_t n_again;
    uint32_t n_logit_rows; /* of the batch being built */
    uint32_t first_logits; /* first logit row of the last batch that can be seen */
    uint64_t logit_position[TERN_MAX_LOGITS];
    struct xxh64 hash;
    uint64_t hashed_rows;
};

/* Evaluates the batch on trial. Its rows are of one sequence, and all ask for logits. Lengths,
 * logits, fingerprint and numeric status stay as they are until context_show makes the rows seen,
 * one by one. Each is then as tern_forward would have left it, and a cancel between two rows works.
 * asked false: as if the row had asked for no logits.
 * What is not shown leaves no trace: the next batch, or context_drop, takes it back.
 * *usable is false when a value was not finite. Then nothing is on trial, and the rows must be
 * evaluated one at a time: the value may come from a row that would never have been evaluated. */
enum tern_status context_try(struct tern_context *c, bool *usable);
enum tern_status context_show(struct tern_context *c, bool asked);
void context_drop(struct tern_context *c);

/* tern_sample, under a mask of sampler.h instead of params->constraint */
tern_token context_sample(struct tern_context *c, const struct tern_sampler_params *params,
                          const float *logits, const tern_token *history, size_t n_history,
                          uint64_t index, const uint32_t *mask);

/* Guesses what follows `token` after the sequence: mtp_guess, when nothing is on trial. */
size_t context_guess(struct tern_context *c, uint32_t seq, tern_token token, size_t max, float least,
                     tern_token *guess, size_t *made);

/* Evaluates the sequence again if its RoPE frequencies are not those of its length, and brings the
 * states of its recurrent layers, and the rows of the layer that guesses, to its end. */
void context_settle(struct tern_context *c, uint32_t seq);

#endif
