/* Unions of number rules: see schema_number.h. */
#include "sample/schema/schema_number.h"

#include "sample/schema/schema_lax.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_read.h"
#include "sample/schema/schema_string.h"

#include <stdlib.h>
#include <string.h>

enum { PAIR_STEPS = 20 }; /* of the common numbers of two rules */

static uint32_t add_set(struct schema *s, struct stretch rules)
{
    if (!schema_room(s, &s->number_sets, &s->number_set_capacity, s->n_number_sets + 1,
                     sizeof *s->number_sets))
        return NUMBERS_NONE;
    s->number_sets[s->n_number_sets] = (struct number_set){rules};
    return s->n_number_sets++;
}

/* The rules appended since `first`, as a set. */
static uint32_t set_since(struct schema *s, uint32_t first)
{
    static const struct number_rule every;
    if (s->status || first == s->n_rules)
        return NUMBERS_NONE;
    for (uint32_t i = first; i < s->n_rules; i++)
        if (!memcmp(&s->rules[i], &every, sizeof every))
            return s->n_rules = first, NUMBERS_ALL;
    return add_set(s, (struct stretch){first, s->n_rules - first});
}

/* Appends a rule unless it has no number. */
static bool add_rule(struct schema *s, const struct number_rule *r)
{
    if (number_is_empty(r))
        return true;
    if (!schema_step(s, 1) ||
        !schema_room(s, &s->rules, &s->rule_capacity, s->n_rules + 1, sizeof *s->rules))
        return false;
    s->rules[s->n_rules++] = *r;
    return true;
}

bool numbers_open_sets(struct schema *s)
{
    static const struct number_rule every;
    if (!add_rule(s, &every) ||
        !schema_room(s, &s->number_sets, &s->number_set_capacity, 2, sizeof *s->number_sets))
        return false;
    s->number_sets[NUMBERS_NONE] = (struct number_set){{0, 0}};
    s->number_sets[NUMBERS_ALL] = (struct number_set){{0, 1}};
    s->n_number_sets = 2;
    return true;
}

static bool too_large(struct schema *s)
{
    if (!s->status)
        s->status = error_set(s->error, TERN_USAGE,
                              "schema: multipleOf at #: together with others it grows too large");
    return false;
}

/* The bounds say so. */
static bool ends_before(const struct number_rule *a, const struct number_rule *b)
{
    int order = a->has_hi && b->has_lo ? decimal_compare(&a->hi, &b->lo) : 1;
    return order < 0 || (!order && (a->open_hi || b->open_lo));
}

static bool are_apart(const struct number_rule *a, const struct number_rule *b)
{
    return ends_before(a, b) || ends_before(b, a);
}

/* Appends each pair's common numbers. */
static bool add_pairs(struct schema *s, struct stretch x, const struct number_rule *y, uint32_t n)
{
    struct number_rule both;
    for (uint32_t i = 0; i < x.n; i++)
        for (uint32_t k = 0; k < n; k++) {
            const struct number_rule *a = &s->rules[x.first + i], *b = &y[k];
            if (!schema_step(s, 1))
                return false;
            if (are_apart(a, b))
                continue;
            if (!schema_step(s, PAIR_STEPS))
                return false;
            if (!number_and(a, b, &both))
                return too_large(s);
            if (!add_rule(s, &both))
                return false;
        }
    return true;
}

uint32_t numbers_and(struct schema *s, uint32_t x, uint32_t y)
{
    if (s->status)
        return NUMBERS_NONE;
    struct stretch a = s->number_sets[x].rules, b = s->number_sets[y].rules;
    uint32_t first = s->n_rules;
    for (uint32_t k = 0; k < b.n; k++) {
        struct number_rule r = s->rules[b.first + k];
        if (!add_pairs(s, a, &r, 1))
            break;
    }
    return set_since(s, first);
}

struct owned_rule {
    const struct number_rule *rule;
    uint32_t owner;
};

static int compare_lows(const void *x, const void *y)
{
    const struct number_rule *a = ((const struct owned_rule *)x)->rule,
                             *b = ((const struct owned_rule *)y)->rule;
    if (!a->has_lo || !b->has_lo)
        return a->has_lo - b->has_lo;
    return decimal_compare(&a->lo, &b->lo);
}

