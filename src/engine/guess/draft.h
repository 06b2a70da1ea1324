/* Guesses the next tokens with a small model. In: the tokens of a text; out: the small model's
 * greedy continuation, and how often it came true. Its own context follows the text by
 * tern_seq_keep. */
#ifndef GUESS_DRAFT_H
#define GUESS_DRAFT_H

#include "engine/context.h"

struct draft {
    struct tern_context *ctx; /* borrowed. NULL: there is none */
    uint32_t seq;             /* of ctx */
    size_t fed;               /* tokens of the text that it holds now */
    tern_token guess[GUESSES_MOST];
    size_t n_guess; /* the last guesses, for text[fed ...); all but the last are held too */
    float chance;   /* that a guess is right */
    unsigned seen;
    double each, fill; /* seconds to make a guess; to take in a token of the text */
};

/* The sequence keeps what it already holds of text[0 .. n). */
void draft_init(struct draft *d, struct tern_context *ctx, uint32_t seq, const tern_token *text,
                size_t n);

/* Tokens of text[0 .. n) that must be taken in before the next guess. */
size_t draft_lag(struct draft *d, const tern_token *text, size_t n);

/* What follows text[0 .. n), at most `max` tokens, into d->guess; fewer or none where the context
 * is full, a token is unknown, or *cancel is set. */
void draft_guess(struct draft *d, const tern_token *text, size_t n, size_t max,
                 const atomic_int *cancel);

/* Of the last guesses the first `right` came true; the rest, if any, did not. */
void draft_learn(struct draft *d, size_t right);
void draft_pass(struct draft *d); /* none were asked for: the chance slowly returns */

/* Leaves nothing but text[0 .. n) in the sequence. */
void draft_finish(struct draft *d, const tern_token *text, size_t n);

#endif
