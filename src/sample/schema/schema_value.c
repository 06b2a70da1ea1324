/* One walk over keywords for three algebras: see schema_value.h. */
#include "sample/schema/schema_value.h"

#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_number.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_string.h"

#include <string.h>

enum { MAX_DEPTH = 128 }; /* sub-schemas that apply to one place, one inside the other */

static uint32_t all_of(enum algebra a)
{
    return a == ALGEBRA_TYPES ? T_ALL << 8 | T_ALL : a == ALGEBRA_STRING ? LANG_CHARS : NUMBERS_ALL;
}

static uint32_t none_of(enum algebra a)
{
    return a == ALGEBRA_TYPES ? 0 : a == ALGEBRA_STRING ? LANG_NONE : NUMBERS_NONE;
}

bool value_open(struct schema *s)
{
    if (!schema_room(s, &s->subs, &s->sub_capacity, N_FIXED_SUBS, sizeof *s->subs) ||
        !numbers_open_sets(s))
        return false;
    for (; s->n_subs < N_FIXED_SUBS; s->n_subs++) {
        struct sub *x = &s->subs[s->n_subs];
        *x = (struct sub){.read = true};
        for (enum algebra a = 0; a < N_ALGEBRAS; a++)
            x->memo[a] = s->n_subs == SUB_TRUE ? all_of(a) : none_of(a);
    }
    return true;
}

uint32_t value_and(struct schema *s, enum algebra a, uint32_t x, uint32_t y)
{
    if (a == ALGEBRA_TYPES)
        return x & y;
    if (x == all_of(a) || y == none_of(a) || x == y)
        return y;
    if (y == all_of(a) || x == none_of(a))
        return x;
    return a == ALGEBRA_STRING ? string_check(s, lang_and(s->languages, x, y))
                               : numbers_and(s, x, y);
}

static uint32_t value_or(struct schema *s, enum algebra a, uint32_t x, uint32_t y)
{
    if (a == ALGEBRA_TYPES)
        return x | y;
    if (x == all_of(a) || y == none_of(a) || x == y)
        return x;
    if (y == all_of(a) || x == none_of(a))
        return y;
    return a == ALGEBRA_STRING ? string_check(s, lang_or(s->languages, x, y)) : numbers_or(s, x, y);
}

static uint32_t value_not(struct schema *s, enum algebra a, uint32_t x)
{
    if (a == ALGEBRA_TYPES)
        return (~types_full(x) & T_ALL) | (~types_may(x) & T_ALL) << 8;
    if (x == all_of(a) || x == none_of(a))
        return x == all_of(a) ? none_of(a) : all_of(a);
    return a == ALGEBRA_STRING
               ? string_check(s, lang_and(s->languages, LANG_CHARS, lang_not(s->languages, x)))
               : numbers_not(s, x);
}

static uint32_t value_minus(struct schema *s, enum algebra a, uint32_t x, uint32_t y)
{
    return a == ALGEBRA_NUMBER ? numbers_minus(s, x, y) : value_and(s, a, x, value_not(s, a, y));
}

bool value_is_none(struct schema *s, enum algebra a, uint32_t x)
{
    if (a == ALGEBRA_STRING && x != LANG_NONE && x != LANG_CHARS)
        return string_is_empty(s, x);
    return a == ALGEBRA_TYPES ? !types_may(x) : x == none_of(a);
}

/* No value is in both. */
static bool value_disjoint(struct schema *s, enum algebra a, uint32_t x, uint32_t y)
{
    return value_is_none(s, a, value_and(s, a, x, y));
}

unsigned value_type(const struct schema *s, uint32_t value)
{
    static const unsigned char types[] = {
        [JSON_NULL] = SHAPE_NULL, [JSON_FALSE] = SHAPE_FALSE, [JSON_TRUE] = SHAPE_TRUE,
        [JSON_NUMBER] = T_NUMBER, [JSON_STRING] = T_STRING,   [JSON_ARRAY] = T_ARRAY,
        [JSON_OBJECT] = T_OBJECT,
    };
    return types[schema_value(s, value)->type];
}

