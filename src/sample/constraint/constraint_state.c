/* Places of a text: see constraint_state.h. */
#include "sample/constraint/constraint_state.h"

#include "sample/constraint/forced.h"

#include <stdlib.h>
#include <string.h>

enum { COMPACT_FIRST = 32 << 10 };

static size_t mask_bytes(const tern_constraint *c)
{
    return (c->spelling->n_tokens + (size_t)31) / 32 * sizeof(uint32_t);
}

/* Of a state, without what grows with its text */
static size_t own_bytes(const tern_constraint *c)
{
    return sizeof(tern_constraint_state) + mask_bytes(c) + 1;
}

static enum tern_status no_room(const tern_constraint_state *s, struct tern_error *e)
{
    const struct budget *b = &s->form->budget;
    if (s->track.no_memory)
        return error_memory(e, "a text's place in its constraint", s->track.capacity);
    if (b->is_empty || b->no_memory)
        return budget_refuse(b, e, "constraint");
    return error_set(e, TERN_LIMIT,
                     "constraint: the text is nested too deeply, or its grammar reads it in too "
                     "many ways: write the grammar without ambiguous rules");
}

static bool grow(struct quota *q, void *array, size_t *capacity, size_t n, size_t size)
{
    void *p, *bigger;
    if (n <= *capacity)
        return true;
    size_t more = n < 64 ? 64 : n + n / 2;
    memcpy(&p, array, sizeof p);
    if (!quota_take(q, (more - *capacity) * size))
        return false;
    if (!(bigger = realloc(p, more * size))) {
        quota_give(q, (more - *capacity) * size);
        return false;
    }
    memcpy(array, &bigger, sizeof bigger);
    *capacity = more;
    return true;
}

/* For n tokens that are kept, behind those that were dropped */
static bool reserve(tern_constraint_state *s, size_t n)
{
    struct quota *q = &s->constraint->quota;
    return grow(q, &s->places, &s->capacity, n + 1, sizeof *s->places) &&
           grow(q, &s->tokens, &s->token_capacity, s->n_dropped + n + 1, sizeof *s->tokens);
}

static void leave(tern_constraint_state *s)
{
    constraint_form_leave(s->form);
    track_free(&s->track);
    free(s->places);
    free(s->tokens);
    quota_give(&s->constraint->quota,
               s->capacity * sizeof *s->places + s->token_capacity * sizeof *s->tokens);
}

/* At the beginning of a text, in the newest form. The lock is held. */
static enum step enter(tern_constraint_state *s, tern_constraint *c)
{
    *s = (tern_constraint_state){.constraint = c,
                                 .form = c->form,
                                 .track = {.limit = CONSTRAINT_TRACK, .quota = &c->quota},
                                 .compact_at = COMPACT_FIRST,
                                 .renewed_at = SIZE_MAX,
                                 .mask = s->mask};
    s->form->n_users++;
    if (!reserve(s, 1))
        return s->track.no_memory = true, STEP_NO_ROOM;
    return s->form->recognizer.begin(s->form->recognizer.self, &s->track, s->places);
}

enum tern_status constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                       struct tern_error *e)
{
    size_t bytes = own_bytes(c);
    struct quota *q = &((tern_constraint *)c)->quota;
    bool has_room = quota_take(q, bytes);
    tern_constraint_state *s = has_room ? calloc(1, sizeof *s) : NULL;
    *out = NULL;
    if (!s || !(s->mask = malloc(mask_bytes(c) + 1))) {
        free(s);
        quota_give(q, has_room ? bytes : 0);
        return error_memory(e, "a text's place in its constraint", bytes);
    }
    lock_take(c->lock);
    enum step step = enter(s, (tern_constraint *)c);
    while (step == STEP_NO_ROOM && constraint_state_renew(s))
        step = STEP_ALIVE;
    lock_leave(c->lock);
    if (step == STEP_ALIVE) {
        *out = s;
        return TERN_OK;
    }
    enum tern_status status = no_room(s, e);
    constraint_state_close(s);
    return status;
}

void constraint_state_close(tern_constraint_state *s)
{
    if (!s)
        return;
    struct lock *lock = s->constraint->lock;
    lock_take(lock);
    leave(s);
    quota_give(&s->constraint->quota, own_bytes(s->constraint));
    lock_leave(lock);
    free(s->mask);
    free(s);
}

enum tern_status constraint_state_copy(tern_constraint_state *to, const tern_constraint_state *from,
                                       struct tern_error *e)
{
    uint32_t used = from->places[from->n_tokens].used;
    size_t n = from->n_dropped + from->n_tokens;
    if (to->constraint != from->constraint)
        return error_set(e, TERN_USAGE, "the states are of different constraints");
    if (to == from)
        return TERN_OK;
    struct quota *q = &to->constraint->quota;
    if (!track_room(&to->track, used))
        return error_memory(e, "a text's place in its constraint", used);
    if (!grow(q, &to->places, &to->capacity, from->n_tokens + 1, sizeof *to->places) ||
        !grow(q, &to->tokens, &to->token_capacity, n + 1, sizeof *to->tokens))
        return error_memory(e, "a text's place in its constraint", n * sizeof *to->places);
    lock_take(to->constraint->lock);
    from->form->n_users++;
    constraint_form_leave(to->form);
    to->form = from->form;
    lock_leave(to->constraint->lock);
    if (used)
        memcpy(to->track.bytes, from->track.bytes, used);
    memcpy(to->places, from->places, (from->n_tokens + 1) * sizeof *to->places);
    memcpy(to->tokens, from->tokens, n * sizeof *to->tokens);
    to->n_tokens = from->n_tokens, to->n_dropped = from->n_dropped;
    to->over = from->over, to->compact_at = from->compact_at, to->renewed_at = from->renewed_at;
    return TERN_OK;
}

