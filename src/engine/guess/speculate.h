/* Speculation: guesses the tokens that follow a text, to be evaluated in one batch with its last one. In:
 * the tokens as they are chosen; out: guesses, and which of them came true. What a constraint refuses is
 * never guessed.
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
    struct pace *pace;       /* borrowed: of the steps with as many texts as this one has */
    const tern_token *guess; /* [n_guess] of the last trial: in `made`, or given */
    tern_token made[GUESSES_MOST];
    float chance[GUESSES_MOST];
    size_t n_guess, right; /* of the last trial, and how many of them came true */
    size_t row;            /* number of the first one's logit row, set by who evaluates them */
    double extra;          /* seconds that they took to make */
    const tern_token
        *given; /* borrowed; text[given_from .. given_end) is said to be these; or NULL */
    size_t given_from, given_end;
    enum guess_source { BY_LOOKUP, BY_DRAFT, BY_HEADS } by; /* and who made them */
};

/* `text` holds n tokens now, and later at most one more than the context. Checks the parameters;
 * half-built is fine to close. */
enum tern_status speculate_open(struct speculate *s, struct tern_context *ctx,
                                const struct tern_generate_params *p, tern_constraint_state *state,
                                struct tern_generate_result *result, const tern_token *text,
                                size_t n, struct tern_error *e);

void speculate_close(struct speculate *s);

/* What follows the n tokens of the text is said to be given[0 .. n_given): they are the guesses from now
 * on, of speculate_take. */
void speculate_give(struct speculate *s, const tern_token *given, size_t n_given, size_t n);

/* The text is another one now, of n tokens. */
void speculate_restart(struct speculate *s, size_t n);

/* Fills guess[n_guess] with what may follow text[0 .. n), of which only the last token is not evaluated:
 * at most `most`, and as many as are worth it in the step that `pace` has in plan. */
void speculate_guess(struct speculate *s, struct pace *pace, size_t n, size_t most);

/* The same with what is given: as many as fit. */
void speculate_take(struct speculate *s, size_t n, size_t most);

/* Shows what is on trial of text[0 .. n), and returns true if that is all that was not evaluated: the
 * logits of the last token are seen then. Else the trial is over, and its rows are worth nothing. */
bool speculate_follow(struct speculate *s, size_t n);

/* A guess gave a value that is not finite: no more of them. */
void speculate_stop(struct speculate *s);

#endif
