/* Free text up to a trigger: see lazy.h. A place in free text is {top: LAZY_FREE, lexeme: the language of
 * free text that goes on, more: bytes of the trigger at the end}; behind it, places are the other's. */
#include "sample/constraint/lazy.h"

#include "sample/constraint/alphabet.h"
#include <stdlib.h>
#include <string.h>

#define LAZY_FREE UINT32_MAX

struct lazy {
    struct recognizer inner; /* owned */
    lang free;
    bool inside, must; /* TERN_CONSTRAINT_FROM_TRIGGER, _MUST_TRIGGER */
    uint32_t n;
    unsigned char trigger[LAZY_TRIGGER];
    uint16_t
        fallback[LAZY_TRIGGER + 1]; /* how much of the trigger its first k bytes end with, but k */
};

static bool is_free(const struct place *p)
{
    return p->top == LAZY_FREE;
}

static enum step begin(void *self, struct track *t, struct place *p)
{
    const struct lazy *z = self;
    (void)t;
    *p = (struct place){.top = LAZY_FREE, .lexeme = z->free};
    return STEP_ALIVE;
}

/* The bytes of the trigger that the text ends with after another byte [Knuth, Morris, Pratt 1977] */
static uint32_t advance(const struct lazy *z, uint32_t k, unsigned char byte)
{
    while (k && z->trigger[k] != byte)
        k = z->fallback[k];
    return k + (z->trigger[k] == byte);
}

static enum step bind(const struct lazy *z, struct track *t, struct place *p)
{
    struct place next = {0};
    enum step step = z->inner.begin(z->inner.self, t, &next);
    for (uint32_t i = 0; z->inside && i < z->n && step == STEP_ALIVE; i++)
        step = z->inner.step(z->inner.self, t, &next, z->trigger[i]);
    if (step == STEP_ALIVE)
        *p = next;
    return step;
}

static enum step step(void *self, struct track *t, struct place *p, unsigned char byte)
{
    const struct lazy *z = self;
    if (!is_free(p))
        return z->inner.step(z->inner.self, t, p, byte);
    uint32_t k = advance(z, p->more, byte);
    if (k == z->n)
        return bind(z, t, p);
    lang next = lang_step(z->inner.languages, p->lexeme, byte);
    if (next == LANG_FAIL)
        return STEP_NO_ROOM;
    if (next == LANG_NONE)
        return STEP_DEAD;
    p->lexeme = next, p->more = k;
    return STEP_ALIVE;
}

static bool accepts(void *self, struct track *t, const struct place *p)
{
    const struct lazy *z = self;
    return is_free(p) ? !z->must : z->inner.accepts(z->inner.self, t, p);
}

static lang word(void *self, struct track *t, const struct place *p, uint32_t reach,
                 bool *in_string)
{
    const struct lazy *z = self;
    *in_string = false;
    return is_free(p) ? p->lexeme : z->inner.word(z->inner.self, t, p, reach, in_string);
}

static bool same_end(void *self, struct track *t, const struct place *p)
{
    const struct lazy *z = self;
    return !is_free(p) && z->inner.same_end && z->inner.same_end(z->inner.self, t, p);
}

static void first(void *self, struct track *t, const struct place *p, uint64_t set[4])
{
    const struct lazy *z = self;
    if (is_free(p) || !z->inner.first)
        memset(set, 0xFF, 4 * sizeof *set);
    else
        z->inner.first(z->inner.self, t, p, set);
}

static uint64_t signature(void *self, struct track *t, const struct place *p)
{
    const struct lazy *z = self;
    const uint64_t top = (uint64_t)1 << 63;
    if (is_free(p))
        return top | p->lexeme;
    return z->inner.signature ? z->inner.signature(z->inner.self, t, p) & ~top : 0;
}

static enum step compact(void *self, const struct track *from, struct track *to, struct place *p,
                         size_t n)
{
    const struct lazy *z = self;
    size_t free_places = 0;
    while (free_places < n && is_free(&p[free_places]))
        free_places++;
    if (free_places == n)
        return STEP_ALIVE;
    return z->inner.compact(z->inner.self, from, to, p + free_places, n - free_places);
}

static void close(void *self)
{
    struct lazy *z = self;
    z->inner.close(z->inner.self);
    free(z);
}

static void find_fallbacks(struct lazy *z)
{
    for (uint32_t i = 1; i < z->n; i++)
        z->fallback[i + 1] = (uint16_t)advance(z, z->fallback[i], z->trigger[i]);
}

/* Texts without the trigger and without the name of an end token */
static lang free_text(struct languages *ls, const struct lazy *z, const struct spelling *s)
{
    lang bad = lang_or(ls, lang_text(ls, (const char *)z->trigger, z->n), alphabet_ends(ls, s));
    return lang_not(ls, lang_concat(ls, LANG_ALL, lang_concat(ls, bad, LANG_ALL)));
}

static enum tern_status check(const struct lazy *z, struct tern_error *e)
{
    struct track t = {.limit = 1 << 20};
    struct place p;
    enum step s = bind(z, &t, &p);
    free(t.bytes);
    lang before = z->free; /* its last byte is not stepped over: it ends free text */
    for (uint32_t i = 0; i + 1 < z->n && before != LANG_FAIL; i++)
        before = lang_step(z->inner.languages, before, z->trigger[i]);
    if (before == LANG_FAIL || s == STEP_NO_ROOM)
        return budget_refuse(languages_budget(z->inner.languages), e, "constraint");
    if (s == STEP_DEAD)
        return error_set(e, TERN_USAGE, "constraint: no text of it begins with the trigger");
    if (before == LANG_NONE)
        return error_set(e, TERN_USAGE,
                         "constraint: the trigger goes on behind an end token: it cannot come");
    return TERN_OK;
}

enum tern_status lazy_open(struct recognizer *r, const struct spelling *s,
                           const struct tern_constraint_params *params, struct tern_error *e)
{
    if (params->trigger_bytes > LAZY_TRIGGER)
        return error_set(e, TERN_USAGE, "constraint: a trigger of %zu bytes, want at most %d",
                         params->trigger_bytes, LAZY_TRIGGER);
    struct lazy *z = calloc(1, sizeof *z);
    if (!z)
        return error_memory(e, "a constraint", sizeof *z);
    z->inner = *r;
    z->n = (uint32_t)params->trigger_bytes;
    memcpy(z->trigger, params->trigger, z->n);
    z->inside = params->flags & TERN_CONSTRAINT_FROM_TRIGGER;
    z->must = params->flags & TERN_CONSTRAINT_MUST_TRIGGER;
    find_fallbacks(z);
    z->free = free_text(r->languages, z, s);
    enum tern_status status = check(z, e);
    if (status) {
        free(z);
        return status;
    }
    *r = (struct recognizer){z,    r->languages, begin, step,      accepts,
                             word, same_end,     first, signature, r->compact ? compact : NULL,
                             close};
    return TERN_OK;
}
