/* Copies of nodes without the keys that have no written form: see schema_written.h. */
#include "sample/schema/schema_written.h"

#include "sample/schema/schema_key.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_string.h"

/* The copy of a node from before, whose shapes come later; a node of scalars is its own. */
static uint32_t copy_of(struct schema *s, uint32_t node)
{
    const struct node *x = &s->nodes[node].shape;
    if (s->written[node] || node == NODE_NONE)
        return s->written[node];
    if (!x->arrays.n && !x->objects.n)
        return s->written[node] = node;
    if (!schema_room(s, &s->nodes, &s->node_capacity, s->n_nodes + 1, sizeof *s->nodes) ||
        !schema_room(s, &s->queue, &s->queue_capacity, s->n_queue + 1, sizeof *s->queue))
        return NODE_NONE;
    s->nodes[s->n_nodes] = s->nodes[node];
    s->queue[s->n_queue++] = s->n_nodes;
    return s->written[node] = s->n_nodes++;
}

static struct stretch copy_arrays(struct schema *s, struct stretch of)
{
    struct shapes *out = s->out;
    struct stretch to = {out->n_arrays, of.n};
    for (uint32_t i = 0; i < of.n; i++) {
        struct array_shape a = out->arrays[of.first + i];
        uint32_t from = a.items.first;
        a.items.first = out->n_items;
        if (!schema_room(s, &out->arrays, &s->array_capacity, out->n_arrays + 1, sizeof a) ||
            !schema_room(s, &out->items, &s->item_capacity, out->n_items + a.items.n, sizeof from))
            break;
        for (uint32_t k = 0; k < a.items.n; k++)
            out->items[out->n_items++] = copy_of(s, out->items[from + k]);
        out->arrays[out->n_arrays++] = a;
    }
    return to;
}

/* False: a key must come that cannot be written. */
static bool copy_members(struct schema *s, lang keys, struct object_shape *o)
{
    struct shapes *out = s->out;
    struct stretch to = {out->n_members, 0};
    for (uint32_t i = 0; i < o->members.n; i++) {
        struct member m = out->members[o->members.first + i];
        struct shape_key k = out->keys[m.key];
        bool can = string_matches(s, keys, out->text + k.at, k.n);
        if (!can && m.required)
            return false;
        if (!can)
            continue;
        if (!schema_room(s, &out->members, &s->member_capacity, out->n_members + 1, sizeof m))
            return false;
        m.node = copy_of(s, m.node);
        out->members[out->n_members++] = m;
    }
    to.n = out->n_members - to.first;
    o->members = to;
    return true;
}

/* Keys of the class that no member of the object has */
static uint32_t count_keys(struct schema *s, const struct object_shape *o, lang keys)
{
    const struct shapes *out = s->out;
    uint32_t count = key_count(s, keys, o->members.n);
    for (uint32_t i = 0; count != SHAPE_NO_LIMIT && i < o->members.n; i++) {
        struct shape_key k = out->keys[out->members[o->members.first + i].key];
        count -= string_matches(s, keys, out->text + k.at, k.n);
    }
    return count;
}

/* False: a member must come of a class that has few keys left. */
static bool copy_classes(struct schema *s, lang keys, struct object_shape *o)
{
    struct shapes *out = s->out;
    struct stretch to = {out->n_classes, 0};
    for (uint32_t i = 0; i < o->classes.n; i++) {
        struct member_class c = out->classes[o->classes.first + i];
        c.keys =
            c.keys == LANG_CHARS ? keys : string_check(s, lang_and(s->languages, c.keys, keys));
        if (c.keys != keys)
            c.most = string_is_empty(s, c.keys) ? 0 : count_keys(s, o, c.keys);
        if (c.min && c.most != SHAPE_NO_LIMIT)
            return false;
        if (!c.most)
            continue;
        if (!schema_room(s, &out->classes, &s->class_capacity, out->n_classes + 1, sizeof c))
            return false;
        c.node = copy_of(s, c.node);
        out->classes[out->n_classes++] = c;
    }
    to.n = out->n_classes - to.first;
    o->classes = to;
    return true;
}

static struct stretch copy_objects(struct schema *s, lang keys, struct stretch of)
{
    struct shapes *out = s->out;
    struct stretch to = {out->n_objects, 0};
    for (uint32_t i = 0; i < of.n && !s->status; i++) {
        struct object_shape o = out->objects[of.first + i];
        uint32_t n_members = out->n_members, n_classes = out->n_classes;
        if (copy_members(s, keys, &o) && copy_classes(s, keys, &o) &&
            schema_room(s, &out->objects, &s->object_capacity, out->n_objects + 1, sizeof o))
            out->objects[out->n_objects++] = o;
        else
            out->n_members = n_members, out->n_classes = n_classes;
    }
    to.n = out->n_objects - to.first;
    return to;
}

/* What stands in a member of the objects of a node is written. */
static void write_members(struct schema *s, uint32_t node)
{
    const struct shapes *out = s->out;
    struct stretch objects = s->nodes[node].shape.objects;
    for (uint32_t i = 0; i < objects.n; i++) {
        struct stretch members = out->objects[objects.first + i].members;
        for (uint32_t k = 0; k < members.n; k++)
            copy_of(s, out->members[members.first + k].node);
    }
}

bool written_nodes(struct schema *s, uint32_t root)
{
    const struct node *list = &s->nodes[root].shape;
    uint32_t first = s->n_queue;
    s->n_written = s->n_nodes;
    s->written = schema_take(s, s->n_written * sizeof *s->written);
    if (!s->written || !list->arrays.n)
        return !s->status;
    struct stretch items = s->out->arrays[list->arrays.first].items;
    for (uint32_t i = 0; i < items.n && i < s->notation->n; i++)
        write_members(s, s->out->items[items.first + i]);
    lang keys = string_check(s, s->notation->keys(s->languages));
    for (uint32_t i = first; i < s->n_queue && schema_step(s, 1); i++) {
        struct node shape = s->nodes[s->queue[i]].shape;
        shape.arrays = copy_arrays(s, shape.arrays);
        shape.objects = copy_objects(s, keys, shape.objects);
        s->nodes[s->queue[i]].shape = shape;
    }
    return !s->status;
}
