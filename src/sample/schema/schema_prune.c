/* The least fixpoint of "has a value", and the final numbers: see schema_prune.h. */
#include "sample/schema/schema_prune.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_number.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_value.h"
#include "sample/schema/schema_unique.h"

#include <string.h>

struct pruner {
    struct schema *s;
    bool *live;       /* of each node of the schema */
    uint32_t *number; /* of each node: in out; 0: not reached */
    uint32_t *reached, n_reached;
};

static bool is_live(void *arg, uint32_t node)
{
    const struct pruner *p = arg;
    return p->live[node];
}

static bool object_live(struct pruner *p, const struct object_shape *o)
{
    struct chunk_mark mark = schema_mark(p->s);
    uint32_t *count = schema_take(p->s, o->classes.n * sizeof *count);
    bool open = count && shape_object_open(p->s->out, o, 0, NULL, 0, count, is_live, p);
    schema_release(p->s, mark);
    return open;
}

static bool array_live(struct pruner *p, const struct array_shape *a)
{
    static const uint32_t none[SHAPE_CONTAINS];
    return shape_array_open(p->s->out, a, 0, none, is_live, p);
}

static bool node_live(struct pruner *p, const struct node *x)
{
    const struct shapes *out = p->s->out;
    if (x->literals || x->string != LANG_NONE || x->number != LANG_NONE)
        return true;
    for (uint32_t i = 0; i < x->arrays.n; i++)
        if (array_live(p, &out->arrays[x->arrays.first + i]))
            return true;
    for (uint32_t i = 0; i < x->objects.n; i++)
        if (object_live(p, &out->objects[x->objects.first + i]))
            return true;
    return false;
}

/* Nodes were queued by those that need them: backwards, most are found in one round. */
static bool find_live(struct pruner *p)
{
    struct schema *s = p->s;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = s->n_queue; i--;) {
            uint32_t node = s->queue[i];
            if (!schema_step(s, 1))
                return false;
            if (!p->live[node] && node_live(p, &s->nodes[node].shape))
                changed = p->live[node] = true;
        }
    }
    return true;
}

/* ---- moving ---- */

static void reach(struct pruner *p, uint32_t node)
{
    if (!p->live[node] || p->number[node])
        return;
    p->number[node] = 1;
    p->reached[p->n_reached++] = node;
}

static void reach_shapes(struct pruner *p, uint32_t node)
{
    const struct shapes *out = p->s->out;
    const struct node *x = &p->s->nodes[node].shape;
    for (uint32_t i = 0; i < x->objects.n; i++) {
        const struct object_shape *o = &out->objects[x->objects.first + i];
        if (!object_live(p, o))
            continue;
        for (uint32_t k = 0; k < o->members.n; k++)
            reach(p, out->members[o->members.first + k].node);
        for (uint32_t k = 0; k < o->classes.n; k++)
            reach(p, out->classes[o->classes.first + k].node);
    }
    for (uint32_t i = 0; i < x->arrays.n; i++) {
        const struct array_shape *a = &out->arrays[x->arrays.first + i];
        uint32_t n = array_live(p, a) ? a->items.n : 0;
        for (uint32_t k = 0; k < n; k++)
            reach(p, out->items[a->items.first + k]);
    }
}

/* Appends what is left of an object, at its own place or before. */
static void move_object(struct pruner *p, struct object_shape o, struct shapes *to)
{
    const struct shapes *out = p->s->out;
    struct stretch members = {to->n_members, 0}, classes = {to->n_classes, 0};
    for (uint32_t i = 0; i < o.classes.n; i++) {
        struct member_class c = out->classes[o.classes.first + i];
        c.node = p->live[c.node] ? p->number[c.node] : NODE_NONE;
        if (c.node)
            out->classes[to->n_classes++] = c;
    }
    classes.n = to->n_classes - classes.first;
    for (uint32_t i = 0; i < o.members.n; i++) {
        struct member m = out->members[o.members.first + i];
        m.node = p->live[m.node] ? p->number[m.node] : NODE_NONE;
        if (m.node || classes.n)
            out->members[to->n_members++] = m;
    }
    members.n = to->n_members - members.first;
    o.members = members, o.classes = classes;
    out->objects[to->n_objects++] = o;
}

