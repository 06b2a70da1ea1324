/* The atoms of a finished branch of an object as shapes. */
#include "sample/schema/schema_key.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_node.h"
#include "sample/schema/schema_object.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_string.h"
#include "sample/schema/schema_value.h"

#include <string.h>

enum { MAX_PATTERNS = 64, MAX_EXISTS = 8, MAX_CLASSES = 128 };

struct entry {
    uint32_t key;
    bool required, absent;
    struct cell *literals;
};

struct form_class {
    lang keys;
    uint64_t matched; /* bit i: pattern i holds the keys */
    struct cell *literals;
    uint32_t min, most;
};

struct object_form {
    struct tableau *t;
    const struct goal **atoms, **facts; /* in order */
    uint32_t n_atoms, n_facts;
    struct entry *entries;
    uint32_t n_entries, entry_capacity;
    lang patterns[MAX_PATTERNS];
    uint32_t n_patterns;
    struct form_class *classes;
    uint32_t n_classes, n_base_classes, class_capacity;
    const struct goal *exists[MAX_EXISTS];
    uint32_t n_exists;
    bool has_names; /* there are ATOM_NAMES */
    uint32_t min, max;
};

/* ---- named keys ---- */

static struct entry *entry_of(struct object_form *f, uint32_t key)
{
    struct schema *s = f->t->s;
    static struct entry none;
    if (s->status)
        return &none;
    if (s->marks[key].form == s->n_forms)
        return &f->entries[s->marks[key].entry];
    if (!schema_room(s, &f->entries, &f->entry_capacity, f->n_entries + 1, sizeof *f->entries))
        return &none;
    s->marks[key].form = s->n_forms, s->marks[key].entry = f->n_entries;
    f->entries[f->n_entries] = (struct entry){.key = key};
    return &f->entries[f->n_entries++];
}

static void entries_of(struct object_form *f, uint32_t object)
{
    struct schema *s = f->t->s;
    for (uint32_t c = object ? schema_value(s, object)->first : 0; c; c = schema_value(s, c)->next)
        entry_of(f, key_of_member(s, c));
}

/* First the keys of `properties`, then those that other keywords name. */
static void find_entries(struct object_form *f)
{
    struct schema *s = f->t->s;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        if (g->kind == ATOM_GROUP)
            entries_of(f, sub_find(s, g->a, K_PROPERTIES));
        if (g->kind == ATOM_CONSTANT)
            entries_of(f, g->a);
    }
    for (uint32_t i = 0; i < f->n_facts; i++) {
        struct entry *e = entry_of(f, f->facts[i]->a);
        e->required |= f->facts[i]->kind == ATOM_REQUIRED;
        e->absent |= f->facts[i]->kind == ATOM_ABSENT;
    }
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        if (g->kind == ATOM_HAS)
            entry_of(f, g->a)->required = true;
        if (g->kind == ATOM_CONSTANT)
            for (uint32_t c = schema_value(s, g->a)->first; c; c = schema_value(s, c)->next)
                entry_of(f, key_of_member(s, c))->required = true;
    }
}

static void fill_entry(struct object_form *f, struct entry *e)
{
    struct schema *s = f->t->s;
    e->literals = key_literals(s, f->t->branch.atoms, e->key, e->literals);
    for (uint32_t i = 0; f->has_names && i < f->n_atoms && !s->status; i++) {
        const struct goal *g = f->atoms[i];
        const struct shape_key *k = &s->out->keys[e->key];
        if (g->kind == ATOM_NAMES &&
            !string_matches(s, value_of(s, ALGEBRA_STRING, g->a), s->out->text + k->at, k->n))
            e->absent = true;
    }
}

/* ---- classes ---- */

static bool add_class(struct object_form *f, struct form_class c)
{
    struct schema *s = f->t->s;
    if (f->n_classes == MAX_CLASSES)
        return schema_refuse(s,
                             s->subs[s->literals[s->nodes[f->t->node].literals.first] >> 1].value,
                             "patternProperties", "the patterns overlap in too many ways");
    if (!schema_room(s, &f->classes, &f->class_capacity, f->n_classes + 1, sizeof c))
        return false;
    f->classes[f->n_classes++] = c;
    return true;
}

