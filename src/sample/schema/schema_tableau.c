/* The tableau: see schema_tableau.h. */
#include "sample/schema/schema_tableau.h"

#include "sample/schema/schema_array.h"
#include "sample/schema/schema_disjoint.h"
#include "sample/schema/schema_key.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_object.h"
#include "sample/schema/schema_options.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_value.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BRANCHES = 4096, MAX_SHAPES = 700, MAX_TRACKED = 8, MAX_NOTS = 16 };

/* ---- goals and options ---- */

static const struct goal *goal_push(struct tableau *t, const struct goal *list, struct goal g)
{
    struct goal *x = schema_take(t->s, sizeof *x);
    if (!x)
        return list;
    g.next = list;
    *x = g;
    return x;
}

/* What a goal takes over from the one that is being taken apart. What does not hold evaluates nothing. */
static struct goal inherit(struct tableau *t, struct goal g)
{
    g.quiet |= g.kind == GOAL_LITERAL && g.a & NOT;
    g.mode = g.quiet ? MODE_PLAIN : g.mode ? g.mode : (uint8_t)t->mode;
    g.era = g.quiet ? ++t->n_eras : t->era;
    return g;
}

void goal_add(struct tableau *t, struct goal g)
{
    t->branch.goals = goal_push(t, t->branch.goals, inherit(t, g));
}

void option_begin(struct tableau *t)
{
    if (!schema_step(t->s, 1) ||
        !schema_room(t->s, &t->options, &t->option_capacity, t->n_options + 1, sizeof *t->options))
        return;
    t->options[t->n_options++] = NULL;
}

void option_add(struct tableau *t, struct goal g)
{
    if (t->s->status || !t->n_options)
        return;
    const struct goal **o = &t->options[t->n_options - 1];
    *o = goal_push(t, *o, inherit(t, g));
}

void option_literal(struct tableau *t, literal x)
{
    option_begin(t);
    option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = x});
}

void option_atom(struct tableau *t, enum goal_kind kind, uint32_t a, uint32_t b)
{
    option_begin(t);
    option_add(t, (struct goal){.kind = (uint8_t)kind, .a = a, .b = b});
}

void option_has(struct tableau *t, uint32_t key, literal x)
{
    if (x != LITERAL_FALSE)
        option_atom(t, x == LITERAL_TRUE ? ATOM_REQUIRED : ATOM_HAS, key, x);
}

/* ---- what the branch knows ---- */

/* Where it is counted how often the branch has this atom, or literal in branch.done; NULL: nowhere */
static uint32_t *count_of(struct schema *s, const struct goal *g)
{
    switch (g->kind) {
    case GOAL_LITERAL:
        return &s->subs[g->a >> 1].done[g->a & NOT];
    case ATOM_REQUIRED:
        return &s->marks[g->a].required;
    case ATOM_ABSENT:
        return &s->marks[g->a].absent;
    case ATOM_HAS:
        return &s->marks[g->a].has;
    default:
        return NULL;
    }
}

/* Puts g on a list of the branch. */
static void keep(struct tableau *t, const struct goal **list, const struct goal *g)
{
    const struct goal *before = *list;
    *list = goal_push(t, before, *g);
    uint32_t *count = *list == before || t->s->status ? NULL : count_of(t->s, g);
    if (count)
        ++*count;
}

/* To a branch whose lists are ends of those of the present one */
static void go_back(struct tableau *t, const struct branch *to)
{
    const struct goal *from[] = {t->branch.facts, t->branch.atoms, t->branch.done},
                      *end[] = {to->facts, to->atoms, to->done};
    for (int i = 0; i < 3 && !t->s->status; i++)
        for (const struct goal *g = from[i]; g != end[i]; g = g->next)
            if (count_of(t->s, g))
                --*count_of(t->s, g);
    t->branch = *to;
}

static enum truth truth_of(struct tableau *t, const struct goal *g)
{
    uint32_t types;
    if (t->s->status)
        return FALSE;
    switch (g->kind) {
    case GOAL_LITERAL:
        types = value_of(t->s, ALGEBRA_TYPES, g->a);
        if (!(types_may(types) & t->type) || t->s->subs[g->a >> 1].done[~g->a & NOT])
            return FALSE;
        return types_full(types) & t->type || t->s->subs[g->a >> 1].done[g->a & NOT] ? TRUE : OPEN;
    case ATOM_ABSENT:
        if (t->s->marks[g->a].required || t->s->marks[g->a].has)
            return FALSE;
        return t->s->marks[g->a].absent ? TRUE : OPEN;
    case ATOM_REQUIRED:
    case ATOM_HAS:
        if (t->s->marks[g->a].absent)
            return FALSE;
        if (t->split || t->n_options > 1)
            return object_truth(t, g->a, g->kind == ATOM_HAS ? g->b : (literal)LITERAL_TRUE);
        return OPEN;
    default:
        return OPEN;
    }
}

