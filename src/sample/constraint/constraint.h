/* A compiled constraint: the recognizer of what a text must be, and its masks. It opens any kind
 * (tern.h). It never changes, except for its lazy automata and caches, which a lock guards.
 *
 * A text is lost by nothing: what cannot be enforced, what does not fit the budget and what the model's tokens
 * cannot spell is refused when it is opened. */
#ifndef CONSTRAINT_CONSTRAINT_H
#define CONSTRAINT_CONSTRAINT_H

#include "base/lock.h"
#include "sample/constraint/mask.h"
#include "text/chat.h"

enum { CONSTRAINT_BYTES = 64 << 20, CONSTRAINT_STEPS = 100000000, CONSTRAINT_TRACK = 16 << 20 };

struct tern_constraint {
    struct recognizer recognizer; /* owned */
    struct budget budget;
    const struct spelling *spelling; /* borrowed from the model */
    struct masks *masks;
    struct lock *lock;
    char *notes;           /* owned; what the schema left out */
    const char **left_out; /* [n_left_out] sentences of it */
    size_t n_left_out;
};

/* `spelling` outlives it. `chat` is borrowed for the call; NULL: the model has no chat template. */
enum tern_status constraint_open(tern_constraint **out, const struct spelling *spelling,
                                 const struct chat *chat, const struct tern_constraint_params *p,
                                 struct tern_error *e);
void constraint_close(tern_constraint *c); /* NULL is fine */

#endif
