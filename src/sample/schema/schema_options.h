/* The state of one tableau, and how its steps say what must hold. */
#ifndef SCHEMA_SCHEMA_OPTIONS_H
#define SCHEMA_SCHEMA_OPTIONS_H

#include "sample/schema/schema_tableau.h"

struct branch {
    /* Lists, which share their ends with other branches. */
    const struct goal *goals, *atoms;
    const struct goal *facts;   /* ATOM_REQUIRED, ATOM_ABSENT */
    const struct goal *done;    /* GOAL_LITERAL */
    uint32_t n_atoms;
};

struct tableau {
    struct schema *s;
    unsigned type; /* T_ARRAY or T_OBJECT */
    uint32_t node;
    struct branch branch;
    bool dead;  /* the branch contradicts itself */
    bool split; /* there were several branches */
    /* Of the goal being taken apart. */
    enum goal_mode mode;
    uint32_t era, n_eras;
    bool chooses; /* one of the options must hold */
    const struct goal **options;
    struct branch *branches; /* still to go */
    uint32_t n_options, option_capacity, n_branches, branch_capacity;
    const char *chooser; /* the last keyword that split a branch, of this sub; NULL: none */
    uint32_t choosers_sub;
};

enum truth { FALSE, OPEN, TRUE };

void goal_add(struct tableau *t, struct goal g); /* comes before the goals that are left */
void option_begin(struct tableau *t);
void option_add(struct tableau *t, struct goal g); /* to the option begun last */
void option_literal(struct tableau *t, literal x);
void option_has(struct tableau *t, uint32_t key, literal x); /* the key comes with such a value */
void option_atom(struct tableau *t, enum goal_kind kind, uint32_t a, uint32_t b);

/* Adds the options of which one holds if keyword number `index` of a sub does not. */
void options_negate(struct tableau *t, uint32_t sub, uint32_t index);

#endif
