#include "shape_check.h"

#include "sample/language/decimal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct shapes *s;
    const struct json *j;
    bool any_order;
    signed char *known; /* of each node and value: 0 unknown, 1 yes, -1 no */
};

static bool matches(struct check *c, uint32_t node, uint32_t value);

static bool accepts(const struct check *c, lang x, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x = lang_step(c->s->languages, x, (unsigned char)p[i]);
    assert(x != LANG_FAIL);
    return lang_accepts(c->s->languages, x);
}

static bool equal(const struct json *j, uint32_t a, uint32_t b)
{
    const struct json_value *x = &j->values[a], *y = &j->values[b];
    if (x->type != y->type || x->n_children != y->n_children)
        return false;
    if (x->type == JSON_STRING)
        return x->n_text == y->n_text && !memcmp(j->text + x->text, j->text + y->text, x->n_text);
    if (x->type == JSON_NUMBER) {
        struct decimal d, e;
        return decimal_read(j->text + x->text, x->n_text, &d) &&
               decimal_read(j->text + y->text, y->n_text, &e) && !decimal_compare(&d, &e);
    }
    uint32_t d = y->first;
    for (uint32_t c = x->first; c; c = j->values[c].next) {
        if (x->type == JSON_OBJECT)
            d = json_find(j, b, j->text + j->values[c].key, j->values[c].n_key);
        if (!d || !equal(j, c, d))
            return false;
        d = j->values[d].next;
    }
    return true;
}

/* Is item `item`, number n, and those behind it possible, with these counts? */
static bool items_match(struct check *c, const struct array_shape *a, uint32_t item, uint32_t n,
                        const uint32_t *count)
{
    uint32_t sets = 1u << a->n_contains, places = a->items.n / sets;
    if (n > a->max || !shape_array_open(c->s, a, n, count, NULL, NULL))
        return false;
    if (!item) {
        for (uint32_t i = 0; i < a->n_contains; i++)
            if (count[i] < a->contains_min[i])
                return false;
        return n >= a->min;
    }
    const uint32_t *nodes = c->s->items + a->items.first + (n < places ? n : places - 1) * sets;
    for (uint32_t set = 0; set < sets; set++) {
        uint32_t next[SHAPE_CONTAINS];
        for (uint32_t i = 0; i < a->n_contains; i++)
            next[i] = count[i] + (set >> i & 1);
        if (nodes[set] != NODE_NONE && matches(c, nodes[set], item) &&
            items_match(c, a, c->j->values[item].next, n + 1, next))
            return true;
    }
    return false;
}

static bool array_matches(struct check *c, const struct array_shape *a, uint32_t value)
{
    static const uint32_t none[SHAPE_CONTAINS];
    const struct json_value *v = c->j->values;
    for (uint32_t x = v[value].first; a->unique && x; x = v[x].next)
        for (uint32_t y = v[x].next; y; y = v[y].next)
            if (equal(c->j, x, y))
                return false;
    return items_match(c, a, v[value].first, 0, none);
}

/* Members from `member` on; *at is the next named member of the shape. */
static bool members_match(struct check *c, const struct object_shape *o, uint32_t member,
                          uint32_t at, uint64_t *seen, uint32_t n, uint32_t *count)
{
    const struct shapes *s = c->s;
    if (!shape_object_open(s, o, at, c->any_order ? seen : NULL, n, count, NULL, NULL))
        return false;
    if (!member) {
        for (uint32_t i = 0; i < o->members.n; i++)
            if (s->members[o->members.first + i].required &&
                (c->any_order ? !(seen[i / 64] >> i % 64 & 1) : i >= at))
                return false;
        for (uint32_t i = 0; i < o->classes.n; i++)
            if (count[i] < s->classes[o->classes.first + i].min)
                return false;
        return n >= o->min && n <= o->max;
    }
    const struct json_value *v = &c->j->values[member];
    const char *p = v->n_key ? c->j->text + v->key : "";
    for (uint32_t i = 0; i < o->members.n; i++) {
        const struct member *m = &s->members[o->members.first + i];
        const struct shape_key *k = &s->keys[m->key];
        if (k->n != v->n_key || memcmp(s->text + k->at, p, k->n))
            continue;
        if (m->node == NODE_NONE || (!c->any_order && i < at) || !matches(c, m->node, member))
            return false;
        for (uint32_t skipped = c->any_order ? i : at; skipped < i; skipped++)
            if (s->members[o->members.first + skipped].required)
                return false;
        seen[i / 64] |= (uint64_t)1 << i % 64;
        return members_match(c, o, v->next, c->any_order ? at : i + 1, seen, n + 1, count);
    }
    for (uint32_t i = 0; i < o->classes.n; i++) {
        const struct member_class *k = &s->classes[o->classes.first + i];
        if (!accepts(c, k->keys, p, v->n_key) || !matches(c, k->node, member))
            continue;
        count[i]++;
        bool good =
            members_match(c, o, v->next, c->any_order ? at : o->members.n, seen, n + 1, count);
        count[i]--;
        if (good)
            return true;
    }
    return false;
}

static bool object_matches(struct check *c, const struct object_shape *o, uint32_t value)
{
    uint64_t *seen = calloc(o->members.n / 64 + 1, sizeof *seen);
    uint32_t *count = calloc(o->classes.n + 1, sizeof *count);
    bool good = members_match(c, o, c->j->values[value].first, 0, seen, 0, count);
    free(seen);
    free(count);
    return good;
}

static bool find(struct check *c, uint32_t node, uint32_t value)
{
    const struct node *x = &c->s->nodes[node];
    const struct json_value *v = &c->j->values[value];
    const char *p = v->n_text ? c->j->text + v->text : "";
    switch ((enum json_type)v->type) {
    case JSON_NULL:
        return x->literals & SHAPE_NULL;
    case JSON_FALSE:
        return x->literals & SHAPE_FALSE;
    case JSON_TRUE:
        return x->literals & SHAPE_TRUE;
    case JSON_STRING:
        return accepts(c, x->string, p, v->n_text);
    case JSON_NUMBER:
        return accepts(c, x->number, p, v->n_text);
    case JSON_ARRAY:
        for (uint32_t i = 0; i < x->arrays.n; i++)
            if (array_matches(c, &c->s->arrays[x->arrays.first + i], value))
                return true;
        return false;
    case JSON_OBJECT:
        for (uint32_t i = 0; i < x->objects.n; i++)
            if (object_matches(c, &c->s->objects[x->objects.first + i], value))
                return true;
        return false;
    }
    return false;
}

static bool matches(struct check *c, uint32_t node, uint32_t value)
{
    signed char *known = &c->known[(size_t)node * c->j->n_values + value];
    if (!*known)
        *known = find(c, node, value) ? 1 : -1;
    return *known > 0;
}

bool shape_check(const struct shapes *s, uint32_t node, const struct json *j, uint32_t value,
                 bool any_order)
{
    struct check c = {s, j, any_order, calloc((size_t)s->n_nodes * j->n_values + 1, 1)};
    bool good = matches(&c, node, value);
    free(c.known);
    return good;
}
