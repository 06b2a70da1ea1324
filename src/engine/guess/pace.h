/* Decides how many tokens are worth guessing. In: how long steps took and how many tokens they
 * gave; out: the number of rows that promises most tokens per second, 0 where none promises more
 * than a step of one row. Never touches a bit of the result; only the clock and chance decide here.
 *
 * The unit of time is a step of one row, kept as a moving average. */
#ifndef GUESS_PACE_H
#define GUESS_PACE_H

#include <stdbool.h>
#include <stddef.h>

enum { GUESSES_MOST = 31 }; /* of a batch */

struct pace {
    double base; /* seconds of a step of one row */
    unsigned n_base;
    float cost[GUESSES_MOST + 2]; /* [rows] of a step, in base; 0: never measured, */
    bool warm[GUESSES_MOST + 2];  /* or once, when it touched memory for the first time */
    size_t largest;                  /* rows measured so far; a trial has at most twice as many */
    float spent;                     /* by the last step on trial, in base */
    float credit;    /* what steps on trial may still lose, in base: a small share of the text, and
                      * what they have won lately */
    unsigned trials; /* in a row: then the next one needs less to be worth it */
};

void pace_init(struct pace *p);

/* A step of one row took so long. */
void pace_plain(struct pace *p, double seconds);

/* A step of `rows` rows on trial took so long, after `extra` seconds for its guesses; and, when the
 * next step comes, the tokens that it gave. */
void pace_trial(struct pace *p, size_t rows, double seconds, double extra);
void pace_settle(struct pace *p, size_t tokens);

/* Guesses took so long, and none was tried. */
void pace_waste(struct pace *p, double seconds);

/* How many guesses to try, at most `max`. chance[i] is that of guess i when all before are right;
 * each guess costs `each` (in base) to make. *gain gets the tokens expected per step of one row. */
size_t pace_choose(const struct pace *p, const float *chance, size_t max, float each, float *gain);

/* What another guess costs when a step has m of them already: to evaluate it, and `each` to make it */
float pace_price(const struct pace *p, size_t m, float each);

/* Guesses were there and not worth a trial: what was measured long ago loses its weight. */
void pace_pass(struct pace *p);

#endif
