/* Where a text is in its constraint: the recognizer's place after each token, and the records that the
 * places refer to. At least the last STATE_KEPT tokens can be taken back; these cost 20 bytes each, older
 * ones 4. Of the records, those that neither these tokens nor what is open need are dropped from time to
 * time; at most CONSTRAINT_TRACK bytes stay.
 *
 * Places are those of one form of the constraint. Where its automata have filled the budget, the text is
 * read again from its first token, in a form that is new. So one text alone may fill the budget, which
 * ends it. */
#ifndef CONSTRAINT_CONSTRAINT_STATE_H
#define CONSTRAINT_CONSTRAINT_STATE_H

#include "sample/constraint/constraint.h"

enum { STATE_KEPT = 1280 };

struct tern_constraint_state {
    struct tern_constraint *constraint; /* borrowed; its lock guards what changes of it */
    struct constraint_form *form;       /* shared */
    struct track track;
    struct place *places; /* [capacity]: before the first token that is kept, after each */
    tern_token *tokens;   /* [token_capacity]: the text so far; its last n_tokens are kept */
    size_t n_tokens, n_dropped, capacity, token_capacity;
    size_t renewed_at;     /* tokens of the text when it was read again last */
    uint32_t compact_at;   /* bytes of records at which some are dropped */
    bool over;             /* the last token ended the text */
    bool hurries, is_late; /* constraint_state_hurry */
    uint64_t steps;        /* left, while it hurries */
    struct stop *stop;     /* while it takes its time */
    uint32_t *mask;        /* [(vocab + 31) / 32] */
};

enum tern_status constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                       struct tern_error *e);
/* The same in two parts: start brings it to the beginning of a text, once. */
enum tern_status constraint_state_new(tern_constraint_state **out, const tern_constraint *c,
                                      struct tern_error *e);
enum tern_status constraint_state_start(tern_constraint_state *s, struct tern_error *e);
enum tern_status constraint_state_copy(tern_constraint_state *to, const tern_constraint_state *from,
                                       struct tern_error *e);
void constraint_state_close(tern_constraint_state *s);
enum tern_status constraint_state_mask(tern_constraint_state *s, const uint32_t **mask,
                                       struct tern_error *e);
enum tern_status constraint_state_accept(tern_constraint_state *s, tern_token token,
                                         struct tern_error *e);
size_t constraint_state_rollback(tern_constraint_state *s, size_t n);
bool constraint_state_can_end(tern_constraint_state *s);
bool constraint_state_is_over(tern_constraint_state *s);

/* From now on, all calls together take at most so many steps, wait for nobody who takes his time, and never
 * compile anew. One that cannot answer so says TERN_LIMIT (or no, or no tokens), changes nothing, and the state
 * is late: the answer is not known. */
void constraint_state_hurry(tern_constraint_state *s, uint64_t steps);
/* From now on, calls take the time that they need, and ask `stop`, which may be NULL. A new state does. */
void constraint_state_take_time(tern_constraint_state *s, struct stop *stop);

/* The token that led to its place; -1: none. */
static inline tern_token constraint_state_last(const tern_constraint_state *s)
{
    size_t n = s->n_dropped + s->n_tokens;
    return n ? s->tokens[n - 1] : -1;
}

/* ---- for forced.c: around calls of the recognizer ---- */
/* Takes the lock. False: it is late. */
bool constraint_state_begin_call(tern_constraint_state *s);
/* Leaves it. STEP_NO_ROOM: TERN_LIMIT or what else the reason is. */
enum tern_status constraint_state_end_call(tern_constraint_state *s, enum step step,
                                           struct tern_error *e);
/* The same for one that needs no answer: where there is no room, what it found must do, unless it hurries. */
void constraint_state_end_search(tern_constraint_state *s);
/* After a call of the recognizer that had no room: true, and the text is in a form that is new, so that the
 * call may have room now. The caller holds the lock. */
bool constraint_state_renew(tern_constraint_state *s);

#endif
