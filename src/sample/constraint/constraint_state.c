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

static enum tern_status no_room(const tern_constraint_state *s, struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    if (s->track.no_memory)
        return error_memory(e, "a text's place in its constraint", s->track.capacity);
    if (c->budget.is_empty || c->budget.no_memory)
        return budget_refuse(&c->budget, e, "constraint");
    return error_set(e, TERN_LIMIT,
                     "constraint: the text is nested too deeply, or its grammar reads it in too "
                     "many ways: write the grammar without ambiguous rules");
}

static bool reserve(tern_constraint_state *s, size_t n)
{
    if (n <= s->capacity)
        return true;
    size_t capacity = n < 64 ? 64 : n + n / 2;
    struct place *places = realloc(s->places, capacity * sizeof *places);
    if (places)
        s->places = places;
    tern_token *tokens = realloc(s->tokens, capacity * sizeof *tokens);
    if (tokens)
        s->tokens = tokens;
    if (places && tokens)
        s->capacity = capacity;
    return places && tokens;
}

enum tern_status constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                       struct tern_error *e)
{
    tern_constraint_state *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return error_memory(e, "a text's place in its constraint", sizeof *s);
    s->constraint = c;
    s->track.limit = CONSTRAINT_TRACK;
    s->compact_at = COMPACT_FIRST;
    s->mask = malloc(mask_bytes(c) + 1);
    enum step step = STEP_NO_ROOM;
    if (s->mask && reserve(s, 1)) {
        lock_take(c->lock);
        s->tokens[0] = -1;
        step = c->recognizer.begin(c->recognizer.self, &s->track, s->places);
        lock_leave(c->lock);
    }
    if (step != STEP_ALIVE) {
        enum tern_status status =
            s->mask && s->capacity
                ? no_room(s, e)
                : error_memory(e, "a text's place in its constraint", mask_bytes(c));
        constraint_state_close(s);
        return status;
    }
    *out = s;
    return TERN_OK;
}

void constraint_state_close(tern_constraint_state *s)
{
    if (!s)
        return;
    free(s->track.bytes);
    free(s->places);
    free(s->tokens);
    free(s->mask);
    free(s);
}

enum tern_status constraint_state_copy(tern_constraint_state *to, const tern_constraint_state *from,
                                       struct tern_error *e)
{
    uint32_t used = from->places[from->n_tokens].used;
    if (to->constraint != from->constraint)
        return error_set(e, TERN_USAGE, "the states are of different constraints");
    if (to == from)
        return TERN_OK;
    if (used > to->track.capacity) {
        unsigned char *bytes = realloc(to->track.bytes, used);
        if (!bytes)
            return error_memory(e, "a text's place in its constraint", used);
        to->track.bytes = bytes, to->track.capacity = used;
    }
    if (!reserve(to, from->n_tokens + 1))
        return error_memory(e, "a text's place in its constraint",
                            (from->n_tokens + 1) * sizeof *to->places);
    if (used)
        memcpy(to->track.bytes, from->track.bytes, used);
    memcpy(to->places, from->places, (from->n_tokens + 1) * sizeof *to->places);
    memcpy(to->tokens, from->tokens, (from->n_tokens + 1) * sizeof *to->tokens);
    to->n_tokens = from->n_tokens, to->over = from->over, to->compact_at = from->compact_at;
    return TERN_OK;
}

enum tern_status constraint_state_mask(tern_constraint_state *s, const uint32_t **mask,
                                       struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    enum step step = STEP_ALIVE;
    *mask = s->mask;
    if (s->over) {
        memset(s->mask, 0, mask_bytes(c));
        return TERN_OK;
    }
    lock_take(c->lock);
    step = masks_find(c->masks, &s->track, &s->places[s->n_tokens], s->mask);
    lock_leave(c->lock);
    return step == STEP_NO_ROOM ? no_room(s, e) : TERN_OK;
}

/* Drops all tokens but the last STATE_KEPT, and the records that are not needed any more. Without memory it
 * is left for another time. */
static void forget(tern_constraint_state *s)
{
    const struct recognizer *r = &s->constraint->recognizer;
    size_t first = s->n_tokens > STATE_KEPT ? s->n_tokens - STATE_KEPT : 0;
    s->n_tokens -= first;
    memmove(s->places, s->places + first, (s->n_tokens + 1) * sizeof *s->places);
    memmove(s->tokens, s->tokens + first, (s->n_tokens + 1) * sizeof *s->tokens);
    if (!r->compact || s->places[s->n_tokens].used <= s->compact_at)
        return;
    struct track to = {.limit = s->track.limit};
    lock_take(s->constraint->lock);
    enum step step = r->compact(r->self, &s->track, &to, s->places, s->n_tokens + 1);
    lock_leave(s->constraint->lock);
    if (step != STEP_ALIVE) {
        free(to.bytes);
        return;
    }
    free(s->track.bytes);
    s->track = to;
    s->compact_at = 2 * s->places[s->n_tokens].used + COMPACT_FIRST;
}

enum tern_status constraint_state_accept(tern_constraint_state *s, tern_token token,
                                         struct tern_error *e)
{
    const tern_constraint *c = s->constraint;
    const struct recognizer *r = &c->recognizer;
    if (s->over || token < 0 || (uint32_t)token >= c->spelling->n_tokens)
        return error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token);
    if (!reserve(s, s->n_tokens + 2))
        return error_memory(e, "a text's place in its constraint",
                            (s->n_tokens + 2) * sizeof *s->places);
    struct place *next = &s->places[s->n_tokens + 1];
    *next = s->places[s->n_tokens];
    lock_take(c->lock);
    bool ends = spelling_is_end(c->spelling, token) && r->accepts(r->self, &s->track, next);
    enum step step = ends ? STEP_ALIVE : masks_step(c->masks, &s->track, next, token);
    lock_leave(c->lock);
    if (step == STEP_NO_ROOM)
        return no_room(s, e);
    if (step == STEP_DEAD)
        return error_set(e, TERN_USAGE, "the constraint does not allow token %d here", (int)token);
    s->tokens[++s->n_tokens] = token;
    s->over = ends;
    if (s->n_tokens >= 2 * STATE_KEPT || next->used > s->compact_at)
        forget(s);
    return TERN_OK;
}

size_t constraint_state_rollback(tern_constraint_state *s, size_t n)
{
    if (n > s->n_tokens)
        n = s->n_tokens;
    s->n_tokens -= n;
    s->over = s->over && !n;
    return n;
}

bool constraint_state_can_end(tern_constraint_state *s)
{
    const struct tern_constraint *c = s->constraint;
    if (s->over)
        return true;
    lock_take(c->lock);
    bool can = c->recognizer.accepts(c->recognizer.self, &s->track, &s->places[s->n_tokens]);
    lock_leave(c->lock);
    return can;
}

bool constraint_state_is_over(tern_constraint_state *s)
{
    const struct tern_constraint *c = s->constraint;
    unsigned char byte;
    if (s->over)
        return true;
    lock_take(c->lock);
    const struct place *p = &s->places[s->n_tokens];
    bool over = c->recognizer.accepts(c->recognizer.self, &s->track, p) &&
                forced_next(&c->recognizer, &s->track, p, &byte) == FORCED_NONE;
    lock_leave(c->lock);
    return over;
}
