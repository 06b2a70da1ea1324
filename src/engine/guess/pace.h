/* Decides how many tokens are worth guessing, in steps of a certain number of texts. In: how long steps
 * took and how many tokens they gave; out: the number of rows that promises most tokens per second, 0
 * where none promises more than a step without guesses. Never touches a bit of the result; only the
 * clock and chance decide here.
 *
 * The unit of time is a step without guesses, kept as a moving average; the unit of tokens is what it
 * gives, one for each text. */
#ifndef GUESS_PACE_H
#define GUESS_PACE_H

#include <stdbool.h>
#include <stddef.h>

enum { GUESSES_MOST = 31 }; /* of a batch */

struct pace {
    size_t crowd; /* texts in a step */
    double base;  /* seconds of a step without guesses */
    unsigned n_base;
    float cost[GUESSES_MOST + 2]; /* [1 + guesses] of a step, in base; 0: not measured, */
    bool warm[GUESSES_MOST + 2];  /* or once, when it touched memory for the first time */
    size_t largest; /* 1 + guesses measured so far; a trial has at most twice as many */
    float spent;                     /* by the last step on trial, in base */
    float credit;    /* what steps on trial may still lose, in base: a small share of the text, and
                      * what they have won lately */
    unsigned trials; /* in a row: then the next one needs less to be worth it */

    /* the step in plan: */
    size_t guesses;       /* of the texts so far */
    float expected, made; /* tokens; what it took to make the guesses, in base */
};

void pace_init(struct pace *p, size_t crowd);

/* A step without guesses took so long. */
void pace_plain(struct pace *p, double seconds);

/* The step in plan, with guesses, took so long, without what it took to make them; and gave so many tokens,
 * all texts together. */
void pace_trial(struct pace *p, double seconds);
void pace_settle(struct pace *p, size_t tokens);

/* Guesses took so long, and none was tried. */
void pace_waste(struct pace *p, double seconds);

/* A step is planned, text by text. For each: how many guesses to try, at most `max`. chance[i] is that of
 * guess i when all before are right; each guess costs `each` (in base) to make. *gain gets the tokens
 * expected per unit of time. Then what is tried. */
void pace_begin(struct pace *p);
size_t pace_choose(const struct pace *p, const float *chance, size_t max, float each, float *gain);
void pace_add(struct pace *p, const float *chance, size_t n, double extra); /* seconds to make them */

/* The least chance that a guess is worth evaluating for, and making for `each`, when the text has m of
 * them already and the step promises `gain`. */
float pace_least(const struct pace *p, size_t m, float each, float gain);

/* Guesses were there and not worth a trial: what was measured long ago loses its weight. */
void pace_pass(struct pace *p);

#endif