/* An atom joins the branch. False: it contradicts it. */
static bool add_atom(struct tableau *t, const struct goal *g)
{
    enum truth truth = truth_of(t, g);
    if (truth != OPEN || !schema_step(t->s, 1))
        return truth == TRUE;
    bool fact = g->kind == ATOM_REQUIRED || g->kind == ATOM_ABSENT;
    keep(t, fact ? &t->branch.facts : &t->branch.atoms, g);
    t->branch.n_atoms++;
    if (!t->split || (g->kind != ATOM_GROUP && g->kind != ATOM_CONSTANT))
        return true;
    return t->type != T_OBJECT || object_may_hold(t);
}

/* ---- what must hold is taken apart ---- */

static void take_literal(struct tableau *t, const struct goal *g)
{
    struct schema *s = t->s;
    uint32_t sub = g->a >> 1, n;
    if (!sub_read(s, sub))
        return;
    n = s->subs[sub].n_keywords;
    if (g->a & NOT) {
        for (uint32_t i = 0; i < n && !s->status; i++)
            if (keyword_types(sub_keyword(s, sub, i)) & t->type)
                options_negate(t, sub, i);
        t->chooses = true;
        return;
    }
    uint32_t rest =
        sub_find(s, sub, t->type == T_OBJECT ? K_UNEVALUATED_PROPERTIES : K_UNEVALUATED_ITEMS);
    if (rest) {
        goal_add(t, (struct goal){.kind = GOAL_REST, .a = sub, .since = t->branch.atoms});
        t->mode = t->mode == MODE_EXACT ? MODE_EXACT : MODE_TRACK;
    }
    /* `required` comes first: it decides much. */
    for (int required = 0; required < 2; required++)
        for (uint32_t i = n; i--;)
            if (keyword_types(sub_keyword(s, sub, i)) & t->type &&
                (sub_keyword(s, sub, i)->id == K_REQUIRED) == required)
                goal_add(t, (struct goal){.kind = GOAL_KEYWORD, .a = sub, .b = i});
}

/* Every set of branches that hold together, so that what they evaluate is known. */
static void track_any_of(struct tableau *t, uint32_t sub, uint32_t list)
{
    struct schema *s = t->s;
    literal x[MAX_TRACKED];
    uint32_t n = 0;
    for (uint32_t c = schema_value(s, list)->first; c; c = schema_value(s, c)->next) {
        literal y = sub_literal(s, sub, c);
        if (!(types_may(value_of(s, ALGEBRA_TYPES, y)) & t->type))
            continue;
        if (n == MAX_TRACKED) {
            schema_refuse(s, schema_value(s, list)->parent, "anyOf",
                          "too many branches beside unevaluated...");
            return;
        }
        x[n++] = y;
    }
    for (uint32_t set = 1; set < 1u << n && !s->status; set++) {
        option_begin(t);
        for (uint32_t i = 0; i < n; i++)
            if (set >> i & 1)
                option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = x[i]});
            else if (t->mode == MODE_EXACT)
                option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = x[i] ^ NOT, .quiet = true});
    }
}

static void take_dependency(struct tableau *t, uint32_t sub, uint32_t member)
{
    struct schema *s = t->s;
    const struct json_value *v = schema_value(s, member);
    uint32_t key = key_of_member(s, member);
    t->chooses = true;
    option_atom(t, ATOM_ABSENT, key, 0);
    option_atom(t, ATOM_REQUIRED, key, 0);
    if (v->type == JSON_ARRAY)
        for (uint32_t c = v->first; c; c = schema_value(s, c)->next)
            option_add(t, (struct goal){.kind = ATOM_REQUIRED, .a = key_of_text(s, c)});
    else if (v->type == JSON_STRING)
        option_add(t, (struct goal){.kind = ATOM_REQUIRED, .a = key_of_text(s, member)});
    else
        option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_literal(s, sub, member)});
}

static void take_one_of(struct tableau *t, uint32_t sub, uint32_t list)
{
    struct schema *s = t->s;
    uint32_t n = 0;
    literal *x = schema_take(s, schema_value(s, list)->n_children * sizeof *x);
    for (uint32_t c = schema_value(s, list)->first; x && c; c = schema_value(s, c)->next) {
        literal y = sub_literal(s, sub, c);
        if (types_may(value_of(s, ALGEBRA_TYPES, y)) & t->type)
            x[n++] = y;
    }
    for (uint32_t i = 0; i < n && !s->status; i++) {
        option_literal(t, x[i]);
        for (uint32_t k = 0; k < n; k++)
            if (k == i || !schema_step(s, 1) || disjoint(s, t->type, &t->branch, x[i], x[k]))
                continue;
            else if (s->loose)
                schema_leave_out(s, s->subs[sub].value, "oneOf",
                                 "read as anyOf: the branches overlap in too many ways");
            else
                option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = x[k] ^ NOT, .quiet = true});
    }
}

