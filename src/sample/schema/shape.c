/* Can an array or an object of a shape be finished? */
#include "sample/schema/shape.h"

#include <string.h>

void shapes_free(struct shapes *s)
{
    if (!s->languages)
        return;
    struct budget *b = languages_budget(s->languages);
    languages_close(s->languages);
    budget_free(b, s->nodes, s->n_nodes * sizeof *s->nodes);
    budget_free(b, s->written, s->written ? s->n_nodes * sizeof *s->written : 0);
    budget_free(b, s->arrays, s->n_arrays * sizeof *s->arrays);
    budget_free(b, s->objects, s->n_objects * sizeof *s->objects);
    budget_free(b, s->items, s->n_items * sizeof *s->items);
    budget_free(b, s->members, s->n_members * sizeof *s->members);
    budget_free(b, s->classes, s->n_classes * sizeof *s->classes);
    budget_free(b, s->keys, s->n_keys * sizeof *s->keys);
    budget_free(b, s->text, s->n_text);
    *s = (struct shapes){0};
}

static bool node_open(bool (*open)(void *arg, uint32_t node), void *arg, uint32_t node)
{
    return node != NODE_NONE && (!open || open(arg, node));
}

/* ---- arrays ---- */

/* Counts of an array's conditions, each cut where more makes no difference, as one number below
 * SHAPE_COUNTS: condition i has limit[i] + 1 counts. A condition without max ends at its min; one with
 * a max at the max, and an item beyond it is impossible. */
struct counting {
    const struct array_shape *a;
    uint32_t n, limit[SHAPE_CONTAINS];
};

static uint32_t counts_pack(const struct counting *c, const uint32_t *count)
{
    uint32_t packed = 0;
    for (uint32_t i = c->a->n_contains; i--;)
        packed = packed * (c->limit[i] + 1) + (count[i] < c->limit[i] ? count[i] : c->limit[i]);
    return packed;
}

static void counts_unpack(const struct counting *c, uint32_t packed, uint32_t *count)
{
    for (uint32_t i = 0; i < c->a->n_contains; i++) {
        count[i] = packed % (c->limit[i] + 1);
        packed /= c->limit[i] + 1;
    }
}

/* The counts after one more item that is counted for the conditions in `set`. False: too many. */
static bool counts_add(const struct counting *c, uint32_t *count, uint32_t set)
{
    for (uint32_t i = 0; i < c->a->n_contains; i++)
        if (set >> i & 1) {
            if (count[i] < c->limit[i])
                count[i]++;
            else if (c->a->contains_max[i] != SHAPE_NO_LIMIT)
                return false;
        }
    return true;
}

/* From the counts in `from`, those that item number `n` leads to. */
static void counts_step(const struct counting *c, const struct shapes *s, uint32_t n,
                        const uint64_t *from, uint64_t *to, bool (*open)(void *arg, uint32_t node),
                        void *arg)
{
    uint32_t sets = 1u << c->a->n_contains, places = c->a->items.n >> c->a->n_contains;
    const uint32_t *items = s->items + c->a->items.first + (n < places ? n : places - 1) * sets;
    uint32_t count[SHAPE_CONTAINS];
    memset(to, 0, SHAPE_COUNTS / 8);
    for (uint32_t set = 0; set < sets; set++)
        for (uint32_t k = 0; node_open(open, arg, items[set]) && k < c->n; k++) {
            if (!(from[k / 64] >> k % 64 & 1))
                continue;
            counts_unpack(c, k, count);
            if (!counts_add(c, count, set))
                continue;
            uint32_t next = counts_pack(c, count);
            to[next / 64] |= (uint64_t)1 << next % 64;
        }
}

static bool counts_enough(const struct counting *c, const uint64_t *set)
{
    uint32_t count[SHAPE_CONTAINS];
    for (uint32_t k = 0; k < c->n; k++) {
        bool enough = set[k / 64] >> k % 64 & 1;
        counts_unpack(c, k, count);
        for (uint32_t i = 0; i < c->a->n_contains; i++)
            enough &= count[i] >= c->a->contains_min[i];
        if (enough)
            return true;
    }
    return false;
}

bool shape_array_open(const struct shapes *s, const struct array_shape *a, uint32_t n,
                      const uint32_t *count, bool (*open)(void *arg, uint32_t node), void *arg)
{
    uint64_t now[SHAPE_COUNTS / 64] = {0}, next[SHAPE_COUNTS / 64];
    struct counting c = {.a = a, .n = 1};
    uint32_t places = a->items.n >> a->n_contains;
    if (n > a->max || a->min > a->max)
        return false;
    for (uint32_t i = 0; i < a->n_contains; i++) {
        if (count[i] > a->contains_max[i])
            return false;
        c.limit[i] = a->contains_max[i] == SHAPE_NO_LIMIT ? a->contains_min[i] : a->contains_max[i];
        c.n *= c.limit[i] + 1;
    }
    uint32_t first = counts_pack(&c, count);
    now[first / 64] |= (uint64_t)1 << first % 64;
    for (uint32_t item = n;; item++) {
        if (item >= a->min && counts_enough(&c, now))
            return true;
        if (item >= a->max)
            return false;
        counts_step(&c, s, item, now, next, open, arg);
        bool still = item + 1 >= places && !memcmp(now, next, sizeof now);
        if (still) /* so it stays, up to min */
            return counts_enough(&c, now);
        memcpy(now, next, sizeof now);
        static const uint64_t none[SHAPE_COUNTS / 64];
        if (!memcmp(now, none, sizeof none))
            return false;
    }
}

/* ---- objects ---- */

bool shape_object_open(const struct shapes *s, const struct object_shape *o, uint32_t next,
                       const uint64_t *seen, uint32_t n, const uint32_t *count,
                       bool (*open)(void *arg, uint32_t node), void *arg)
{
    uint64_t need = 0, room = 0; /* members that are required, and that may come */
    for (uint32_t i = seen ? 0 : next; i < o->members.n; i++) {
        const struct member *m = &s->members[o->members.first + i];
        bool can = node_open(open, arg, m->node);
        if (seen && seen[i / 64] >> i % 64 & 1)
            continue;
        if (m->required && !can)
            return false;
        need += m->required;
        room += can;
    }
    for (uint32_t i = 0; i < o->classes.n; i++) {
        const struct member_class *c = &s->classes[o->classes.first + i];
        bool can = node_open(open, arg, c->node);
        if (count[i] < c->min && !can)
            return false;
        need += count[i] < c->min ? c->min - count[i] : 0;
        room += !can || count[i] >= c->most ? 0
                : c->most == SHAPE_NO_LIMIT ? UINT32_MAX
                                            : c->most - count[i];
    }
    return o->min <= o->max && n + need <= o->max && n + room >= o->min;
}
