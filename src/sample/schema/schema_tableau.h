/* One node, one type (array or object): its literals are taken apart until only atoms are left. Where
 * one of several must hold, the branch is split; each branch that reaches its end is one shape. */
#ifndef SCHEMA_SCHEMA_TABLEAU_H
#define SCHEMA_SCHEMA_TABLEAU_H

#include "sample/schema/schema_parts.h"

enum goal_kind {
    /* ---- still to be taken apart ---- */
    GOAL_LITERAL,    /* a: literal; in branch.done: it was */
    GOAL_KEYWORD,    /* a: sub, b: index of its keyword, which must hold */
    GOAL_DEPENDENCY, /* a: sub, b: a member of dependent...: if its key comes, the rest holds */
    GOAL_REST,       /* a: sub: all that unevaluated... depends on is taken apart now */
    /* ---- atoms ---- */

    ATOM_GROUP, /* a: sub: its properties, patternProperties, additionalProperties; or its items */
    ATOM_CONSTANT, /* a: value: the object or the array is this one */
    ATOM_MIN,      /* a: members or items */
    ATOM_MAX,      /* a */
    ATOM_REST, /* a: literal of what was not evaluated by the atoms between this one and `since` */
    ATOM_REQUIRED, /* a: key */
    ATOM_ABSENT,   /* a: key */
    ATOM_HAS,      /* a: key comes; b: literal of its value */
    ATOM_EXISTS,   /* a: language; b: literal: a key of the language comes with such a value */
    ATOM_NAMES,    /* a: literal of all keys */
    ATOM_ITEM,     /* a: place; b: literal of the item there, which comes */
    ATOM_CONTAINS, /* a: literal; at least b, at most c items hold it, from place d on */
    ATOM_UNIQUE,
};

/* How much must be known of what held inside: which keys were evaluated depends on it. */
enum goal_mode {
    MODE_PLAIN,
    MODE_TRACK, /* what holds is evaluated; what may hold besides does not matter */
    MODE_EXACT, /* what is not counted does not hold */
};

struct goal {
    uint8_t kind, mode;
    bool quiet;   /* when added: begins an era of its own, as inside `not` */
    uint32_t era; /* an atom evaluates for the ATOM_REST of its own era */
    uint32_t a, b, c, d;
    const struct goal *next, *since;
};

/* Appends the shapes of a node of this type. */
void tableau_run(struct schema *s, uint32_t node, unsigned type);

#endif