static void take_if(struct tableau *t, uint32_t sub, uint32_t condition)
{
    struct schema *s = t->s;
    uint32_t then = sub_find(s, sub, K_THEN), other = sub_find(s, sub, K_ELSE);
    literal x = sub_literal(s, sub, condition);
    if (!then && !other && t->mode == MODE_PLAIN) {
        t->chooses = false;
        return;
    }
    option_literal(t, x);
    if (then)
        option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_literal(s, sub, then)});
    option_begin(t);
    option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = x ^ NOT, .quiet = true});
    if (other)
        option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_literal(s, sub, other)});
}

/* Constants of this type in `enum` or `const`. */
static void take_constants(struct tableau *t, const struct keyword *k)
{
    struct schema *s = t->s;
    bool list = k->id == K_ENUM;
    for (uint32_t c = list ? schema_value(s, k->value)->first : k->value; c;
         c = list ? schema_value(s, c)->next : 0)
        if (value_type(s, c) == t->type) {
            option_begin(t);
            option_add(t, (struct goal){.kind = ATOM_CONSTANT, .a = c});
        }
}

static void take_keyword(struct tableau *t, uint32_t sub, uint32_t index)
{
    struct schema *s = t->s;
    struct keyword k = *sub_keyword(s, sub, index);
    uint32_t list = schema_value(s, k.value)->first;
    t->chooses = true;
    switch (k.id) {
    case K_ENUM:
    case K_CONST:
    case K_CONSTANT:
        take_constants(t, &k);
        return;
    case K_ANY_OF:
        if (t->mode != MODE_PLAIN)
            track_any_of(t, sub, k.value);
        else
            for (uint32_t c = list; c; c = schema_value(s, c)->next)
                option_literal(t, sub_literal(s, sub, c));
        return;
    case K_ALL_OF:
        option_begin(t);
        for (uint32_t c = list; c; c = schema_value(s, c)->next)
            option_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_literal(s, sub, c)});
        return;
    case K_ONE_OF:
        take_one_of(t, sub, k.value);
        return;
    case K_IF:
        take_if(t, sub, k.value);
        return;
    default:
        t->chooses = false;
    }
    switch (k.id) {
    case K_NOT:
        goal_add(t, (struct goal){.kind = GOAL_LITERAL,
                                  .a = sub_literal(s, sub, k.value) ^ NOT,
                                  .quiet = true});
        return;
    case K_REF:
        goal_add(t, (struct goal){.kind = GOAL_LITERAL, .a = sub_simplest(s, k.sub)});
        return;
    case K_DEPENDENT_REQUIRED:
    case K_DEPENDENT_SCHEMAS:
    case K_DEPENDENCIES:
        for (uint32_t c = list; c; c = schema_value(s, c)->next)
            goal_add(t, (struct goal){.kind = GOAL_DEPENDENCY, .a = sub, .b = c});
        return;
    default:
        if (t->type == T_OBJECT)
            object_take_keyword(t, sub, &k);
        else
            array_take_keyword(t, sub, &k);
    }
}

static void take(struct tableau *t, const struct goal *g)
{
    t->mode = g->mode, t->era = g->era;
    t->chooses = false, t->n_options = 0;
    switch (g->kind) {
    case GOAL_LITERAL:
        t->dead = truth_of(t, g) == FALSE;
        if (t->dead || (t->mode == MODE_PLAIN && truth_of(t, g) == TRUE))
            return;
        keep(t, &t->branch.done, g);
        take_literal(t, g);
        return;
    case GOAL_KEYWORD:
        take_keyword(t, g->a, g->b);
        if (t->chooses && t->n_options > 1) {
            t->chooser = keyword_name(t->s, sub_keyword(t->s, g->a, g->b));
            t->choosers_sub = g->a;
        }
        return;
    case GOAL_DEPENDENCY:
        take_dependency(t, g->a, g->b);
        return;
    case GOAL_REST:
        if (t->type == T_OBJECT)
            object_take_rest(t, g);
        else
            array_take_rest(t, g);
        return;
    default:
        t->n_options = 0;
        t->dead = !add_atom(t, g);
    }
}

/* ---- the search ---- */

