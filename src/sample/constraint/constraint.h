/* A compiled constraint: the recognizer of what a text must be, and its masks. It opens any kind
 * (tern.h). It never changes, except for its lazy automata and caches, which a lock guards. Where these
 * have filled the budget, it is compiled anew, and texts go on there (constraint_state.h).
 *
 * A text is lost by nothing: what cannot be enforced, what does not fit the budget and what the model's tokens
 * cannot spell is refused when it is opened. */
#ifndef CONSTRAINT_CONSTRAINT_H
#define CONSTRAINT_CONSTRAINT_H

#include "base/lock.h"
#include "sample/constraint/mask.h"
#include "text/chat.h"

#include <stdatomic.h>

enum { CONSTRAINT_BYTES = 64 << 20, CONSTRAINT_STEPS = 100000000, CONSTRAINT_TRACK = 16 << 20 };

struct constraint_form {
    struct recognizer recognizer; /* owned */
    struct budget budget;
    struct masks *masks;
    size_t whole;          /* bytes of the budget */
    size_t room;           /* of them, those that compiling left */
    atomic_size_t n_users; /* states, and the constraint whose newest form it is */
};

struct tern_constraint {
    struct constraint_form *form;    /* the newest */
    const struct spelling *spelling; /* borrowed from the model, as is chat */
    const struct chat *chat;
    struct tern_constraint_params params; /* its texts are owned */
    struct lock *lock;
    char *notes;           /* owned; what the schema left out */
    const char **left_out; /* [n_left_out] sentences of it */
    size_t n_left_out;
    struct quota quota; /* all memory of it and its states; a part of that of all constraints */
    size_t bytes;       /* of it, without those of its forms and states */
};

/* `spelling`, `chat` and `quota` outlive it. NULL: the model has no chat template; no quota counts it. `stop` is
 * asked meanwhile. */
enum tern_status constraint_open(tern_constraint **out, const struct spelling *spelling,
                                 const struct chat *chat, const struct tern_constraint_params *p,
                                 struct quota *quota, struct stop *stop, struct tern_error *e);
void constraint_close(tern_constraint *c); /* NULL is fine */

/* ---- for constraint_state.c ---- */
/* Compiles anew, under the lock. False: compiling itself takes most of the budget, there is no memory, or it was
 * stopped. */
bool constraint_renew(tern_constraint *c, struct stop *stop);
void constraint_form_leave(struct constraint_form *f); /* one user less; closes it after the last */

#endif
