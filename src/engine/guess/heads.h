/* Guesses the next tokens with the model's own layer for that (model/mtp.h). In: a token that follows
 * a sequence; out: the layer's greedy continuation, and how often it came true. */
#ifndef GUESS_HEADS_H
#define GUESS_HEADS_H

#include "engine/context.h"

enum { HEADS_MOST = 8 };

struct heads {
    tern_token guess[HEADS_MOST];
    size_t n_guess;           /* the last guesses */
    size_t max;               /* that are wanted at a time; 0: off */
    float chance[HEADS_MOST]; /* that a guess is right when those before it are */
    unsigned seen[HEADS_MOST];
    double each; /* seconds to make a guess; 0: not known */
    unsigned n_calls;
};

void heads_init(struct heads *h, size_t max);

/* What follows `token` after a sequence that has nothing on trial: at most `max` guesses into h->guess,
 * while all of them together have at least the probability `least`. */
void heads_guess(struct heads *h, struct tern_context *ctx, uint32_t seq, tern_token token, size_t max,
                 float least);

/* Of the last guesses the first `right` came true; the next one, if there is one, did not. */
void heads_learn(struct heads *h, size_t right);
void heads_pass(struct heads *h); /* none were asked for: the chance slowly returns */

#endif