/* ---- keywords of types ---- */

static unsigned named_type(struct schema *s, uint32_t sub, uint32_t value, unsigned *full)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {
        {"null", SHAPE_NULL},  {"boolean", SHAPE_TRUE | SHAPE_FALSE},
        {"string", T_STRING},  {"number", T_NUMBER},
        {"integer", T_NUMBER}, {"array", T_ARRAY},
        {"object", T_OBJECT},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (schema_value(s, value)->n_text == strlen(names[i].name) &&
            !memcmp(schema_text(s, value), names[i].name, strlen(names[i].name))) {
            *full |= strcmp(names[i].name, "integer") ? names[i].types : 0;
            return names[i].types;
        }
    schema_refuse(s, s->subs[sub].value, "type", "there is no such type");
    return 0;
}

static uint32_t types_keyword(struct schema *s, uint32_t sub, const struct keyword *k)
{
    unsigned may = 0, full = 0;
    const struct json_value *v = schema_value(s, k->value);
    switch (k->id) {
    case K_TYPE:
        if (v->type == JSON_STRING)
            may = named_type(s, sub, k->value, &full);
        for (uint32_t c = v->type == JSON_ARRAY ? v->first : 0; c; c = schema_value(s, c)->next)
            may |= named_type(s, sub, c, &full);
        return may | full << 8;
    case K_ENUM:
        for (uint32_t c = v->first; c; c = schema_value(s, c)->next)
            may |= value_type(s, c);
        return may | (may & T_LITERALS) << 8;
    case K_CONST:
    case K_CONSTANT:
        may = value_type(s, k->value);
        return may | (may & T_LITERALS) << 8;
    default:
        return T_ALL | (T_ALL & ~keyword_types(k)) << 8;
    }
}

/* ---- all keywords ---- */

static uint32_t child_of(struct schema *s, enum algebra a, uint32_t sub, uint32_t value)
{
    return value_of(s, a, sub_literal(s, sub, value));
}

/* Strings are united at once: one by one, each union would be made again. */
static lang any_string(struct schema *s, uint32_t sub, uint32_t list)
{
    lang *all = schema_take(s, schema_value(s, list)->n_children * sizeof *all);
    size_t n = 0;
    for (uint32_t c = all ? schema_value(s, list)->first : 0; c && !s->status;
         c = schema_value(s, c)->next)
        all[n++] = child_of(s, ALGEBRA_STRING, sub, c);
    return s->status ? LANG_NONE : string_check(s, lang_or_all(s->languages, all, n));
}

static uint32_t any_of(struct schema *s, enum algebra a, uint32_t sub, uint32_t list)
{
    uint32_t any = none_of(a);
    if (a == ALGEBRA_STRING)
        return any_string(s, sub, list);
    for (uint32_t c = schema_value(s, list)->first; c; c = schema_value(s, c)->next)
        any = value_or(s, a, any, child_of(s, a, sub, c));
    return any;
}

/* No number is in two of the list. */
static bool numbers_do_not_meet(struct schema *s, uint32_t sub, uint32_t list)
{
    struct chunk_mark mark = schema_mark(s);
    uint32_t n = 0, *all = schema_take(s, schema_value(s, list)->n_children * sizeof *all);
    for (uint32_t c = all ? schema_value(s, list)->first : 0; c && !s->status;
         c = schema_value(s, c)->next)
        all[n++] = child_of(s, ALGEBRA_NUMBER, sub, c);
    bool apart = numbers_apart(s, all, n);
    schema_release(s, mark);
    return apart;
}