bool numbers_apart(struct schema *s, const uint32_t *sets, uint32_t n)
{
    struct chunk_mark mark = schema_mark(s);
    uint64_t n_rules = 0;
    uint32_t at = 0;
    bool apart = true;
    for (uint32_t i = 0; i < n && !s->status; i++)
        n_rules += s->number_sets[sets[i]].rules.n;
    struct owned_rule *all =
        schema_step(s, 16 * n_rules) ? schema_take(s, n_rules * sizeof *all) : NULL;
    if (!all)
        return false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s->number_sets[sets[i]].rules.n; k++)
            all[at++] = (struct owned_rule){&s->rules[s->number_sets[sets[i]].rules.first + k], i};
    qsort(all, at, sizeof *all, compare_lows);
    const struct owned_rule *last = all; /* of those before: that with the highest end */
    for (uint32_t i = 1; i < at && apart; i++) {
        apart = last->owner == all[i].owner || ends_before(last->rule, all[i].rule);
        if (last->rule->has_hi &&
            (!all[i].rule->has_hi || decimal_compare(&last->rule->hi, &all[i].rule->hi) <= 0))
            last = &all[i];
    }
    schema_release(s, mark);
    return apart;
}

uint32_t numbers_or(struct schema *s, uint32_t x, uint32_t y)
{
    if (s->status)
        return NUMBERS_NONE;
    struct stretch parts[] = {s->number_sets[x].rules, s->number_sets[y].rules};
    uint32_t first = s->n_rules;
    if (parts[0].n && parts[1].n && parts[0].first + parts[0].n == parts[1].first)
        return add_set(s, (struct stretch){parts[0].first, parts[0].n + parts[1].n});
    for (int p = 0; p < 2; p++)
        for (uint32_t i = 0; i < parts[p].n; i++) {
            struct number_rule r = s->rules[parts[p].first + i];
            if (!add_rule(s, &r))
                break;
        }
    return set_since(s, first);
}

/* Appends what of the rules `left` is not in `r`. */
static bool add_without(struct schema *s, struct stretch left, const struct number_rule *r)
{
    struct number_rule not [NUMBER_NOT_MOST];
    uint32_t n = number_not(r, not );
    for (uint32_t i = 0; i < left.n; i++) {
        struct number_rule one = s->rules[left.first + i];
        if (are_apart(&one, r) ? !add_rule(s, &one)
                               : !add_pairs(s, (struct stretch){left.first + i, 1}, not, n))
            return false;
    }
    return true;
}

uint32_t numbers_minus(struct schema *s, uint32_t x, uint32_t y)
{
    if (s->status)
        return NUMBERS_NONE;
    const struct stretch all = s->number_sets[x].rules, rules = s->number_sets[y].rules;
    struct stretch left = all;
    for (uint32_t i = 0; i < rules.n && schema_step(s, left.n + (uint64_t)1); i++) {
        const struct number_rule r = s->rules[rules.first + i];
        uint32_t first = s->n_rules, k = 0;
        while (k < left.n && are_apart(&s->rules[left.first + k], &r))
            k++;
        if (k == left.n)
            continue;
        if (!add_without(s, left, &r))
            break;
        left = (struct stretch){first, s->n_rules - first};
    }
    return s->status || !left.n      ? NUMBERS_NONE
           : left.first == all.first ? x
                                     : set_since(s, left.first);
}

uint32_t numbers_not(struct schema *s, uint32_t x)
{
    return numbers_minus(s, NUMBERS_ALL, x);
}

/* ---- keywords ---- */

/* False. A constant is refused, any other keyword may be left out. */
static bool cannot(struct schema *s, const struct keyword *k, const char *reason)
{
    uint32_t parent = schema_value(s, k->value)->parent;
    if (k->id == K_ENUM || k->id == K_CONST || k->id == K_CONSTANT)
        schema_refuse(s, parent, keyword_name(s, k), reason);
    else if (schema_leave_out(s, parent, keyword_name(s, k), reason))
        lax_open(s, k->value);
    return false;
}

static bool read_number(struct schema *s, const struct keyword *k, uint32_t value,
                        struct decimal *d)
{
    return decimal_read(schema_text(s, value), schema_value(s, value)->n_text, d) ||
           cannot(s, k, "the number has more than 64 digits, or an exponent beyond 9999");
}

/* r says what keyword k does. False: no number that has a text. */
static bool can_write(struct schema *s, const struct keyword *k, const struct number_rule *r)
{
    return !number_is_empty(r) ||
           cannot(s, k,
                  "no number that is written here fits: those above 64 digits end at "
                  "1.7976931348623157e308, those near 0 at 5e-324");
}

