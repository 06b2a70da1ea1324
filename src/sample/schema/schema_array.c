/* Arrays: see schema_array.h. */
#include "sample/schema/schema_array.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_value.h"

#include <string.h>

/* ---- items of a sub ---- */

struct items {
    uint32_t list, rest; /* values: of the first items, of those behind; 0: none */
    uint32_t n;
};

static struct items items_of(const struct schema *s, uint32_t sub)
{
    uint32_t list = sub_find(s, sub, K_PREFIX_ITEMS), rest = sub_find(s, sub, K_ITEMS);
    if (rest && schema_value(s, rest)->type == JSON_ARRAY)
        list = rest, rest = sub_find(s, sub, K_ADDITIONAL_ITEMS);
    return (struct items){list, rest, list ? schema_value(s, list)->n_children : 0};
}

/* The keyword by which a sub's items become one atom. */
static bool leads_items(const struct schema *s, uint32_t sub, const struct keyword *k)
{
    return k->id == (sub_find(s, sub, K_PREFIX_ITEMS) ? K_PREFIX_ITEMS : K_ITEMS);
}

static void take_contains(struct tableau *t, uint32_t sub, uint32_t value)
{
    struct schema *s = t->s;
    uint32_t min = sub_find(s, sub, K_MIN_CONTAINS), max = sub_find(s, sub, K_MAX_CONTAINS);
    goal_add(t, (struct goal){.kind = ATOM_CONTAINS,
                              .a = sub_literal(s, sub, value),
                              .b = min ? sub_count(s, min) : 1,
                              .c = max ? sub_count(s, max) : SHAPE_NO_LIMIT});
}

void array_take_keyword(struct tableau *t, uint32_t sub, const struct keyword *k)
{
    struct schema *s = t->s;
    switch (k->id) {
    case K_PREFIX_ITEMS:
    case K_ITEMS:
        if (leads_items(s, sub, k))
            goal_add(t, (struct goal){.kind = ATOM_GROUP, .a = sub});
        return;
    case K_CONTAINS:
        take_contains(t, sub, k->value);
        return;
    case K_MIN_ITEMS:
    case K_MAX_ITEMS:
        goal_add(t, (struct goal){.kind = k->id == K_MIN_ITEMS ? ATOM_MIN : ATOM_MAX,
                                  .a = sub_count(s, k->value)});
        return;
    case K_UNIQUE_ITEMS:
        goal_add(t, (struct goal){.kind = ATOM_UNIQUE});
        return;
    default:
        return;
    }
}

void array_take_rest(struct tableau *t, const struct goal *g)
{
    struct schema *s = t->s;
    uint32_t value = sub_find(s, g->a, K_UNEVALUATED_ITEMS);
    if (g->b) {
        schema_refuse(s, s->subs[g->a].value, "unevaluatedItems", "it cannot be negated");
        return;
    }
    goal_add(t,
             (struct goal){.kind = ATOM_REST, .a = sub_literal(s, g->a, value), .since = g->since});
}

void array_negate(struct tableau *t, uint32_t sub, const struct keyword *k)
{
    struct schema *s = t->s;
    uint32_t count, at = 0;
    struct items items;
    switch (k->id) {
    case K_PREFIX_ITEMS:
    case K_ITEMS:
        items = items_of(s, sub);
        if (!leads_items(s, sub, k))
            return;
        for (uint32_t c = items.list ? schema_value(s, items.list)->first : 0; c;
             c = schema_value(s, c)->next)
            option_atom(t, ATOM_ITEM, at++, sub_literal(s, sub, c) ^ NOT);
        if (!items.rest)
            return;
        option_begin(t);
        option_add(t, (struct goal){.kind = ATOM_CONTAINS,
                                    .a = sub_literal(s, sub, items.rest) ^ NOT,
                                    .b = 1,
                                    .c = SHAPE_NO_LIMIT,
                                    .d = at,
                                    .quiet = true});
        return;
    case K_CONTAINS:
        count =
            sub_find(s, sub, K_MIN_CONTAINS) ? sub_count(s, sub_find(s, sub, K_MIN_CONTAINS)) : 1;
        if (count) {
            option_begin(t);
            option_add(t, (struct goal){.kind = ATOM_CONTAINS,
                                        .a = sub_literal(s, sub, k->value),
                                        .c = count - 1,
                                        .quiet = true});
        }
        count = sub_find(s, sub, K_MAX_CONTAINS);
        if (!count)
            return;
        option_begin(t);
        option_add(t, (struct goal){.kind = ATOM_CONTAINS,
                                    .a = sub_literal(s, sub, k->value),
                                    .b = sub_count(s, count) + 1,
                                    .c = SHAPE_NO_LIMIT,
                                    .quiet = true});
        return;
    case K_MIN_ITEMS:
        option_atom(t, ATOM_MAX, sub_count(s, k->value) - 1, 0);
        return;
    case K_MAX_ITEMS:
        option_atom(t, ATOM_MIN, sub_count(s, k->value) + 1, 0);
        return;
    case K_UNIQUE_ITEMS:
        if (schema_leave_out(s, s->subs[sub].value, "uniqueItems", "it cannot be negated"))
            option_begin(t);
        return;
    default:
        return;
    }
}

