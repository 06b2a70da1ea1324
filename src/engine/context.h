/* A context: the cache and the forward pass behind tern_context, the batch being built, and what is
 * known of the rows evaluated last. */
#ifndef ENGINE_CONTEXT_H
#define ENGINE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/xxh64.h"
#include "engine/guess/pace.h"
#include "engine/lab/observe.h"
#include "engine/model_handle.h"
#include "model/cache.h"
#include "model/prefix_store.h"
#include "model/state.h"
#include "sample/sampler.h"

struct tern_context {
    struct tern_model *model; /* borrowed */
    struct cache cache;
    struct prefix_store prefixes;
    struct forward forward;
    struct observer *observer; /* NULL: nobody looks */
    bool altered;              /* tern_altered */
    struct tern_memory memory;
    struct sampler *
        samplers; /* [n_samplers] own scratch and decoder; a thread each and the late one, or one */
    size_t n_samplers;
    uint32_t *pending;  /* [n_seqs] rows of the batch being built */
    uint32_t *expected; /* [n_seqs] tern_seq_expect */
    uint64_t *n_again;  /* [n_seqs] tokens evaluated again for a RoPE limit */
    bool *in_use;       /* [n_seqs] by an open text, or as its draft */
    struct row *again;  /* [n_batch] rows of what is evaluated again; or NULL */
    struct pace
        *paces; /* [n_seqs] of steps with 1, 2, ... texts, from when a text that guesses was */
    size_t n_guessing;           /* opened while no other was; how many are open */
    int bad;                     /* what was not finite first (state.h), in any batch; or 0 */
    uint64_t n_steps;            /* of texts: tells which are in the step in work */
    uint32_t n_logit_rows;       /* of the batch being built */
    bool on_trial;               /* some rows of the last batch are */
    uint32_t first_seen, n_seen; /* logit rows of the last batch that can be seen */
    uint64_t *logit_position;    /* [n_logits] */
    struct xxh64 hash;
    uint64_t hashed_rows;
#ifdef TERN_MPI
    uint32_t number; /* among those of all machines (order.h) */
#endif
};

/* tern_batch_add of a row whose position is found here, with what else a row may be */
enum tern_status context_add(struct tern_context *c, struct row row, struct tern_error *e);

/* Evaluates the batch, and no logits are seen yet. if_finite: where a value is not finite, TERN_LIMIT is
 * returned and every sequence is as it was. */
enum tern_status context_run(struct tern_context *c, bool if_finite);

/* Logit rows first .. first + n - 1 of the last batch are those that are seen. */
void context_see(struct tern_context *c, size_t first, size_t n);

/* Rows on trial ask for logits. Length, logits and fingerprint stay as they are until context_show makes
 * the rows seen, one by one; `row` is the next one's number among the logit rows. It is then as
 * tern_forward would have left it. asked false: as if it had asked for no logits.
 * What is not shown leaves no trace: context_drop takes it back, and so does the next batch.
 * A batch on trial runs if all is finite: a value that is not may come from a row that would never have
 * been evaluated. */
void context_show(struct tern_context *c, uint32_t seq, size_t row, bool asked);
void context_drop(struct tern_context *c);

/* tern_seq_keep, as part of another call */
uint32_t context_keep(struct tern_context *c, uint32_t seq, uint32_t n);

/* tern_numeric_status of one sequence alone */
enum tern_status context_seq_status(const struct tern_context *c, uint32_t seq,
                                    struct tern_error *e);

/* Guesses what follows `token` after the sequence: mtp_guess, when nothing is on trial. */
size_t context_guess(struct tern_context *c, uint32_t seq, tern_token token, size_t max,
                     float least, tern_token *guess, size_t *made);

/* Evaluates the sequence again if its RoPE frequencies are not those of its length, and brings the
 * states of its recurrent layers, and the rows of the layer that guesses, to its end. */
void context_settle(struct tern_context *c, uint32_t seq);

#endif
