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
    if (b->is_empty || b->no_memory || (b->stop && b->stop->stopped))
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
static enum step enter(tern_constraint_state *s)
{
    s->form = s->constraint->form;
    s->form->n_users++;
    masks_allow(s->form->masks, s->hurries ? s->steps : UINT64_MAX, s->stop);
    masks_begin(s->form->masks, &s->track);
    if (!reserve(s, 1))
        return s->track.no_memory = true, STEP_NO_ROOM;
    return s->form->recognizer.begin(s->form->recognizer.self, &s->track, s->places);
}

static bool take_lock(tern_constraint_state *s)
{
    struct lock *l = s->constraint->lock;
    if (s->hurries && !s->is_late)
        s->is_late = !lock_take_briefly(l);
    else if (!s->hurries)
        lock_take(l);
    return !s->is_late;
}

bool constraint_state_begin_call(tern_constraint_state *s)
{
    if (!take_lock(s))
        return false;
    masks_allow(s->form->masks, s->hurries ? s->steps : UINT64_MAX, s->stop);
    masks_begin(s->form->masks, &s->track);
    return true;
}

enum tern_status constraint_state_end_call(tern_constraint_state *s, enum step step,
                                           struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    if (step == STEP_NO_ROOM)
        status = s->hurries ? TERN_LIMIT : no_room(s, e);
    s->steps = s->form->budget.steps;
    s->is_late |= s->hurries && status;
    masks_allow(s->form->masks, UINT64_MAX, NULL);
    lock_leave(s->constraint->lock);
    return status;
}

void constraint_state_end_search(tern_constraint_state *s)
{
    bool is_late = s->hurries && s->form->budget.is_empty;
    (void)constraint_state_end_call(s, is_late ? STEP_NO_ROOM : STEP_ALIVE, NULL);
}

void constraint_state_hurry(tern_constraint_state *s, uint64_t steps)
{
    s->hurries = true, s->is_late = false;
    s->steps = steps, s->stop = NULL;
}

void constraint_state_take_time(tern_constraint_state *s, struct stop *stop)
{
    s->hurries = s->is_late = false;
    s->stop = stop;
}

static tern_constraint_state fresh(tern_constraint *c)
{
    return (tern_constraint_state){.constraint = c,
                                   .track = {.limit = CONSTRAINT_TRACK, .quota = &c->quota},
                                   .compact_at = COMPACT_FIRST,
                                   .renewed_at = SIZE_MAX};
}

enum tern_status constraint_state_new(tern_constraint_state **out, const tern_constraint *c,
                                      struct tern_error *e)
{
    size_t bytes = own_bytes(c);
    struct quota *q = &((tern_constraint *)c)->quota;
    bool has_room = quota_take(q, bytes);
    tern_constraint_state *s = has_room ? malloc(sizeof *s) : NULL;
    uint32_t *mask = s ? malloc(mask_bytes(c) + 1) : NULL;
    *out = NULL;
    if (!mask) {
        free(s);
        quota_give(q, has_room ? bytes : 0);
        return error_memory(e, "a text's place in its constraint", bytes);
    }
    *s = fresh((tern_constraint *)c);
    s->mask = mask;
    *out = s;
    return TERN_OK;
}

enum tern_status constraint_state_start(tern_constraint_state *s, struct tern_error *e)
{
    if (!take_lock(s))
        return TERN_LIMIT;
    enum step step = enter(s);
    while (step == STEP_NO_ROOM && constraint_state_renew(s))
        step = STEP_ALIVE;
    enum tern_status status = constraint_state_end_call(s, step, e);
    if (s->is_late) { /* it will be entered again */
        constraint_form_leave(s->form);
        s->form = NULL;
    }
    return status;
}

enum tern_status constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                       struct tern_error *e)
{
    enum tern_status status = constraint_state_new(out, c, e);
    if (!status && (status = constraint_state_start(*out, e))) {
        constraint_state_close(*out);
        *out = NULL;
    }
    return status;
}

void constraint_state_close(tern_constraint_state *s)
{
    if (!s)
        return;
    leave(s);
    quota_give(&s->constraint->quota, own_bytes(s->constraint));
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
    from->form->n_users++;
    constraint_form_leave(to->form);
    to->form = from->form;
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
    tern_constraint_state new = fresh(c);
    size_t n = s->n_dropped + s->n_tokens;
    if (s->hurries || !b->is_empty || !b->steps || b->no_memory || s->renewed_at == n ||
        (s->form == c->form && !constraint_renew(c, s->stop)))
        return false;
    new.mask = s->mask, new.stop = s->stop;
    enum step step = enter(&new);
    for (size_t i = 0; i < n && step == STEP_ALIVE; i++)
        step = take(&new, s->tokens[i]);
    new.renewed_at = n;
    if (step != STEP_ALIVE) {
        s->track.no_memory |= new.track.no_memory || new.form->budget.no_memory;
        masks_allow(new.form->masks, UINT64_MAX, NULL);
        leave(&new);
        return false;
    }
    masks_allow(s->form->masks, UINT64_MAX, NULL);
    leave(s);
    *s = new;
    return true;
}

/* ---- what tern.h asks ---- */

enum tern_status constraint_state_mask(tern_constraint_state *s, const uint32_t **mask,
                                       struct tern_error *e)
{
    enum step step;
    *mask = s->mask;
    if (s->over) {
        memset(s->mask, 0, mask_bytes(s->constraint));
        return TERN_OK;
    }
    if (!constraint_state_begin_call(s))
        return TERN_LIMIT;
    do
        step = masks_find(s->form->masks, &s->track, &s->places[s->n_tokens], s->mask);
    while (step == STEP_NO_ROOM && constraint_state_renew(s));
    return constraint_state_end_call(s, step, e);
}

enum tern_status constraint_state_accept(tern_constraint_state *s, tern_token token,
                                         struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    enum step step;
    if (s->over || token < 0 || (uint32_t)token >= c->spelling->n_tokens)
        return error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token);
    if (!constraint_state_begin_call(s))
        return TERN_LIMIT;
    do
        step = take(s, token);
    while (step == STEP_NO_ROOM && constraint_state_renew(s));
    enum tern_status status = constraint_state_end_call(s, step, e);
    return step == STEP_DEAD
               ? error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token)
               : status;
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
    if (ends || !constraint_state_begin_call(s))
        return ends;
    do {
        const struct recognizer *r = &s->form->recognizer;
        const struct place *p = &s->places[s->n_tokens];
        unsigned char byte;
        masks_begin(s->form->masks, &s->track);
        ends = r->accepts(r->self, &s->track, p);
        if (ends && over)
            ends = forced_next(r, &s->track, p, &byte) == FORCED_NONE;
    } while (s->form->budget.is_empty && constraint_state_renew(s));
    constraint_state_end_search(s);
    return ends && !s->is_late;
}

bool constraint_state_can_end(tern_constraint_state *s)
{
    return ends_here(s, false);
}

bool constraint_state_is_over(tern_constraint_state *s)
{
    return ends_here(s, true);
}