void array_negate_constant(struct tableau *t, uint32_t value)
{
    struct schema *s = t->s;
    uint32_t n = schema_value(s, value)->n_children, at = 0;
    if (n)
        option_atom(t, ATOM_MAX, n - 1, 0);
    option_atom(t, ATOM_MIN, n + 1, 0);
    for (uint32_t c = schema_value(s, value)->first; c; c = schema_value(s, c)->next)
        option_atom(t, ATOM_ITEM, at++, LITERAL(sub_constant(s, c)) | NOT);
}

/* ---- the shape ---- */

struct array_form {
    struct tableau *t;
    const struct goal **atoms; /* in order */
    uint32_t n_atoms, n_places;
    const struct goal *contains[SHAPE_CONTAINS];
    struct array_shape shape;
    uint32_t *at; /* of each atom with a list: its item at the place */
    literal *x;   /* the literals of a place */
};

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The items that the atoms between `rest` and its beginning evaluate: the first ones, or all. */
static uint32_t evaluated_items(const struct schema *s, const struct goal *rest)
{
    uint32_t n = 0;
    for (const struct goal *g = rest->next; g && g != rest->since; g = g->next) {
        if (g->kind == ATOM_REST && g->era == rest->era)
            return UINT32_MAX;
        if (g->kind != ATOM_GROUP || g->era != rest->era)
            continue;
        struct items items = items_of(s, g->a);
        if (items.rest)
            return UINT32_MAX;
        n = most(n, items.n);
    }
    return n;
}

/* Condition i evaluates the items that hold it, for this unevaluatedItems. */
static bool evaluates(const struct array_form *f, uint32_t i, const struct goal *rest)
{
    if (f->t->s->dialect == DRAFT_2019 || f->contains[i]->era != rest->era)
        return false;
    for (const struct goal *g = rest->next; g && g != rest->since; g = g->next)
        if (g == f->contains[i])
            return true;
    return false;
}

/* Reads the atoms. False: no array has them. */
static bool gather(struct array_form *f)
{
    struct schema *s = f->t->s;
    bool rest = false;
    f->shape.max = SHAPE_NO_LIMIT;
    for (uint32_t i = 0; i < f->n_atoms; i++)
        rest |= f->atoms[i]->kind == ATOM_REST;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        if (g->kind == ATOM_MIN)
            f->shape.min = most(f->shape.min, g->a);
        if (g->kind == ATOM_MAX)
            f->shape.max = f->shape.max < g->a ? f->shape.max : g->a;
        if (g->kind == ATOM_GROUP)
            f->n_places = most(f->n_places, items_of(s, g->a).n);
        if (g->kind == ATOM_CONSTANT) {
            uint32_t n = schema_value(s, g->a)->n_children;
            f->n_places = most(f->n_places, n);
            f->shape.min = most(f->shape.min, n);
            f->shape.max = f->shape.max < n ? f->shape.max : n;
        }
        if (g->kind == ATOM_ITEM) {
            f->n_places = most(f->n_places, g->a + 1);
            f->shape.min = most(f->shape.min, g->a + 1);
        }
        if (g->kind == ATOM_REST && evaluated_items(s, g) != UINT32_MAX)
            f->n_places = most(f->n_places, evaluated_items(s, g));
        f->shape.unique |= g->kind == ATOM_UNIQUE;
        if (g->kind != ATOM_CONTAINS || (!g->b && g->c == SHAPE_NO_LIMIT && !rest))
            continue;
        if (f->shape.n_contains == SHAPE_CONTAINS)
            return schema_refuse(s, s->subs[g->a >> 1].value, "contains",
                                 "more than 4 apply at once");
        f->n_places = most(f->n_places, g->d);
        f->shape.contains_min[f->shape.n_contains] = g->b;
        f->shape.contains_max[f->shape.n_contains] = g->c;
        f->contains[f->shape.n_contains++] = g;
        if (g->b > g->c)
            return false;
    }
    f->n_places++; /* the rest */
    return f->shape.min <= f->shape.max;
}

static bool counts_fit(struct array_form *f)
{
    uint64_t counts = 1;
    for (uint32_t i = 0; i < f->shape.n_contains && counts <= SHAPE_COUNTS; i++) {
        uint64_t max = f->shape.contains_max[i], min = f->shape.contains_min[i];
        counts *= (max == SHAPE_NO_LIMIT ? min : max) + 1;
    }
    return counts <= SHAPE_COUNTS ||
           schema_refuse(f->t->s, f->t->s->subs[f->contains[0]->a >> 1].value, "contains",
                         "too much must be counted");
}