static uint32_t pattern_index(const struct object_form *f, lang pattern)
{
    uint32_t i = 0;
    while (i < f->n_patterns && f->patterns[i] != pattern)
        i++;
    return i;
}

/* Splits every class by a pattern into keys that match and keys that do not. */
static bool split(struct object_form *f, uint32_t bit)
{
    struct schema *s = f->t->s;
    struct languages *ls = s->languages;
    uint32_t n = f->n_classes;
    lang pattern = f->patterns[bit];
    for (uint32_t i = 0; i < n && schema_step(s, 1); i++) {
        struct form_class in = f->classes[i];
        if (pattern == LANG_CHARS || in.keys == pattern) {
            f->classes[i].matched |= (uint64_t)1 << bit;
            continue;
        }
        in.keys = string_check(s, in.keys == LANG_CHARS ? pattern : lang_and(ls, in.keys, pattern));
        if (string_is_empty(s, in.keys))
            continue;
        in.matched |= (uint64_t)1 << bit;
        f->classes[i].keys =
            string_check(s, lang_and(ls, f->classes[i].keys, lang_not(ls, pattern)));
        if (!add_class(f, in))
            return false;
    }
    return !s->status;
}

static bool add_pattern(struct object_form *f, lang pattern)
{
    struct schema *s = f->t->s;
    if (pattern_index(f, pattern) < f->n_patterns)
        return true;
    if (f->n_patterns == MAX_PATTERNS)
        return schema_refuse(s,
                             s->subs[s->literals[s->nodes[f->t->node].literals.first] >> 1].value,
                             "patternProperties", "more than 64 patterns for one object");
    f->patterns[f->n_patterns++] = pattern;
    return true;
}

/* All patterns are counted before the first one splits. */
static bool split_by_patterns(struct object_form *f)
{
    struct schema *s = f->t->s;
    if (!add_class(f, (struct form_class){.keys = LANG_CHARS}))
        return false;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        uint32_t patterns = g->kind == ATOM_GROUP ? sub_find(s, g->a, K_PATTERN_PROPERTIES) : 0;
        for (uint32_t c = patterns ? schema_value(s, patterns)->first : 0; c;
             c = schema_value(s, c)->next)
            if (!add_pattern(f, key_pattern(s, c)))
                return false;
        if (g->kind == ATOM_EXISTS && !add_pattern(f, g->a))
            return false;
    }
    for (uint32_t i = 0; i < f->n_patterns; i++)
        if (!split(f, i))
            return false;
    return true;
}

/* A sub speaks of the keys of a class: adds what it demands of their values. */
static bool class_group(struct object_form *f, uint32_t sub, struct form_class *c, bool add)
{
    struct schema *s = f->t->s;
    uint32_t patterns = sub_find(s, sub, K_PATTERN_PROPERTIES),
             rest = sub_find(s, sub, K_ADDITIONAL_PROPERTIES);
    bool found = false;
    for (uint32_t p = patterns ? schema_value(s, patterns)->first : 0; p;
         p = schema_value(s, p)->next)
        if (c->matched >> pattern_index(f, key_pattern(s, p)) & 1) {
            found = true;
            if (add)
                c->literals = cell_add(s, c->literals, sub_literal(s, sub, p));
        }
    if (add && !found && rest)
        c->literals = cell_add(s, c->literals, sub_literal(s, sub, rest));
    return found || rest;
}

static void fill_class(struct object_form *f, struct form_class *c)
{
    struct schema *s = f->t->s;
    for (uint32_t i = 0; i < f->n_atoms && !s->status; i++) {
        const struct goal *g = f->atoms[i];
        bool evaluated = false;
        if (g->kind == ATOM_GROUP)
            class_group(f, g->a, c, true);
        if (g->kind == ATOM_CONSTANT)
            c->literals = cell_add(s, c->literals, LITERAL_FALSE);
        if (g->kind == ATOM_NAMES)
            c->keys = value_and(s, ALGEBRA_STRING, c->keys, value_of(s, ALGEBRA_STRING, g->a));
        if (g->kind != ATOM_REST)
            continue;
        for (const struct goal *h = g->next; h && h != g->since; h = h->next)
            if (h->era == g->era)
                evaluated |= h->kind == ATOM_REST ||
                             (h->kind == ATOM_GROUP && class_group(f, h->a, c, false));
        if (!evaluated)
            c->literals = cell_add(s, c->literals, g->a);
    }
}

