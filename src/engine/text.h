/* A text being made: struct tern_text, which the files text*.c share. Each has one job: text.c opens and
 * closes, text_rows.c knows which tokens are evaluated next, text_tokens.c chooses tokens and passes them
 * on, text_step.c evaluates one batch for several texts. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include "engine/guess/speculate.h"
#include "engine/text_out.h"
#include "sample/constraint/forced.h"

enum text_phase {
    TEXT_READS, /* its prompt, or what a shift of the context left */
    TEXT_GROWS, /* token by token */
    TEXT_ENDS,  /* nothing more is chosen, but tokens before the last one are not evaluated */
    TEXT_OVER
};

struct tern_text {
    struct tern_context *ctx;
    struct tern_generate_params p;
    struct tern_generate_result result;
    struct tern_error error;
    enum tern_status status;
    enum text_phase phase;
    bool shifts;        /* it reads for a shift of the context */
    tern_token *tokens; /* [n_ctx + 1] what the sequence holds, the prompt, what was chosen: the
                         * sampler's history; owned */
    size_t n_tokens;
    size_t begin; /* of the prompt */
    struct text_out out;
    tern_constraint_state *state; /* NULL: no constraint; owned where the caller has none */
    struct tern_sampler_params sampler;
    float mu;     /* the sampler's, unless the caller has one */
    bool guesses; /* a lookup, a draft or mtp is on; without them speculate is not opened */
    struct speculate speculate;
    struct xxh64 hash;          /* of the logits that tokens were chosen from */
    struct tern_context *draft; /* whose sequence is taken; or NULL */
    uint64_t n_again;           /* of the sequence, when the text began */

    /* Tokens that must come next, and which of them were taken; the state has accepted them all */
    tern_token forced[FORCED_BYTES + 1];
    size_t n_forced, forced_taken;
    enum tern_status force_status; /* of what follows them */
    size_t
        complete_at; /* of result.n_generated: nothing can follow then; SIZE_MAX: not known to come */

    bool late; /* its constraint has more to do than the last step allowed */
    float *
        aside; /* [vocab] logits from which the next token is chosen meanwhile, or was; owned; or NULL */

    /* of the step in work */
    uint64_t step;   /* its number */
    size_t from, to; /* tokens evaluated by it, without guesses */
    bool was_reading, was_shifting;
    size_t row, n_rows;  /* its logit rows, from the first on, without guesses */
    const float *logits; /* from which the next token is chosen now; or NULL */
    bool took;           /* it was, just now */
    tern_token chosen;
    enum tern_status choice_status;
};

static inline bool text_is_full(const struct tern_text *t)
{
    return t->n_tokens > t->ctx->memory.n_ctx;
}

/* Of a text that has just been opened: its answer is said to be given[0 .. n), which are its guesses. They
 * change its speed and nothing else. */
enum tern_status text_give(struct tern_text *t, const tern_token *given, size_t n,
                           struct tern_error *e);

/* Tokens of the text that are not evaluated yet. */
static inline size_t text_pending(const struct tern_text *t)
{
    return t->n_tokens - tern_seq_length(t->ctx, t->p.seq);
}

#endif
