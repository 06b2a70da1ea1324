/* Guesses the next tokens from repetitions. In: the tokens of a text, one by one; out: what
 * followed the last place that reads like the end of the text, and how often guesses from a match
 * of that length came true. Knows nothing of models. */
#ifndef GUESS_LOOKUP_H
#define GUESS_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

enum { LOOKUP_CLASSES = 5 }; /* of match lengths: 2 to 3, 4 to 7, 8 to 15, 16 to 31, more */

struct lookup {
    const tern_token *text; /* borrowed; [n] are known */
    size_t n;
    size_t at;       /* text[at] is the guess for text[n]; 0: none */
    size_t length;   /* tokens before `at` that equal the end of the text, as far as compared */
    uint32_t *slots; /* [1 << bits] end of the last n-gram with this hash; 0: none; owned */
    unsigned bits;
    unsigned seen[LOOKUP_CLASSES];
    float chance[LOOKUP_CLASSES]; /* that a guess is right, by the length of its match */
};

/* `text` will hold at most `room` tokens. False without memory. */
bool lookup_open(struct lookup *l, const tern_token *text, size_t room);
void lookup_close(struct lookup *l);
void lookup_clear(struct lookup *l); /* the text begins anew; what was learned stays */

/* Takes text[n], in constant time and memory. */
void lookup_push(struct lookup *l);

/* The text has another author from here on: what was seen so far counts for less. */
void lookup_doubt(struct lookup *l);

/* The next tokens, at most `max` and while it is not unlikely that all are right, and the
 * probability of each when all before it are. Returns how many. */
size_t lookup_guess(const struct lookup *l, tern_token *tokens, float *chance, size_t max);

#endif