/* How many keys of the language are not named; SHAPE_NO_LIMIT: more than a few. */
static uint32_t count_keys(struct object_form *f, lang keys)
{
    struct schema *s = f->t->s;
    uint32_t count = key_count(s, keys, f->n_entries);
    for (uint32_t i = 0; count != SHAPE_NO_LIMIT && i < f->n_entries; i++) {
        const struct shape_key *k = &s->out->keys[f->entries[i].key];
        count -= string_matches(s, keys, s->out->text + k->at, k->n);
    }
    return count;
}

static bool find_classes(struct object_form *f)
{
    struct schema *s = f->t->s;
    uint32_t n = 0;
    if (!split_by_patterns(f))
        return false;
    for (uint32_t i = 0; i < f->n_classes && !s->status; i++) {
        struct form_class c = f->classes[i];
        fill_class(f, &c);
        if (node_is_plainly_empty(s, cell_node(s, c.literals)) || string_is_empty(s, c.keys))
            continue;
        c.most = count_keys(f, c.keys);
        if (c.most)
            f->classes[n++] = c;
    }
    f->n_classes = n;
    return !s->status;
}

/* ---- the shape ---- */

static bool add_members(struct object_form *f, struct object_shape *o)
{
    struct schema *s = f->t->s;
    struct shapes *out = s->out;
    o->members.first = out->n_members;
    for (uint32_t i = 0; i < f->n_entries && !s->status; i++) {
        const struct entry *e = &f->entries[i];
        uint32_t node = e->absent ? NODE_NONE : cell_node(s, e->literals);
        if (node_is_plainly_empty(s, node))
            node = NODE_NONE;
        if (node == NODE_NONE && e->required)
            return false;
        if (node == NODE_NONE && !f->n_classes)
            continue;
        if (!schema_room(s, &out->members, &s->member_capacity, out->n_members + 1,
                         sizeof *out->members))
            return false;
        out->members[out->n_members++] = (struct member){e->key, node, e->required};
    }
    o->members.n = out->n_members - o->members.first;
    return !s->status;
}

static bool add_classes(struct object_form *f, struct object_shape *o)
{
    struct schema *s = f->t->s;
    struct shapes *out = s->out;
    o->classes.first = out->n_classes;
    for (uint32_t i = 0; i < f->n_classes && !s->status; i++) {
        const struct form_class *c = &f->classes[i];
        uint32_t node = cell_node(s, c->literals);
        if (node_is_plainly_empty(s, node)) {
            if (c->min)
                return false;
            continue;
        }
        if (!schema_room(s, &out->classes, &s->class_capacity, out->n_classes + 1,
                         sizeof *out->classes))
            return false;
        out->classes[out->n_classes++] = (struct member_class){c->keys, node, c->min, c->most};
    }
    o->classes.n = out->n_classes - o->classes.first;
    return !s->status;
}

static void finish(struct object_form *f)
{
    struct schema *s = f->t->s;
    struct shapes *out = s->out;
    struct object_shape o = {.min = f->min, .max = f->max};
    uint32_t n_members = out->n_members, n_classes = out->n_classes;
    if (add_members(f, &o) && add_classes(f, &o) &&
        schema_room(s, &out->objects, &s->object_capacity, out->n_objects + 1, sizeof o)) {
        for (uint32_t i = 0; i < o.members.n; i++)
            node_use(s, out->members[o.members.first + i].node);
        for (uint32_t i = 0; i < o.classes.n; i++)
            node_use(s, out->classes[o.classes.first + i].node);
        out->objects[out->n_objects++] = o;
    } else {
        out->n_members = n_members, out->n_classes = n_classes;
    }
}

/* Condition i and those behind it: a named key, or one member of a class, has such a value. One member
 * can be what several conditions ask for. The depth is at most MAX_EXISTS. */
