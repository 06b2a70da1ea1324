/* A walk over the sub-schemas that were read: see schema_lax.h. */
#include "sample/schema/schema_lax.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_read.h"

#include <string.h>

struct widening {
    struct schema *s;
    uint32_t n;    /* subs that were read or named when it began */
    bool *tainted; /* of each sub: it holds what is left out */
    bool *holds;   /* of each sub: it is asked for, and not within what is negated */
    bool changed;
};

void lax_open(struct schema *s, uint32_t member)
{
    uint32_t n = s->n_left;
    if (s->status || !(s->flags & SCHEMA_LAX) ||
        !schema_room(s, &s->left, &s->n_left, s->json.n_values, sizeof *s->left))
        return;
    memset(s->left + n, LEFT_NOTHING, s->n_left - n);
    if (s->left[member] == LEFT_NOTHING)
        s->left[member] = LEFT_OPEN;
}

static bool negates(const struct schema *s, uint32_t sub, const struct keyword *k)
{
    return k->id == K_NOT || k->id == K_IF || k->id == K_ONE_OF ||
           (k->id == K_CONTAINS && sub_find(s, sub, K_MAX_CONTAINS));
}

/* Sub-schema number `at` of a keyword, 0 is the first; false: there is none. */
static bool child(struct schema *s, uint32_t sub, const struct keyword *k, uint32_t *at,
                  uint32_t *out)
{
    uint32_t scope = s->subs[sub].scope;
    const struct keyword_rule *r = k->id == K_CONSTANT ? NULL : keyword_rule(s, k->value);
    if (!r || (r->form > FORM_DEPENDENCIES && k->id != K_REF))
        return false;
    bool list = r->form != FORM_SCHEMA && k->id != K_REF &&
                !(r->form == FORM_SCHEMA_OR_LIST && schema_value(s, k->value)->type != JSON_ARRAY);
    if (list)
        *at = *at ? schema_value(s, *at)->next : schema_value(s, k->value)->first;
    else
        *at = *at ? 0 : k->value;
    if (*at)
        *out = k->id == K_REF ? k->sub : sub_of(s, *at, scope);
    return *at && !s->status;
}

static bool holds_tainted(struct widening *w, uint32_t sub, const struct keyword *k)
{
    for (uint32_t at = 0, x; schema_step(w->s, 1) && child(w->s, sub, k, &at, &x);)
        if (x < w->n && w->tainted[x])
            return true;
    return false;
}

static void leave_out(struct widening *w, uint32_t sub, const struct keyword *k)
{
    struct schema *s = w->s;
    if (s->left[k->value] == LEFT_OUT)
        return;
    s->left[k->value] = LEFT_OUT;
    w->changed = s->again = true;
    schema_leave_out(s, s->subs[sub].value, keyword_name(s, k),
                     "it depends on what cannot be enforced");
}

/* Subs that hold what is left out, themselves or in a sub of theirs */
static void taint(struct widening *w)
{
    struct schema *s = w->s;
    for (bool more = true; more && !s->status;) {
        more = false;
        for (uint32_t sub = w->n; sub-- && !s->status;)
            for (uint32_t i = 0; s->subs[sub].read && i < s->subs[sub].n_keywords; i++) {
                struct keyword k = *sub_keyword(s, sub, i);
                bool own = k.id != K_CONSTANT && s->left[k.value] != LEFT_NOTHING;
                if (w->tainted[sub] || (!own && !holds_tainted(w, sub, &k)))
                    continue;
                more = w->tainted[sub] = true;
            }
    }
}

/* What is tainted and negated, from the root on */
static void leave_negated(struct widening *w, uint32_t root)
{
    struct schema *s = w->s;
    w->holds[root] = true;
    for (bool more = true; more && !s->status;) {
        more = false;
        for (uint32_t sub = 0; sub < w->n; sub++)
            for (uint32_t i = 0; w->holds[sub] && s->subs[sub].read && i < s->subs[sub].n_keywords;
                 i++) {
                struct keyword k = *sub_keyword(s, sub, i);
                if (negates(s, sub, &k)) {
                    if (holds_tainted(w, sub, &k))
                        leave_out(w, sub, &k);
                    continue;
                }
                for (uint32_t at = 0, x; schema_step(s, 1) && child(s, sub, &k, &at, &x);)
                    if (x < w->n && !w->holds[x])
                        more = w->holds[x] = true;
            }
    }
}

/* An unknown pattern may match any key; and what was evaluated depends on what is left out. */
static void leave_dependent(struct widening *w)
{
    struct schema *s = w->s;
    bool evaluates = false;
    for (int round = 0; round < 2; round++)
        for (uint32_t sub = 0; sub < w->n && schema_step(s, 1); sub++)
            for (uint32_t i = 0; s->subs[sub].read && i < s->subs[sub].n_keywords; i++) {
                struct keyword k = *sub_keyword(s, sub, i);
                bool rest = k.id == K_UNEVALUATED_ITEMS || k.id == K_UNEVALUATED_PROPERTIES;
                if (k.id == K_CONSTANT || (round ? !rest || !evaluates : !s->left[k.value]))
                    continue;
                if (k.id == K_PATTERN_PROPERTIES || rest)
                    leave_out(w, sub, &k);
                uint32_t others =
                    k.id == K_PATTERN_PROPERTIES ? sub_find(s, sub, K_ADDITIONAL_PROPERTIES) : 0;
                if (others)
                    leave_out(w, sub, &(struct keyword){K_ADDITIONAL_PROPERTIES, others, 0});
                evaluates |= k.id != K_NOT && k.id != K_PATTERN && k.id != K_FORMAT;
            }
}

void lax_widen(struct schema *s, uint32_t root)
{
    struct chunk_mark mark = schema_mark(s);
    const enum tern_status status = s->status;
    if (!s->left || (status != TERN_OK && status != TERN_USAGE))
        return;
    s->status = TERN_OK;
    struct widening w = {.s = s, .n = s->n_subs, .changed = true};
    w.tainted = schema_take(s, w.n * sizeof *w.tainted);
    w.holds = schema_take(s, w.n * sizeof *w.holds);
    while (w.changed && !s->status) {
        w.changed = false;
        leave_dependent(&w);
        taint(&w);
        leave_negated(&w, root);
    }
    s->again = s->again && !s->status;
    if (!s->status)
        s->status = status;
    schema_release(s, mark);
}