/* ---- steps, while the lock is held ---- */

/* Drops all places but the last STATE_KEPT, and the records that are not needed any more. Without memory it
 * is left for another time. */
static void forget(tern_constraint_state *s)
{
    const struct recognizer *r = &s->form->recognizer;
    size_t first = s->n_tokens > STATE_KEPT ? s->n_tokens - STATE_KEPT : 0;
    s->n_tokens -= first, s->n_dropped += first;
    memmove(s->places, s->places + first, (s->n_tokens + 1) * sizeof *s->places);
    if (!r->compact || s->places[s->n_tokens].used <= s->compact_at)
        return;
    struct track to = {.limit = s->track.limit, .quota = s->track.quota};
    enum step step = r->compact(r->self, &s->track, &to, s->places, s->n_tokens + 1);
    if (step != STEP_ALIVE) {
        track_free(&to);
        return;
    }
    track_free(&s->track);
    s->track = to;
    s->compact_at = 2 * s->places[s->n_tokens].used + COMPACT_FIRST;
}

static enum step take(tern_constraint_state *s, tern_token token)
{
    const tern_constraint *c = s->constraint;
    const struct recognizer *r = &s->form->recognizer;
    if (!reserve(s, s->n_tokens + 1))
        return s->track.no_memory = true, STEP_NO_ROOM;
    struct place *next = &s->places[s->n_tokens + 1];
    *next = s->places[s->n_tokens];
    bool ends = spelling_is_end(c->spelling, token) && r->accepts(r->self, &s->track, next);
    enum step step = ends ? STEP_ALIVE : masks_step(s->form->masks, &s->track, next, token);
    if (step != STEP_ALIVE)
        return step;
    s->tokens[s->n_dropped + s->n_tokens++] = token;
    s->over = ends;
    if (s->n_tokens >= 2 * STATE_KEPT || next->used > s->compact_at)
        forget(s);
    return STEP_ALIVE;
}

bool constraint_state_renew(tern_constraint_state *s)
{
    const struct budget *b = &s->form->budget;
    tern_constraint *c = s->constraint;
    tern_constraint_state new = {.mask = s->mask};
    size_t n = s->n_dropped + s->n_tokens;
    if (!b->is_empty || !b->steps || b->no_memory || s->renewed_at == n ||
        (s->form == c->form && !constraint_renew(c)))
        return false;
    enum step step = enter(&new, c);
    for (size_t i = 0; i < n && step == STEP_ALIVE; i++)
        step = take(&new, s->tokens[i]);
    new.renewed_at = n;
    if (step != STEP_ALIVE) {
        s->track.no_memory |= new.track.no_memory || new.form->budget.no_memory;
        leave(&new);
        return false;
    }
    leave(s);
    *s = new;
    return true;
}

/* ---- what tern.h asks ---- */

enum tern_status constraint_state_mask(tern_constraint_state *s, const uint32_t **mask,
                                       struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    enum step step;
    *mask = s->mask;
    if (s->over) {
        memset(s->mask, 0, mask_bytes(c));
        return TERN_OK;
    }
    lock_take(c->lock);
    do
        step = masks_find(s->form->masks, &s->track, &s->places[s->n_tokens], s->mask);
    while (step == STEP_NO_ROOM && constraint_state_renew(s));
    lock_leave(c->lock);
    return step == STEP_NO_ROOM ? no_room(s, e) : TERN_OK;
}

enum tern_status constraint_state_accept(tern_constraint_state *s, tern_token token,
                                         struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    enum step step;
    if (s->over || token < 0 || (uint32_t)token >= c->spelling->n_tokens)
        return error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token);
    lock_take(c->lock);
    do
        step = take(s, token);
    while (step == STEP_NO_ROOM && constraint_state_renew(s));
    lock_leave(c->lock);
    if (step == STEP_NO_ROOM)
        return no_room(s, e);
    return step == STEP_DEAD
               ? error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token)
               : TERN_OK;
}

size_t constraint_state_rollback(tern_constraint_state *s, size_t n)
{
    if (n > s->n_tokens)
        n = s->n_tokens;
    s->n_tokens -= n;
    s->renewed_at = n ? SIZE_MAX : s->renewed_at;
    s->over = s->over && !n;
    return n;
}

/* May the text end? over: and does nothing follow? */
static bool ends_here(tern_constraint_state *s, bool over)
{
    bool ends = s->over;
    if (ends)
        return true;
    lock_take(s->constraint->lock);
    do {
        const struct recognizer *r = &s->form->recognizer;
        const struct place *p = &s->places[s->n_tokens];
        unsigned char byte;
        masks_begin(s->form->masks, &s->track);
        ends = r->accepts(r->self, &s->track, p);
        if (ends && over)
            ends = forced_next(r, &s->track, p, &byte) == FORCED_NONE;
    } while (s->form->budget.is_empty && constraint_state_renew(s));
    lock_leave(s->constraint->lock);
    return ends;
}

bool constraint_state_can_end(tern_constraint_state *s)
{
    return ends_here(s, false);
}

bool constraint_state_is_over(tern_constraint_state *s)
{
    return ends_here(s, true);
}
