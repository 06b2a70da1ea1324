/* How many values an item can have: see schema_unique.h. */
#include "sample/schema/schema_unique.h"

#include "base/xxh64.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_string.h"

#include <string.h>

enum { MANY = 1024, TEXTS = 4 * MANY }; /* MANY: that many values or more */

struct counter {
    struct schema *s;
    const bool *live;
    uint64_t *values; /* hashes of numbers seen */
    uint32_t n_values;
    uint32_t *seen, *stack; /* of each node: the search that met it */
    uint32_t search;
};

static bool add_number(void *arg, const char *p, size_t n)
{
    struct counter *c = arg;
    struct decimal d;
    if (!decimal_read(p, n, &d))
        return false;
    uint64_t hash = xxh64(d.digits, d.n) ^ ((uint64_t)(uint32_t)d.exponent << 1 | d.negative);
    for (uint32_t i = 0; i < c->n_values; i++)
        if (c->values[i] == hash)
            return true;
    c->values[c->n_values++] = hash;
    return true;
}

/* Values of scalars, at most MANY. */
static uint32_t count_scalars(struct counter *c, const struct node *x)
{
    struct languages *ls = c->s->languages;
    uint32_t n = 0, texts = 0;
    for (unsigned bit = 1; bit < 8; bit *= 2)
        n += (x->literals & bit) != 0;
    if (!lang_count(ls, x->string, MANY, &texts))
        return schema_no_budget(c->s), 0;
    n += texts;
    if (x->number == LANG_NONE || n >= MANY)
        return n < MANY ? n : MANY;
    if (!lang_count(ls, x->number, TEXTS, &texts))
        return schema_no_budget(c->s), 0;
    if (texts > TEXTS)
        return MANY;
    c->n_values = 0;
    if (!lang_each(ls, x->number, add_number, c))
        return schema_no_budget(c->s), 0;
    n += c->n_values;
    return n < MANY ? n : MANY;
}

static void push(struct counter *c, uint32_t node, uint32_t *n)
{
    if (!c->live[node] || c->seen[node] == c->search)
        return;
    c->seen[node] = c->search;
    c->stack[(*n)++] = node;
}

/* Values of a node, at most MANY. An array without bound, an object with keys of a class, or something in
 * it with many values makes many; else arrays and objects are counted as one each, and *exact is false. */
static uint32_t count_values(struct counter *c, uint32_t node, bool *exact)
{
    const struct shapes *out = c->s->out;
    const struct node *x = &c->s->nodes[node].shape;
    uint32_t n = 0;
    *exact = true;
    if (!c->live[node])
        return 0;
    if (!x->arrays.n && !x->objects.n)
        return count_scalars(c, x);
    c->search++;
    push(c, node, &n);
    while (n && schema_step(c->s, 1)) {
        x = &c->s->nodes[c->stack[--n]].shape;
        if (count_scalars(c, x) == MANY)
            return MANY;
        for (uint32_t i = 0; i < x->objects.n; i++) {
            const struct object_shape *o = &out->objects[x->objects.first + i];
            for (uint32_t k = 0; k < o->classes.n; k++)
                if (out->classes[o->classes.first + k].most == SHAPE_NO_LIMIT &&
                    c->live[out->classes[o->classes.first + k].node] && o->max)
                    return MANY;
            for (uint32_t k = 0; k < o->members.n; k++)
                push(c, out->members[o->members.first + k].node, &n);
        }
        for (uint32_t i = 0; i < x->arrays.n; i++) {
            const struct array_shape *a = &out->arrays[x->arrays.first + i];
            if (a->max == SHAPE_NO_LIMIT)
                return MANY;
            for (uint32_t k = 0; k < a->items.n && a->max; k++)
                push(c, out->items[a->items.first + k], &n);
        }
    }
    *exact = false;
    x = &c->s->nodes[node].shape;
    return count_scalars(c, x) + (x->arrays.n > 0) + (x->objects.n > 0);
}

/* Some value may be in both nodes. */
static bool meet(struct counter *c, uint32_t a, uint32_t b)
{
    const struct node *x = &c->s->nodes[a].shape, *y = &c->s->nodes[b].shape;
    if (a == b || x->literals & y->literals || (x->number != LANG_NONE && y->number != LANG_NONE) ||
        (x->arrays.n && y->arrays.n) || (x->objects.n && y->objects.n))
        return true;
    return !string_is_empty(c->s,
                            string_check(c->s, lang_and(c->s->languages, x->string, y->string)));
}

/* False: it cannot be said where the values end. Where the array may end before, the recognizer finds
 * it out as it goes. */
static bool bound_array(struct counter *c, struct array_shape *a)
{
    const uint32_t *items = c->s->out->items + a->items.first;
    uint32_t places = a->items.n >> a->n_contains;
    if (a->min > MANY)
        return false;
    for (uint32_t p = 0; p < places && p < a->max && !c->s->status; p++) {
        bool rest = p == places - 1 && a->max > places, exact;
        uint32_t count = count_values(c, items[p << a->n_contains], &exact), meets = 0;
        if (count >= MANY)
            continue;
        if (a->n_contains)
            return false;
        for (uint32_t q = 0; q < p; q++)
            meets += meet(c, items[q], items[p]);
        if (rest && exact && !meets)
            a->max = a->max < p + count ? a->max : p + count;
        else if (rest ? a->min > p + count - meets : count <= meets && a->min > p)
            return false;
    }
    return true;
}

bool unique_bound(struct schema *s, const bool *live, bool *changed)
{
    struct counter c = {.s = s, .live = live};
    struct chunk_mark mark = schema_mark(s);
    for (uint32_t i = 0; i < s->out->n_arrays && !s->status; i++) {
        struct array_shape *a = &s->out->arrays[i];
        uint32_t max = a->max;
        if (!a->unique || a->max <= 1)
            continue;
        if (!c.values) {
            c.values = schema_take(s, (TEXTS + 1) * sizeof *c.values);
            c.seen = schema_take(s, s->n_nodes * sizeof *c.seen);
            c.stack = schema_take(s, s->n_nodes * sizeof *c.stack);
        }
        if (!c.values || !c.seen || !c.stack)
            break;
        if (!bound_array(&c, a) && !s->status) {
            a->unique = !schema_leave_out(s, 0, "uniqueItems",
                                          a->min > MANY ? "minItems is above 1024"
                                                        : "items have few values in a form that "
                                                          "cannot be counted");
        }
        *changed |= a->max != max;
    }
    schema_release(s, mark);
    return !s->status;
}