static void place_exists(struct object_form *f, uint32_t i)
{
    struct schema *s = f->t->s;
    if (i == f->n_exists) {
        finish(f);
        return;
    }
    const struct goal *g = f->exists[i];
    uint32_t bit = pattern_index(f, g->a), n = f->n_classes;
    for (uint32_t k = 0; k < f->n_entries && schema_step(s, 1); k++) {
        struct entry e = f->entries[k];
        const struct shape_key *key = &s->out->keys[e.key];
        if (!string_matches(s, g->a, s->out->text + key->at, key->n))
            continue;
        f->entries[k].required = true;
        f->entries[k].literals = cell_add(s, e.literals, g->b);
        place_exists(f, i + 1);
        f->entries[k] = e;
    }
    for (uint32_t k = 0; k < n && schema_step(s, 1); k++) {
        struct form_class c = f->classes[k], with = c;
        if (!(c.matched >> bit & 1))
            continue;
        with.literals = cell_add(s, c.literals, g->b);
        with.min = 1;
        if (k >= f->n_base_classes) {
            f->classes[k] = with;
            place_exists(f, i + 1);
            f->classes[k] = c;
        } else if (add_class(f, with)) {
            place_exists(f, i + 1);
            f->n_classes--;
        }
    }
}

static bool add_few_key(void *arg, const char *p, size_t n)
{
    struct object_form *f = arg;
    uint32_t key = key_of_bytes(f->t->s, p, n);
    entry_of(f, key);
    return !f->t->s->status;
}

/* Conditions and classes of few keys do not go together: these keys are named. True: there were some. */
static bool name_few(struct object_form *f)
{
    bool any = false;
    for (uint32_t i = 0; f->n_exists && i < f->n_classes && !f->t->s->status; i++)
        if (f->classes[i].most != SHAPE_NO_LIMIT) {
            any = true;
            if (!lang_each(f->t->s->languages, f->classes[i].keys, add_few_key, f))
                schema_no_budget(f->t->s);
        }
    return any;
}

static bool find_bounds(struct object_form *f)
{
    struct schema *s = f->t->s;
    f->max = SHAPE_NO_LIMIT;
    for (uint32_t i = 0; i < f->n_atoms; i++) {
        const struct goal *g = f->atoms[i];
        f->has_names |= g->kind == ATOM_NAMES;
        if (g->kind == ATOM_MIN && g->a > f->min)
            f->min = g->a;
        if (g->kind == ATOM_MAX && g->a < f->max)
            f->max = g->a;
        if (g->kind != ATOM_EXISTS)
            continue;
        if (f->n_exists == MAX_EXISTS)
            return schema_refuse(
                s, s->subs[s->literals[s->nodes[f->t->node].literals.first] >> 1].value, "not",
                "too many negated keywords of objects");
        f->exists[f->n_exists++] = g;
    }
    return f->min <= f->max;
}

/* A list has the last one first. */
static const struct goal **in_order(struct schema *s, const struct goal *list, uint32_t *n)
{
    for (const struct goal *g = list; g; g = g->next)
        ++*n;
    const struct goal **x = schema_take(s, *n * sizeof *x);
    for (uint32_t i = *n; x && i; list = list->next)
        x[--i] = list;
    return x;
}

void object_emit(struct tableau *t)
{
    struct schema *s = t->s;
    struct chunk_mark mark = schema_mark(s);
    struct object_form f = {.t = t};
    uint32_t i;
    f.atoms = in_order(s, t->branch.atoms, &f.n_atoms);
    f.facts = in_order(s, t->branch.facts, &f.n_facts);
    s->n_forms++;
    if (!s->status && find_bounds(&f)) {
        find_entries(&f);
        if (find_classes(&f) && name_few(&f)) {
            f.n_classes = f.n_patterns = 0;
            find_classes(&f);
        }
        f.n_base_classes = f.n_classes;
        for (i = 0; i < f.n_entries && !s->status; i++)
            fill_entry(&f, &f.entries[i]);
        if (!s->status)
            place_exists(&f, 0);
    }
    budget_free(s->budget, f.entries, f.entry_capacity * sizeof *f.entries);
    budget_free(s->budget, f.classes, f.class_capacity * sizeof *f.classes);
    schema_release(s, mark);
}
