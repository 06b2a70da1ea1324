/* Where a text is in its constraint: the recognizer's place after each token, and the records that the
 * places refer to. At least the last STATE_KEPT tokens can be taken back; a token costs 20 bytes. Of the
 * records, those that neither these tokens nor what is open need are dropped from time to time; at most
 * CONSTRAINT_TRACK bytes stay. */
#ifndef CONSTRAINT_CONSTRAINT_STATE_H
#define CONSTRAINT_CONSTRAINT_STATE_H

#include "sample/constraint/constraint.h"

enum { STATE_KEPT = 1024 };

struct tern_constraint_state {
    const struct tern_constraint *constraint; /* borrowed */
    struct track track;
    struct place *places; /* [capacity]: before the first token that is kept, after each */
    tern_token *tokens;   /* [capacity]: that led to each place; -1: none */
    size_t n_tokens, capacity;
    uint32_t compact_at; /* bytes of records at which some are dropped */
    bool over;           /* the last token ended the text */
    uint32_t *mask; /* [(vocab + 31) / 32] */
};

enum tern_status constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                       struct tern_error *e);
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

#endif