static void move_array(struct pruner *p, struct array_shape a, struct shapes *to)
{
    const struct shapes *out = p->s->out;
    uint32_t first = to->n_items, sets = 1u << a.n_contains;
    for (uint32_t i = 0; i < a.items.n / sets && i < (a.max ? a.max : 1); i++) {
        bool any = false;
        for (uint32_t k = 0; k < sets; k++) {
            uint32_t node = out->items[a.items.first + i * sets + k];
            node = p->live[node] ? p->number[node] : NODE_NONE;
            any |= node != NODE_NONE;
            out->items[to->n_items++] = node;
        }
        if (any)
            continue;
        a.max = i;
        to->n_items -= i ? sets : 0;
        break;
    }
    a.items = (struct stretch){first, to->n_items - first};
    out->arrays[to->n_arrays++] = a;
}

static void move_node(struct pruner *p, uint32_t node, struct shapes *to)
{
    struct shapes *out = p->s->out;
    struct node x = p->s->nodes[node].shape, y = x;
    y.objects.first = to->n_objects;
    for (uint32_t i = 0; i < x.objects.n; i++)
        if (object_live(p, &out->objects[x.objects.first + i]))
            move_object(p, out->objects[x.objects.first + i], to);
    y.objects.n = to->n_objects - y.objects.first;
    y.arrays.first = to->n_arrays;
    for (uint32_t i = 0; i < x.arrays.n; i++)
        if (array_live(p, &out->arrays[x.arrays.first + i]))
            move_array(p, out->arrays[x.arrays.first + i], to);
    y.arrays.n = to->n_arrays - y.arrays.first;
    out->nodes[p->number[node]] = y;
}

/* Numbers what was reached; equal scalars share a number. */
static bool number_nodes(struct pruner *p)
{
    struct schema *s = p->s;
    struct {
        uint32_t literals, string, number, node;
    } * seen;
    uint32_t size = 16, n = NODE_ANY + 1;
    while (size < 2 * p->n_reached)
        size *= 2;
    seen = schema_take(s, size * sizeof *seen);
    if (!seen)
        return false;
    for (uint32_t i = 0; i < p->n_reached; i++) {
        uint32_t node = p->reached[i];
        const struct node *x = &s->nodes[node].shape;
        if (node == NODE_ANY) {
            p->number[node] = NODE_ANY;
            continue;
        }
        p->number[node] = n;
        if (x->arrays.n || x->objects.n) {
            n++;
            continue;
        }
        uint32_t h = (x->literals * 31 + x->string) * 0x9e3779b1u + x->number * 0x85ebca6bu;
        for (h ^= h >> 15; seen[h & (size - 1)].node; h++)
            if (seen[h & (size - 1)].literals == x->literals &&
                seen[h & (size - 1)].string == x->string &&
                seen[h & (size - 1)].number == x->number)
                break;
        if (!seen[h & (size - 1)].node) {
            seen[h & (size - 1)].node = n++;
            seen[h & (size - 1)].literals = x->literals;
            seen[h & (size - 1)].string = x->string;
            seen[h & (size - 1)].number = x->number;
        }
        p->number[node] = seen[h & (size - 1)].node;
    }
    s->out->n_nodes = n;
    s->out->nodes = budget_resize(s->budget, NULL, 0, n * sizeof *s->out->nodes);
    if (!s->out->nodes)
        return s->out->n_nodes = 0, schema_no_budget(s);
    memset(s->out->nodes, 0, n * sizeof *s->out->nodes);
    return true;
}

