/* The mask of a place: which tokens keep the text alive.
 *
 * A mask is a walk over the tree of what tokens spell, with the recognizer's place at each depth; what is
 * dead is skipped with its subtree. Three things keep walks short.
 * - Masks are kept under the recognizer's signature of the place.
 * - Within a word (the content of a string, a number, blanks) its language decides instead of the
 *   recognizer: the tokens that stay in the word, and those that can cross its end, are kept under the
 *   language, for the whole tree or for the subtree behind a string's opening '"'. Only the latter
 *   tokens are tried in each mask.
 * - Where what follows the word's end is the same for all texts of the word, these are tried together: they
 *   lie in a tree of their own by what they spell from the closing '"' on.
 *
 * Everything is kept in bounded memory (MASK_CACHE_BYTES a constraint) and dropped when that is full. */
#ifndef CONSTRAINT_MASK_H
#define CONSTRAINT_MASK_H

#include "sample/recognize/recognizer.h"
#include "sample/constraint/spelling.h"

enum { MASK_CACHE_BYTES = 16 << 20 };

struct masks;

/* All three are borrowed; b is the budget of r. NULL: no memory. */
struct masks *masks_open(const struct recognizer *r, const struct spelling *s, struct budget *b);
void masks_close(struct masks *m);

/* The steps that each call may take from now on, if the budget has so many, and who is asked meanwhile. */
void masks_allow(struct masks *m, uint64_t steps, struct stop *stop);
/* A call begins, with a budget of its own; memory that was missing may be there again. Those below begin
 * theirs. */
void masks_begin(struct masks *m, struct track *t);

/* bits [(n_tokens + 31) / 32]: the tokens that may follow the place, among them the end tokens where the
 * text may end. STEP_NO_ROOM: the budget is gone; else STEP_ALIVE. */
enum step masks_find(struct masks *m, struct track *t, const struct place *p, uint32_t *bits);

/* The place behind a token that is no end token, or is spelled as one: see STEP_*. */
enum step masks_step(struct masks *m, struct track *t, struct place *p, tern_token token);

#endif