static uint32_t one_of(struct schema *s, enum algebra a, uint32_t sub, uint32_t list)
{
    uint32_t any = none_of(a), one = none_of(a);
    if (a == ALGEBRA_NUMBER && numbers_do_not_meet(s, sub, list))
        return any_of(s, a, sub, list);
    for (uint32_t c = schema_value(s, list)->first; c && !s->status; c = schema_value(s, c)->next) {
        uint32_t x = child_of(s, a, sub, c);
        if (value_disjoint(s, a, any, x))
            one = value_or(s, a, one, x);
        else
            one = value_or(s, a, value_minus(s, a, one, x), value_minus(s, a, x, any));
        any = value_or(s, a, any, x);
    }
    return one;
}

static uint32_t if_then_else(struct schema *s, enum algebra a, uint32_t sub, uint32_t condition)
{
    uint32_t then = sub_find(s, sub, K_THEN), other = sub_find(s, sub, K_ELSE);
    if (!then && !other)
        return all_of(a);
    uint32_t x = child_of(s, a, sub, condition);
    uint32_t y = then ? child_of(s, a, sub, then) : all_of(a);
    uint32_t z = other ? child_of(s, a, sub, other) : all_of(a);
    return value_or(s, a, value_and(s, a, x, y), value_and(s, a, value_not(s, a, x), z));
}

uint32_t value_of_keyword(struct schema *s, enum algebra a, uint32_t sub, const struct keyword *k)
{
    uint32_t x = all_of(a);
    switch (k->id) {
    case K_ALL_OF:
        for (uint32_t c = schema_value(s, k->value)->first; c; c = schema_value(s, c)->next)
            x = value_and(s, a, x, child_of(s, a, sub, c));
        return x;
    case K_ANY_OF:
        return any_of(s, a, sub, k->value);
    case K_ONE_OF:
        return one_of(s, a, sub, k->value);
    case K_NOT:
        return value_not(s, a, child_of(s, a, sub, k->value));
    case K_IF:
        return if_then_else(s, a, sub, k->value);
    case K_THEN:
    case K_ELSE:
        return x;
    case K_REF:
        return value_of(s, a, LITERAL(k->sub));
    default:
        return a == ALGEBRA_TYPES    ? types_keyword(s, sub, k)
               : a == ALGEBRA_STRING ? string_keyword(s, sub, k)
                                     : numbers_keyword(s, sub, k);
    }
}

static uint32_t sub_value(struct schema *s, enum algebra a, uint32_t sub)
{
    static const unsigned type_of[] = {[ALGEBRA_STRING] = T_STRING, [ALGEBRA_NUMBER] = T_NUMBER};
    uint32_t memo = s->subs[sub].memo[a], x = all_of(a);
    if (memo == MEMO_BUSY)
        return schema_refuse(s, s->subs[sub].value, "$ref", "it leads back to itself"), x;
    if (memo != MEMO_UNSET || !sub_read(s, sub) || !schema_step(s, 1))
        return memo;
    if (a != ALGEBRA_TYPES) { /* types are asked first: they find circles, and say much */
        uint32_t types = sub_value(s, ALGEBRA_TYPES, sub);
        if (!(types_may(types) & type_of[a]))
            return s->subs[sub].memo[a] = none_of(a);
        if (types_full(types) & type_of[a])
            return s->subs[sub].memo[a] = x;
    }
    if (s->depth == MAX_DEPTH)
        return schema_refuse(s, s->subs[sub].value, "$ref", "too many sub-schemas apply at once"),
               x;
    s->depth++;
    s->subs[sub].memo[a] = MEMO_BUSY;
    for (uint32_t i = 0; i < s->subs[sub].n_keywords && !s->status; i++) {
        struct keyword k = *sub_keyword(s, sub, i);
        x = value_and(s, a, x, value_of_keyword(s, a, sub, &k));
    }
    s->depth--;
    return s->subs[sub].memo[a] = x;
}

uint32_t value_of(struct schema *s, enum algebra a, literal x)
{
    if (s->status)
        return none_of(a);
    uint32_t value = sub_value(s, a, x >> 1);
    return x & NOT ? value_not(s, a, value) : value;
}
