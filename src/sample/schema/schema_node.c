/* Nodes, and the queue of those to expand: see schema_node.h. */
#include "sample/schema/schema_node.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_number.h"
#include "sample/schema/schema_tableau.h"
#include "sample/schema/schema_value.h"

#include <string.h>

static bool add_node(struct schema *s, const literal *x, uint32_t n, unsigned types)
{
    if (!schema_room(s, &s->literals, &s->literal_capacity, s->n_literals + n, sizeof *x) ||
        !schema_room(s, &s->nodes, &s->node_capacity, s->n_nodes + 1, sizeof *s->nodes))
        return false;
    if (n)
        memcpy(s->literals + s->n_literals, x, n * sizeof *x);
    s->nodes[s->n_nodes++] =
        (struct conjunction){.literals = {s->n_literals, n}, .types = (uint8_t)types};
    s->n_literals += n;
    return true;
}

bool nodes_open(struct schema *s)
{
    static const literal no = LITERAL_FALSE;
    return add_node(s, &no, 1, 0) && add_node(s, NULL, 0, T_ALL);
}

static bool same_node(const struct schema *s, uint32_t entry, const void *key, size_t n)
{
    struct stretch x = s->nodes[entry].literals;
    return x.n * sizeof(literal) == n && !memcmp(s->literals + x.first, key, n);
}

/* Sorts, takes doubles out; false: x and not x. */
static bool sort_literals(literal *x, uint32_t *n)
{
    uint32_t to = 0;
    for (uint32_t i = 1; i < *n; i++) {
        literal moved = x[i];
        uint32_t k = i;
        for (; k && x[k - 1] > moved; k--)
            x[k] = x[k - 1];
        x[k] = moved;
    }
    for (uint32_t i = 0; i < *n; i++) {
        if (to && x[to - 1] == x[i])
            continue;
        if (to && (x[to - 1] ^ x[i]) == NOT)
            return false;
        x[to++] = x[i];
    }
    *n = to;
    return true;
}

uint32_t node_of(struct schema *s, literal *x, uint32_t n)
{
    unsigned may = T_ALL;
    if (s->status || !sort_literals(x, &n))
        return NODE_NONE;
    for (uint32_t i = 0; i < n; i++)
        may &= types_may(value_of(s, ALGEBRA_TYPES, x[i]));
    if (!may || s->status)
        return NODE_NONE;
    /* A literal goes if it says nothing about the types that the others leave. */
    for (uint32_t i = n; i--;) {
        unsigned others = T_ALL;
        for (uint32_t k = 0; k < n && others; k++)
            others &= k == i ? T_ALL : types_may(value_of(s, ALGEBRA_TYPES, x[k]));
        if (others & ~types_full(value_of(s, ALGEBRA_TYPES, x[i])))
            continue;
        memmove(x + i, x + i + 1, (--n - i) * sizeof *x);
    }
    if (!n)
        return NODE_ANY;
    struct table_slot *slot =
        table_find(s, &s->node_table, x, n * sizeof *x, same_node, s->n_nodes);
    if (slot && slot->number > s->n_nodes && !add_node(s, x, n, may))
        return NODE_NONE;
    return slot ? slot->number - 1 : NODE_NONE;
}

/* What the node says of scalars. */
static void find_values(struct schema *s, uint32_t node)
{
    struct conjunction *x = &s->nodes[node];
    struct stretch l = x->literals;
    unsigned types = x->types;
    uint32_t string = types & T_STRING ? LANG_CHARS : LANG_NONE;
    uint32_t numbers = types & T_NUMBER ? 1 : 0;
    if (x->valued)
        return;
    for (uint32_t i = 0; i < l.n; i++) {
        if (types & T_STRING)
            string = value_and(s, ALGEBRA_STRING, string,
                               value_of(s, ALGEBRA_STRING, s->literals[l.first + i]));
        if (types & T_NUMBER)
            numbers = value_and(s, ALGEBRA_NUMBER, numbers,
                                value_of(s, ALGEBRA_NUMBER, s->literals[l.first + i]));
    }
    if (value_is_none(s, ALGEBRA_STRING, string))
        string = LANG_NONE;
    x = &s->nodes[node];
    x->shape.literals = types & T_LITERALS;
    x->shape.string = string;
    x->shape.number = numbers; /* the set; expanding makes a language of it */
    x->valued = true;
}

bool node_is_plainly_empty(struct schema *s, uint32_t node)
{
    if (node == NODE_NONE || s->status)
        return true;
    if (s->nodes[node].types & (T_ARRAY | T_OBJECT | T_LITERALS))
        return false;
    find_values(s, node);
    return s->nodes[node].shape.string == LANG_NONE && !s->nodes[node].shape.number;
}

void node_use(struct schema *s, uint32_t node)
{
    if (s->status || s->nodes[node].expanded ||
        !schema_room(s, &s->queue, &s->queue_capacity, s->n_queue + 1, sizeof *s->queue))
        return;
    s->nodes[node].expanded = true;
    s->queue[s->n_queue++] = node;
}

bool nodes_expand(struct schema *s)
{
    for (uint32_t i = 0; i < s->n_queue && schema_step(s, 1); i++) {
        uint32_t node = s->queue[i];
        find_values(s, node);
        struct node shape = s->nodes[node].shape;
        shape.number = numbers_language(s, shape.number);
        shape.arrays.first = s->out->n_arrays;
        if (s->nodes[node].types & T_ARRAY)
            tableau_run(s, node, T_ARRAY);
        shape.arrays.n = s->out->n_arrays - shape.arrays.first;
        shape.objects.first = s->out->n_objects;
        if (s->nodes[node].types & T_OBJECT)
            tableau_run(s, node, T_OBJECT);
        shape.objects.n = s->out->n_objects - shape.objects.first;
        s->nodes[node].shape = shape;
    }
    return !s->status;
}