static uint32_t constants(struct schema *s, const struct keyword *k)
{
    uint32_t first = s->n_rules;
    bool list = k->id == K_ENUM;
    for (uint32_t c = list ? schema_value(s, k->value)->first : k->value; c && !s->status;
         c = list ? schema_value(s, c)->next : 0) {
        struct decimal d;
        struct number_rule r = {0};
        if (schema_value(s, c)->type != JSON_NUMBER || !read_number(s, k, c, &d))
            continue;
        number_point(&r, &d);
        if (can_write(s, k, &r))
            add_rule(s, &r);
    }
    return set_since(s, first);
}

static bool says_integer(const struct schema *s, uint32_t value)
{
    const struct json_value *v = schema_value(s, value);
    return v->n_text == 7 && !memcmp(schema_text(s, value), "integer", 7);
}

/* `minimum` and its like; a multiple. */
static bool rule_of(struct schema *s, uint32_t sub, const struct keyword *k, struct number_rule *r)
{
    bool low = k->id == K_MINIMUM || k->id == K_EXCLUSIVE_MINIMUM;
    bool exclusive = k->id == K_EXCLUSIVE_MINIMUM || k->id == K_EXCLUSIVE_MAXIMUM;
    struct decimal d;
    if (schema_value(s, k->value)->type != JSON_NUMBER)
        return true; /* draft 4: true or false */
    if (!read_number(s, k, k->value, &d))
        return false;
    if (k->id == K_MULTIPLE_OF)
        return unit_read(&d, &r->multiple_of) ||
               cannot(s, k, "it must be positive, with at most 17 digits and 63 decimal places");
    uint32_t other = sub_find(s, sub, low ? K_EXCLUSIVE_MINIMUM : K_EXCLUSIVE_MAXIMUM);
    bool open = exclusive || (other && schema_value(s, other)->type == JSON_TRUE);
    if (low)
        r->has_lo = true, r->open_lo = open, r->lo = d;
    else
        r->has_hi = true, r->open_hi = open, r->hi = d;
    return can_write(s, k, r);
}

uint32_t numbers_keyword(struct schema *s, uint32_t sub, const struct keyword *k)
{
    static const struct number_rule every;
    struct number_rule r = every;
    const struct json_value *v = schema_value(s, k->value);
    bool integer = false, number = false;
    uint32_t first = s->n_rules;
    switch (k->id) {
    case K_ENUM:
    case K_CONST:
    case K_CONSTANT:
        return constants(s, k);
    case K_TYPE: /* one of its types is a number */
        for (uint32_t c = v->type == JSON_ARRAY ? v->first : k->value; c;
             c = v->type == JSON_ARRAY ? schema_value(s, c)->next : 0) {
            integer |= says_integer(s, c);
            number |= schema_value(s, c)->n_text == 6 && !memcmp(schema_text(s, c), "number", 6);
        }
        if (integer && !number)
            r.multiple_of.count = 1;
        else if (!number)
            return NUMBERS_NONE;
        break;
    case K_MINIMUM:
    case K_MAXIMUM:
    case K_EXCLUSIVE_MINIMUM:
    case K_EXCLUSIVE_MAXIMUM:
    case K_MULTIPLE_OF:
        if (!rule_of(s, sub, k, &r))
            return s->status ? NUMBERS_NONE : NUMBERS_ALL;
        break;
    default:
        return NUMBERS_ALL;
    }
    return add_rule(s, &r) ? set_since(s, first) : NUMBERS_NONE;
}

lang numbers_language(struct schema *s, uint32_t set)
{
    if (s->status || set == NUMBERS_NONE)
        return LANG_NONE;
    struct stretch rules = s->number_sets[set].rules;
    struct chunk_mark mark = schema_mark(s);
    lang *all = schema_take(s, (rules.n + (size_t)1) * sizeof *all);
    struct lang_span *texts = schema_take(s, rules.n * sizeof *texts);
    char *bytes = schema_take(s, rules.n * (size_t)NUMBER_TEXT);
    uint32_t n = 0, n_texts = 0;
    for (uint32_t i = 0; bytes && i < rules.n; i++) {
        const struct number_rule *r = &s->rules[rules.first + i];
        char *text = bytes + i * (size_t)NUMBER_TEXT;
        size_t length;
        if (number_text(r, text, &length))
            texts[n_texts++] = (struct lang_span){text, length};
        else
            all[n++] = numbers_lang(s->languages, r);
    }
    if (bytes)
        all[n++] = lang_texts(s->languages, texts, n_texts);
    lang x = bytes ? string_check(s, lang_or_all(s->languages, all, n)) : LANG_NONE;
    schema_release(s, mark);
    return x;
}
