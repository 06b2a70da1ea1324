/* Objects: what their keywords, and their negations, ask for. */
#include "sample/schema/schema_object.h"

#include "sample/schema/schema_key.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_string.h"
#include "sample/schema/schema_value.h"

/* The keyword by which properties, patternProperties and additionalProperties become one atom. */
static bool leads_group(const struct schema *s, uint32_t sub, const struct keyword *k)
{
    for (uint32_t i = 0; i < s->subs[sub].n_keywords; i++) {
        unsigned id = sub_keyword(s, sub, i)->id;
        if (id >= K_PROPERTIES && id <= K_ADDITIONAL_PROPERTIES)
            return id == k->id;
    }
    return false;
}

void object_take_keyword(struct tableau *t, uint32_t sub, const struct keyword *k)
{
    struct schema *s = t->s;
    switch (k->id) {
    case K_PROPERTIES:
    case K_PATTERN_PROPERTIES:
    case K_ADDITIONAL_PROPERTIES:
        if (leads_group(s, sub, k))
            goal_add(t, (struct goal){.kind = ATOM_GROUP, .a = sub});
        return;
    case K_PROPERTY_NAMES:
        goal_add(t, (struct goal){.kind = ATOM_NAMES, .a = sub_literal(s, sub, k->value)});
        return;
    case K_REQUIRED:
        t->chooses = true;
        option_begin(t);
        for (uint32_t c = schema_value(s, k->value)->first; c; c = schema_value(s, c)->next)
            option_add(t, (struct goal){.kind = ATOM_REQUIRED, .a = key_of_text(s, c)});
        return;
    case K_MIN_PROPERTIES:
    case K_MAX_PROPERTIES:
        goal_add(t, (struct goal){.kind = k->id == K_MIN_PROPERTIES ? ATOM_MIN : ATOM_MAX,
                                  .a = sub_count(s, k->value)});
        return;
    default:
        return;
    }
}

/* Keys that no pattern of the sub and none of its properties speaks of. */
static lang keys_left(struct schema *s, uint32_t sub, lang keys)
{
    uint32_t properties = sub_find(s, sub, K_PROPERTIES),
             patterns = sub_find(s, sub, K_PATTERN_PROPERTIES);
    struct languages *ls = s->languages;
    lang named = LANG_NONE;
    for (uint32_t c = properties ? schema_value(s, properties)->first : 0; c;
         c = schema_value(s, c)->next)
        named = lang_or(ls, named, lang_text(ls, schema_key(s, c), schema_value(s, c)->n_key));
    for (uint32_t c = patterns ? schema_value(s, patterns)->first : 0; c;
         c = schema_value(s, c)->next)
        named = lang_or(ls, named, key_pattern(s, c));
    return string_check(s, lang_and(ls, keys, lang_not(ls, named)));
}

/* Whether the sub's properties or patterns speak of the key. */
static bool speaks_of(struct schema *s, uint32_t sub, const char *p, size_t n)
{
    uint32_t properties = sub_find(s, sub, K_PROPERTIES);
    uint32_t patterns = sub_find(s, sub, K_PATTERN_PROPERTIES);
    bool found = properties && json_find(&s->json, properties, p, n);
    for (uint32_t c = patterns ? schema_value(s, patterns)->first : 0; c && !found;
         c = schema_value(s, c)->next)
        found = string_matches(s, key_pattern(s, c), p, n);
    return found;
}

/* The `properties` that hold every key of the branch, or 0. */
static uint32_t closed_keys(const struct tableau *t)
{
    const struct schema *s = t->s;
    for (const struct goal *g = t->branch.atoms; g; g = g->next) {
        uint32_t rest = g->kind == ATOM_GROUP ? sub_find(s, g->a, K_ADDITIONAL_PROPERTIES) : 0;
        if (rest && schema_value(s, rest)->type == JSON_FALSE &&
            !sub_find(s, g->a, K_PATTERN_PROPERTIES))
            return sub_find(s, g->a, K_PROPERTIES);
    }
    return 0;
}

/* A key of the language, or one that `sub` does not speak of, has such a value. Where few keys can
 * come, each is an option. */
static void option_exists(struct tableau *t, uint32_t sub, lang keys, literal x)
{
    struct schema *s = t->s;
    uint32_t closed = closed_keys(t);
    if (!closed) {
        keys = sub == SUB_TRUE ? keys : keys_left(s, sub, LANG_CHARS);
        option_atom(t, ATOM_EXISTS, keys, x);
        return;
    }
    for (uint32_t c = schema_value(s, closed)->first; c && !s->status;
         c = schema_value(s, c)->next) {
        const char *p = schema_key(s, c);
        size_t n = schema_value(s, c)->n_key;
        if (sub == SUB_TRUE ? string_matches(s, keys, p, n) : !speaks_of(s, sub, p, n))
            option_has(t, key_of_member(s, c), x);
    }
}