/* The node of place p for the items that are counted for the conditions in `set`. */
static uint32_t place_node(struct array_form *f, uint32_t p, uint32_t set)
{
    struct schema *s = f->t->s;
    uint32_t n = 0, value;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        struct items items;
        if (g->kind == ATOM_GROUP) {
            items = items_of(s, g->a);
            value = p < items.n ? f->at[i] : items.rest;
            if (value)
                f->x[n++] = sub_literal(s, g->a, value);
        } else if (g->kind == ATOM_CONSTANT) {
            value = f->at[i];
            f->x[n++] = value ? LITERAL(sub_constant(s, value)) : (literal)LITERAL_FALSE;
        } else if (g->kind == ATOM_ITEM && g->a == p) {
            f->x[n++] = g->b;
        } else if (g->kind == ATOM_REST && p >= evaluated_items(s, g)) {
            bool evaluated = false;
            for (uint32_t k = 0; k < f->shape.n_contains; k++)
                evaluated |= set >> k & 1 && evaluates(f, k, g);
            if (!evaluated)
                f->x[n++] = g->a;
        }
    }
    for (uint32_t k = 0; k < f->shape.n_contains; k++) {
        const struct goal *g = f->contains[k];
        if (set >> k & 1)
            f->x[n++] = p < g->d ? (literal)LITERAL_FALSE : g->a;
        else if (g->c != SHAPE_NO_LIMIT && p >= g->d)
            f->x[n++] = g->a ^ NOT;
    }
    return node_of(s, f->x, n);
}

/* The first items of the lists, or the next ones. */
static void move_on(struct array_form *f, bool begin)
{
    struct schema *s = f->t->s;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        uint32_t list = g->kind == ATOM_GROUP      ? items_of(s, g->a).list
                        : g->kind == ATOM_CONSTANT ? g->a
                                                   : 0;
        if (begin)
            f->at[i] = list ? schema_value(s, list)->first : 0;
        else
            f->at[i] = f->at[i] ? schema_value(s, f->at[i])->next : 0;
    }
}

/* The table of nodes; stops at a place where no item can be. */
static bool fill(struct array_form *f)
{
    struct schema *s = f->t->s;
    uint32_t sets = 1u << f->shape.n_contains, p;
    f->shape.items.first = s->out->n_items;
    move_on(f, true);
    for (p = 0; p < f->n_places && p < f->shape.max; p++) {
        bool any = false;
        if (!schema_step(s, sets) ||
            !schema_room(s, &s->out->items, &s->item_capacity, (size_t)s->out->n_items + sets,
                         sizeof *s->out->items))
            return false;
        for (uint32_t set = 0; set < sets; set++) {
            uint32_t node = place_node(f, p, set);
            if (node_is_plainly_empty(s, node))
                node = NODE_NONE;
            any |= node != NODE_NONE;
            s->out->items[s->out->n_items + set] = node;
        }
        if (!any) {
            f->shape.max = p;
            break;
        }
        s->out->n_items += sets;
        move_on(f, false);
    }
    if (!p) { /* one place, so that there is a table */
        if (!schema_room(s, &s->out->items, &s->item_capacity, (size_t)s->out->n_items + sets,
                         sizeof *s->out->items))
            return false;
        memset(s->out->items + s->out->n_items, 0, sets * sizeof *s->out->items);
        s->out->n_items += sets;
    }
    f->shape.items.n = s->out->n_items - f->shape.items.first;
    return !s->status;
}

void array_emit(struct tableau *t)
{
    struct schema *s = t->s;
    struct chunk_mark mark = schema_mark(s);
    struct array_form f = {.t = t};
    for (const struct goal *g = t->branch.atoms; g; g = g->next)
        f.n_atoms++;
    f.atoms = schema_take(s, f.n_atoms * sizeof *f.atoms);
    f.at = schema_take(s, f.n_atoms * sizeof *f.at);
    f.x = schema_take(s, (f.n_atoms + SHAPE_CONTAINS) * sizeof *f.x);
    uint32_t i = f.n_atoms, items = s->out->n_items;
    for (const struct goal *g = t->branch.atoms; g && f.atoms; g = g->next)
        f.atoms[--i] = g;
    if (!s->status && gather(&f) && counts_fit(&f) && fill(&f) && f.shape.min <= f.shape.max &&
        schema_room(s, &s->out->arrays, &s->array_capacity, s->out->n_arrays + 1, sizeof f.shape)) {
        for (i = f.shape.items.first; i < s->out->n_items; i++)
            node_use(s, s->out->items[i]);
        s->out->arrays[s->out->n_arrays++] = f.shape;
    } else {
        s->out->n_items = items;
    }
    schema_release(s, mark);
}
