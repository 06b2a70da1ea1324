/* What a schema became: nodes. A node is a set of JSON values, as a union of shapes by type. Nodes are
 * numbered, refer to each other by number and may be recursive. Values with no text are pruned: every
 * node except NODE_NONE holds a value, and every shape of it can be finished.
 *
 * schema.c makes it; the recognizer walks it. All of it is immutable and lies in arrays of `shapes`,
 * whose bytes count in the budget that made it. */
#ifndef SCHEMA_SHAPE_H
#define SCHEMA_SHAPE_H

#include "sample/language/language.h"

enum { NODE_NONE = 0, NODE_ANY = 1 }; /* no value; every value */
enum { SHAPE_NULL = 1, SHAPE_TRUE = 2, SHAPE_FALSE = 4 };
enum { SHAPE_NO_LIMIT = UINT32_MAX };

struct stretch { /* places first .. first + n - 1 of an array of `shapes` */
    uint32_t first, n;
};

struct node {
    unsigned literals; /* SHAPE_NULL ... */
    lang string;       /* the CONTENT of a string, unescaped UTF-8; LANG_NONE: no string */
    lang number;       /* the text of a number */
    struct stretch arrays,
        objects; /* of shapes.arrays, shapes.objects: the value matches one or more */
};

/* Items: item i takes place min(i, n_places - 1) of the table; the last place is the rest.
 * Contains: of each of n_contains conditions at least min and at most max items hold. For a place p and
 * a set m of conditions, items.first[p << n_contains | m] is the node of the items that are counted for
 * the conditions in m. Where a condition has a max, an item that is not counted for it does not hold
 * it; so counting is exact. NODE_NONE where there is no such item. */
enum { SHAPE_CONTAINS = 4, SHAPE_COUNTS = 256 }; /* conditions and, in all, counts: at most */
struct array_shape {
    struct stretch items; /* of shapes.items: n_places << n_contains nodes */
    uint32_t min, max;    /* items; max 0: the empty array */
    uint32_t n_contains, contains_min[SHAPE_CONTAINS], contains_max[SHAPE_CONTAINS];
    uint32_t unique; /* no two items are equal. The node of item i has more than i values */
};

/* A named member: its key is this very text. Members come in this order, behind them members of
 * classes, whose order is free. */
struct member {
    uint32_t key; /* of shapes.keys */
    uint32_t
        node; /* NODE_NONE: the key must not come, in no class either; then it is not required */
    bool required;
};
/* Keys by pattern. A named key of the shape belongs to no class, though the language may hold it: so
 * most languages are LANG_CHARS. A member whose key no member names belongs to one class that holds its
 * key; where several hold it, any choice will do, and what counts is whether one choice leads to an end.
 * At least min members of the class come: 0, or 1 where a condition demands it; a class with 1 has
 * infinitely many keys. */
struct member_class {
    lang keys;     /* within LANG_CHARS, never empty */
    uint32_t node; /* never NODE_NONE */
    uint32_t min;
    uint32_t most; /* keys in the language that are not named; SHAPE_NO_LIMIT: many */
};
struct object_shape {
    struct stretch members, classes; /* of shapes.members, shapes.classes */
    uint32_t min, max;               /* members of both kinds */
};

struct shape_key {
    uint32_t at, n; /* of shapes.text: the unescaped bytes */
};

struct shapes {
    struct languages *languages; /* owned; its budget counts the arrays, too */
    struct node *nodes;
    uint32_t n_nodes, root;
    /* [n_nodes] Of a node that the schema's notation speaks of: the node of its values that can be written, or
     * NODE_NONE. NULL: there is no such notation. */
    uint32_t *written;
    struct array_shape *arrays;
    struct object_shape *objects;
    uint32_t *items;
    struct member *members;
    struct member_class *classes;
    struct shape_key *keys;
    char *text;
    uint32_t n_arrays, n_objects, n_items, n_members, n_classes, n_keys, n_text;
};

/* Can an array of this shape be finished that has `n` items, of which count[i] were counted for
 * condition i? `open`: whether a node has a value, NULL: all but NODE_NONE have. */
bool shape_array_open(const struct shapes *s, const struct array_shape *a, uint32_t n,
                      const uint32_t *count, bool (*open)(void *arg, uint32_t node), void *arg);
/* Can an object be finished whose named members before `next` are over, with n members, and count[i]
 * members of class i? `seen`: bit i is set where named member i has come, and members may come in any
 * order (then `next` is ignored); NULL: in the shape's order. */
bool shape_object_open(const struct shapes *s, const struct object_shape *o, uint32_t next,
                       const uint64_t *seen, uint32_t n, const uint32_t *count,
                       bool (*open)(void *arg, uint32_t node), void *arg);
void shapes_free(struct shapes *s); /* the arrays and the languages */

#endif