/* One option's goals, in the order in which they were added, before those that are left. */
static const struct goal *with_option(struct tableau *t, const struct goal *option)
{
    const struct goal *goals = t->branch.goals;
    for (; option; option = option->next)
        goals = goal_push(t, goals, *option);
    return goals;
}

/* One node has more shapes, or more branches to go, than `bound`. */
static void too_many(struct tableau *t, int bound)
{
    struct schema *s = t->s;
    literal first = s->literals[s->nodes[t->node].literals.first];
    uint32_t sub = t->chooser ? t->choosers_sub : first >> 1;
    char why[100];
    snprintf(why, sizeof why, "its branches and others combine in more than %d ways", bound);
    s->crowded = true;
    schema_refuse(s, s->subs[sub].value, t->chooser ? t->chooser : "the conditions", why);
}

/* What holds where an option of one atom does not: then the branches do not overlap. */
static bool opposite(struct tableau *t, const struct goal *option, struct goal *out)
{
    *out = (struct goal){.mode = (uint8_t)t->mode, .era = t->era, .a = option ? option->a : 0};
    if (!option || option->next)
        return false;
    out->kind = option->kind == ATOM_ABSENT     ? ATOM_REQUIRED
                : option->kind == ATOM_REQUIRED ? ATOM_ABSENT
                                                : ATOM_HAS;
    out->b = option->b ^ NOT;
    return out->kind != ATOM_HAS || (option->kind == ATOM_HAS && option->b & NOT &&
                                     object_truth(t, option->a, LITERAL_TRUE) == TRUE);
}

/* Goes on with each option that is not false; none: the branch is dead. */
static void choose(struct tableau *t)
{
    uint32_t n = 0, n_not = 0;
    struct goal not [MAX_NOTS];
    const struct branch whole = t->branch;
    struct schema *s = t->s;
    for (uint32_t i = 0; i < t->n_options; i++) {
        enum truth all = t->n_options == 1 ? OPEN : TRUE; /* one option need not be looked at */
        for (const struct goal *g = t->options[i]; t->n_options > 1 && g && all != FALSE;
             g = g->next) {
            enum truth one = truth_of(t, g);
            all = one < all ? one : all;
        }
        if (all == TRUE && t->mode == MODE_PLAIN)
            return;
        if (all != FALSE)
            t->options[n++] = t->options[i];
    }
    t->dead = !n;
    t->split |= n > 1;
    if (n > 1 && t->n_branches + n > MAX_BRANCHES)
        too_many(t, MAX_BRANCHES);
    if (!schema_room(s, &t->branches, &t->branch_capacity, t->n_branches + n, sizeof *t->branches))
        return;
    for (uint32_t i = 0; i < n; i++) {
        t->branch = whole;
        t->branch.goals = with_option(t, t->options[i]);
        for (uint32_t k = 0; k < n_not; k++)
            t->branch.goals = goal_push(t, t->branch.goals, not [k]);
        if (n_not < MAX_NOTS && opposite(t, t->options[i], &not [n_not]))
            n_not++;
        t->branches[t->n_branches + n - 1 - i] = t->branch;
    }
    t->n_branches += n;
    if (n)
        t->branch = t->branches[--t->n_branches];
}

void tableau_run(struct schema *s, uint32_t node, unsigned type)
{
    struct tableau t = {.s = s, .type = type, .node = node};
    struct chunk_mark mark = schema_mark(s);
    struct stretch l = s->nodes[node].literals;
    uint32_t first = type == T_OBJECT ? s->out->n_objects : s->out->n_arrays;
    for (uint32_t i = l.n; i--;)
        t.branch.goals = goal_push(&t, t.branch.goals,
                                   (struct goal){.kind = GOAL_LITERAL,
                                                 .a = s->literals[l.first + i],
                                                 .quiet = s->literals[l.first + i] & NOT});
    for (bool more = true; more && !s->status;) {
        t.dead = false;
        while (t.branch.goals && !t.dead && schema_step(s, 1)) {
            const struct goal *g = t.branch.goals;
            t.branch.goals = g->next;
            take(&t, g);
            if (t.chooses && !t.dead && !s->status)
                choose(&t);
        }
        if (!t.dead && !s->status && type == T_OBJECT)
            object_emit(&t);
        else if (!t.dead && !s->status)
            array_emit(&t);
        if ((type == T_OBJECT ? s->out->n_objects : s->out->n_arrays) - first > MAX_SHAPES)
            too_many(&t, MAX_SHAPES);
        more = t.n_branches;
        go_back(&t, more ? &t.branches[--t.n_branches] : &(const struct branch){0});
    }
    budget_free(s->budget, t.options, t.option_capacity * sizeof *t.options);
    budget_free(s->budget, t.branches, t.branch_capacity * sizeof *t.branches);
    schema_release(s, mark);
}
