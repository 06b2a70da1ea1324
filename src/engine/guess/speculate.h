/* Speculation: evaluates a token together with guesses of those that follow it, in one batch. In:
 * the tokens as they are chosen; out: their logits, the very bits that a row at a time would give.
 * What a constraint refuses is never guessed.
 * Guesses come from lookup.h, draft.h and heads.h; whether any are worth trying, pace.h decides by the
 * clock. */
#ifndef GUESS_SPECULATE_H
#define GUESS_SPECULATE_H

#include "engine/guess/draft.h"
#include "engine/guess/heads.h"
#include "engine/guess/lookup.h"
#include "engine/guess/pace.h"

struct speculate {
    struct tern_context *ctx;
    const struct tern_generate_params *p;
    tern_constraint_state *state; /* borrowed: behind the text; NULL: no constraint */
    struct tern_generate_result *result;
    const tern_token *text; /* borrowed: all of the sequence */
    bool with_lookup, with_draft;
    struct lookup lookup;
    struct draft draft;
    struct heads heads;
    struct pace pace;
    tern_token guess[TERN_MAX_LOGITS];
    size_t n_guess, right; /* of the last trial, and how many of them came true */
    enum guess_source { BY_LOOKUP, BY_DRAFT, BY_HEADS } by; /* and who made them */
};

/* `text` holds n tokens now, and later at most one more than the context. Checks the parameters;
 * half-built is fine to close. */
enum tern_status speculate_open(struct speculate *s, struct tern_context *ctx,
                                const struct tern_generate_params *p, tern_constraint_state *state,
                                struct tern_generate_result *result, const tern_token *text,
                                size_t n, struct tern_error *e);

/* Takes back what is on trial. */
void speculate_close(struct speculate *s);

/* The text is another one now, of n tokens. */
void speculate_restart(struct speculate *s, size_t n);

/* Of text[0 .. n), takes what is on trial; what was guessed wrong is taken back. The caller evaluates
 * the rest, by a step if it is the last token alone. */
enum tern_status speculate_follow(struct speculate *s, size_t n);

/* Makes the logits of text[n - 1] the last ones of the context, as a batch of that token would. */
enum tern_status speculate_step(struct speculate *s, size_t n, struct tern_error *e);

#endif