/* What can be written of a node that is left */
static bool move_written(struct pruner *p)
{
    struct schema *s = p->s;
    struct shapes *out = s->out;
    if (!s->written)
        return true;
    out->written = budget_resize(s->budget, NULL, 0, out->n_nodes * sizeof *out->written);
    if (!out->written)
        return schema_no_budget(s);
    memset(out->written, 0, out->n_nodes * sizeof *out->written);
    for (uint32_t i = 0; i < s->n_written; i++)
        if (p->number[i] && p->live[s->written[i]])
            out->written[p->number[i]] = p->number[s->written[i]];
    return true;
}

/* Every state of every language is decided now, so that no budget is needed for it later. */
static bool decide(struct schema *s)
{
    const struct shapes *out = s->out;
    bool good = true;
    for (uint32_t i = 0; i < out->n_nodes && good; i++)
        good = lang_decide(s->languages, out->nodes[i].string) != LANG_UNKNOWN &&
               lang_decide(s->languages, out->nodes[i].number) != LANG_UNKNOWN;
    for (uint32_t i = 0; i < out->n_classes && good; i++)
        good = lang_decide(s->languages, out->classes[i].keys) != LANG_UNKNOWN;
    return good || schema_no_budget(s);
}

/* The keyword of the whole schema behind which no value is left; of objects and arrays it is guessed: the last
 * that speaks of them. */
static const char *emptied_by(struct schema *s)
{
    uint32_t sub = sub_of(s, 0, 0);
    uint32_t x[N_ALGEBRAS] = {T_ALL << 8 | T_ALL, LANG_CHARS, NUMBERS_ALL};
    const char *last = "the schema";
    if (sub < N_FIXED_SUBS || !sub_read(s, sub))
        return last;
    for (uint32_t i = 0; i < s->subs[sub].n_keywords; i++) {
        struct keyword k = *sub_keyword(s, sub, i);
        for (enum algebra a = 0; a < N_ALGEBRAS; a++)
            x[a] = value_and(s, a, x[a], value_of_keyword(s, a, sub, &k));
        unsigned left = types_may(x[ALGEBRA_TYPES]);
        left &= value_is_none(s, ALGEBRA_STRING, x[ALGEBRA_STRING]) ? ~(unsigned)T_STRING : T_ALL;
        left &= value_is_none(s, ALGEBRA_NUMBER, x[ALGEBRA_NUMBER]) ? ~(unsigned)T_NUMBER : T_ALL;
        if (!left)
            return keyword_name(s, &k);
        if (k.id != K_TYPE && keyword_types(&k) & left)
            last = keyword_name(s, &k);
    }
    return last;
}

bool prune(struct schema *s, uint32_t root)
{
    struct pruner p = {.s = s};
    struct shapes *out = s->out, to = {0};
    p.live = schema_take(s, s->n_nodes * sizeof *p.live);
    p.number = schema_take(s, s->n_nodes * sizeof *p.number);
    p.reached = schema_take(s, s->n_nodes * sizeof *p.reached);
    if (!p.live || !p.number || !p.reached)
        return false;
    for (bool changed = true; changed;) {
        changed = false;
        memset(p.live, 0, s->n_nodes * sizeof *p.live);
        if (!find_live(&p) || !unique_bound(s, p.live, &changed))
            return false;
    }
    if (!p.live[root]) {
        return schema_refuse(s, 0, emptied_by(s), "nothing is valid: no value can satisfy it");
    }
    reach(&p, NODE_ANY);
    reach(&p, root);
    for (uint32_t i = 0; i < s->n_written; i++)
        reach(&p, s->written[i]);
    for (uint32_t i = 0; i < p.n_reached; i++)
        reach_shapes(&p, p.reached[i]);
    if (!number_nodes(&p) || !move_written(&p))
        return false;
    /* Shapes move to the front, in the order in which they lie. */
    for (uint32_t i = 0; i < s->n_queue; i++)
        if (p.number[s->queue[i]])
            move_node(&p, s->queue[i], &to);

    out->root = p.number[root];
    out->n_objects = to.n_objects, out->n_arrays = to.n_arrays, out->n_items = to.n_items;
    out->n_members = to.n_members, out->n_classes = to.n_classes;
    return !s->status && decide(s);
}