/* Some key that was not evaluated has a value that unevaluatedProperties does not allow. */
static void negate_rest(struct tableau *t, const struct goal *rest, literal x)
{
    struct schema *s = t->s;
    lang keys = LANG_CHARS;
    for (const struct goal *g = t->branch.atoms; g && g != rest->since; g = g->next) {
        bool group = g->kind == ATOM_GROUP && g->era == rest->era;
        if ((g->kind == ATOM_REST && g->era == rest->era) ||
            (group && sub_find(s, g->a, K_ADDITIONAL_PROPERTIES)))
            t->dead = true;
        if (group)
            keys = keys_left(s, g->a, keys);
    }
    goal_add(t, (struct goal){.kind = ATOM_EXISTS, .a = keys, .b = x ^ NOT});
}

void object_take_rest(struct tableau *t, const struct goal *g)
{
    literal x = sub_literal(t->s, g->a, sub_find(t->s, g->a, K_UNEVALUATED_PROPERTIES));
    if (g->b)
        negate_rest(t, g, x);
    else
        goal_add(t, (struct goal){.kind = ATOM_REST, .a = x, .since = g->since});
}

void object_negate(struct tableau *t, uint32_t sub, const struct keyword *k)
{
    struct schema *s = t->s;
    uint32_t first = schema_value(s, k->value)->first;
    lang keys;
    switch (k->id) {
    case K_PROPERTIES:
        for (uint32_t c = first; c; c = schema_value(s, c)->next)
            option_has(t, key_of_member(s, c), sub_literal(s, sub, c) ^ NOT);
        return;
    case K_PATTERN_PROPERTIES:
        for (uint32_t c = first; c; c = schema_value(s, c)->next)
            option_exists(t, SUB_TRUE, key_pattern(s, c), sub_literal(s, sub, c) ^ NOT);
        return;
    case K_ADDITIONAL_PROPERTIES:
        option_exists(t, sub, LANG_NONE, sub_literal(s, sub, k->value) ^ NOT);
        return;
    case K_PROPERTY_NAMES:
        keys = value_of(s, ALGEBRA_STRING, sub_literal(s, sub, k->value) ^ NOT);
        option_exists(t, SUB_TRUE, keys, LITERAL_TRUE);
        return;
    case K_REQUIRED:
        for (uint32_t c = first; c; c = schema_value(s, c)->next)
            option_atom(t, ATOM_ABSENT, key_of_text(s, c), 0);
        return;
    case K_MIN_PROPERTIES:
        option_atom(t, ATOM_MAX, sub_count(s, k->value) - 1, 0);
        return;
    case K_MAX_PROPERTIES:
        option_atom(t, ATOM_MIN, sub_count(s, k->value) + 1, 0);
        return;
    default:
        return;
    }
}

void object_negate_constant(struct tableau *t, uint32_t value)
{
    struct schema *s = t->s;
    lang names = LANG_NONE;
    for (uint32_t c = schema_value(s, value)->first; c; c = schema_value(s, c)->next) {
        option_atom(t, ATOM_ABSENT, key_of_member(s, c), 0);
        option_has(t, key_of_member(s, c), LITERAL(sub_constant(s, c)) | NOT);
        names = lang_or(s->languages, names,
                        lang_text(s->languages, schema_key(s, c), schema_value(s, c)->n_key));
    }
    names = lang_and(s->languages, LANG_CHARS, lang_not(s->languages, names));
    option_exists(t, SUB_TRUE, string_check(s, names), LITERAL_TRUE);
}

/* The key comes. */
static bool key_comes(const struct tableau *t, uint32_t key)
{
    return t->s->marks[key].required || t->s->marks[key].has;
}

enum truth object_truth(struct tableau *t, uint32_t key, literal x)
{
    struct schema *s = t->s;
    struct chunk_mark mark = schema_mark(s);
    schema_step(s, 4 + t->branch.n_atoms); /* a walk of the atoms, and nodes looked up */
    struct cell *list = key_literals(s, t->branch.atoms, key, NULL);
    bool demanded = x == LITERAL_TRUE;
    for (const struct cell *c = list; c; c = c->next)
        demanded |= c->x == x;
    enum truth truth = OPEN;
    if (node_is_plainly_empty(s, cell_node(s, cell_add(s, list, x))))
        truth = FALSE;
    else if (key_comes(t, key) &&
             (demanded || node_is_plainly_empty(s, cell_node(s, cell_add(s, list, x ^ NOT)))))
        truth = TRUE;
    schema_release(s, mark);
    return truth;
}

static bool key_may_hold(struct tableau *t, uint32_t key)
{
    struct chunk_mark mark = schema_mark(t->s);
    schema_step(t->s, 4 + t->branch.n_atoms);
    uint32_t node = cell_node(t->s, key_literals(t->s, t->branch.atoms, key, NULL));
    schema_release(t->s, mark);
    return !node_is_plainly_empty(t->s, node);
}

bool object_may_hold(struct tableau *t)
{
    for (const struct goal *g = t->branch.facts; g && schema_step(t->s, 1); g = g->next)
        if (g->kind == ATOM_REQUIRED && !key_may_hold(t, g->a))
            return false;
    for (const struct goal *g = t->branch.atoms; g && schema_step(t->s, 1); g = g->next)
        if (g->kind == ATOM_HAS && !key_may_hold(t, g->a))
            return false;
    return true;
}
