/* Keywords: their names, dialects and forms; sub-schemas and literals. */
#include "sample/schema/schema_read.h"

#include "sample/schema/schema_lax.h"
#include "sample/schema/schema_memory.h"
#include "sample/schema/schema_refs.h"
#include "sample/schema/schema_same.h"

#include <string.h>

enum { ALWAYS = DRAFT_4, FOREVER = DRAFT_2020 };

/* Ascending by name. */
static const struct keyword_rule rules[] = {
    {"$dynamicRef", K_REF, FORM_TEXT, DRAFT_2020, FOREVER},
    {"$recursiveRef", K_REF, FORM_TEXT, DRAFT_2019, DRAFT_2019},
    {"$ref", K_REF, FORM_TEXT, ALWAYS, FOREVER},
    {"additionalItems", K_ADDITIONAL_ITEMS, FORM_SCHEMA, ALWAYS, DRAFT_2019},
    {"additionalProperties", K_ADDITIONAL_PROPERTIES, FORM_SCHEMA, ALWAYS, FOREVER},
    {"allOf", K_ALL_OF, FORM_LIST, ALWAYS, FOREVER},
    {"anyOf", K_ANY_OF, FORM_LIST, ALWAYS, FOREVER},
    {"const", K_CONST, FORM_VALUE, DRAFT_6, FOREVER},
    {"contains", K_CONTAINS, FORM_SCHEMA, DRAFT_6, FOREVER},
    {"dependencies", K_DEPENDENCIES, FORM_DEPENDENCIES, ALWAYS, FOREVER},
    {"dependentRequired", K_DEPENDENT_REQUIRED, FORM_KEYS, DRAFT_2019, FOREVER},
    {"dependentSchemas", K_DEPENDENT_SCHEMAS, FORM_MAP, DRAFT_2019, FOREVER},
    {"else", K_ELSE, FORM_SCHEMA, DRAFT_7, FOREVER},
    {"enum", K_ENUM, FORM_VALUES, ALWAYS, FOREVER},
    {"exclusiveMaximum", K_EXCLUSIVE_MAXIMUM, FORM_BOUND, ALWAYS, FOREVER},
    {"exclusiveMinimum", K_EXCLUSIVE_MINIMUM, FORM_BOUND, ALWAYS, FOREVER},
    {"format", K_FORMAT, FORM_TEXT, ALWAYS, FOREVER},
    {"if", K_IF, FORM_SCHEMA, DRAFT_7, FOREVER},
    {"items", K_ITEMS, FORM_SCHEMA_OR_LIST, ALWAYS, FOREVER},
    {"maxContains", K_MAX_CONTAINS, FORM_COUNT, DRAFT_2019, FOREVER},
    {"maxItems", K_MAX_ITEMS, FORM_COUNT, ALWAYS, FOREVER},
    {"maxLength", K_MAX_LENGTH, FORM_COUNT, ALWAYS, FOREVER},
    {"maxProperties", K_MAX_PROPERTIES, FORM_COUNT, ALWAYS, FOREVER},
    {"maximum", K_MAXIMUM, FORM_NUMBER, ALWAYS, FOREVER},
    {"minContains", K_MIN_CONTAINS, FORM_COUNT, DRAFT_2019, FOREVER},
    {"minItems", K_MIN_ITEMS, FORM_COUNT, ALWAYS, FOREVER},
    {"minLength", K_MIN_LENGTH, FORM_COUNT, ALWAYS, FOREVER},
    {"minProperties", K_MIN_PROPERTIES, FORM_COUNT, ALWAYS, FOREVER},
    {"minimum", K_MINIMUM, FORM_NUMBER, ALWAYS, FOREVER},
    {"multipleOf", K_MULTIPLE_OF, FORM_NUMBER, ALWAYS, FOREVER},
    {"not", K_NOT, FORM_SCHEMA, ALWAYS, FOREVER},
    {"oneOf", K_ONE_OF, FORM_LIST, ALWAYS, FOREVER},
    {"pattern", K_PATTERN, FORM_TEXT, ALWAYS, FOREVER},
    {"patternProperties", K_PATTERN_PROPERTIES, FORM_MAP, ALWAYS, FOREVER},
    {"prefixItems", K_PREFIX_ITEMS, FORM_LIST, DRAFT_2020, FOREVER},
    {"properties", K_PROPERTIES, FORM_MAP, ALWAYS, FOREVER},
    {"propertyNames", K_PROPERTY_NAMES, FORM_SCHEMA, DRAFT_6, FOREVER},
    {"required", K_REQUIRED, FORM_TEXTS, ALWAYS, FOREVER},
    {"then", K_THEN, FORM_SCHEMA, DRAFT_7, FOREVER},
    {"type", K_TYPE, FORM_TYPE, ALWAYS, FOREVER},
    {"unevaluatedItems", K_UNEVALUATED_ITEMS, FORM_SCHEMA, DRAFT_2019, FOREVER},
    {"unevaluatedProperties", K_UNEVALUATED_PROPERTIES, FORM_SCHEMA, DRAFT_2019, FOREVER},
    {"uniqueItems", K_UNIQUE_ITEMS, FORM_BOOL, ALWAYS, FOREVER},
};
enum { N_RULES = sizeof rules / sizeof *rules };

const struct keyword_rule *keyword_rule(const struct schema *s, uint32_t member)
{
    const char *key = schema_key(s, member);
    uint32_t n = schema_value(s, member)->n_key;
    size_t from = 0, to = N_RULES;
    while (from < to) {
        size_t middle = (from + to) / 2;
        const char *name = rules[middle].name;
        int order = strncmp(key, name, n);
        if (!order && !name[n])
            return s->dialect == DRAFT_ANY || (rules[middle].since <= (int)s->dialect &&
                                               (int)s->dialect <= rules[middle].until)
                       ? &rules[middle]
                       : NULL;
        if (order > 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

const char *keyword_name(const struct schema *s, const struct keyword *k)
{
    const struct keyword_rule *r = k->id == K_CONSTANT ? NULL : keyword_rule(s, k->value);
    return r ? r->name : "enum";
}

unsigned keyword_types(const struct keyword *k)
{
    if (k->id < K_FORMAT || k->id == K_CONSTANT)
        return T_ALL;
    return k->id < K_MINIMUM        ? T_STRING
           : k->id < K_PREFIX_ITEMS ? T_NUMBER
           : k->id < K_PROPERTIES   ? T_ARRAY
                                    : T_OBJECT;
}

/* ---- forms ---- */

static bool is_schema(const struct schema *s, uint32_t value)
{
    unsigned type = schema_value(s, value)->type;
    return type == JSON_OBJECT || type == JSON_TRUE || type == JSON_FALSE;
}

static bool all_children(const struct schema *s, uint32_t value,
                         bool (*good)(const struct schema *s, uint32_t value))
{
    for (uint32_t c = schema_value(s, value)->first; c; c = schema_value(s, c)->next)
        if (!good(s, c))
            return false;
    return true;
}

static bool is_type(const struct schema *s, uint32_t value, unsigned type)
{
    return schema_value(s, value)->type == type;
}

static bool is_text(const struct schema *s, uint32_t value)
{
    return is_type(s, value, JSON_STRING);
}

static bool is_texts(const struct schema *s, uint32_t value)
{
    return is_type(s, value, JSON_ARRAY) && all_children(s, value, is_text);
}

static bool is_schema_or_texts(const struct schema *s, uint32_t value)
{
    return is_schema(s, value) || is_text(s, value) || is_texts(s, value);
}

static bool is_number(const struct schema *s, uint32_t value)
{
    return is_type(s, value, JSON_NUMBER);
}

static bool is_count(const struct schema *s, uint32_t value)
{
    struct decimal d;
    return is_number(s, value) &&
           decimal_read(schema_text(s, value), schema_value(s, value)->n_text, &d) && !d.negative &&
           d.exponent >= 0;
}

uint32_t sub_count(const struct schema *s, uint32_t value)
{
    struct decimal d;
    uint64_t count = 0;
    if (!decimal_read(schema_text(s, value), schema_value(s, value)->n_text, &d) ||
        d.n + d.exponent > 10)
        return UINT32_MAX - 1;
    for (int i = 0; i < d.n + d.exponent; i++)
        count = count * 10 + (uint64_t)(i < d.n ? d.digits[i] - '0' : 0);
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX - 1;
}

/* NULL, or what the value must be. */
static const char *wrong_form(const struct schema *s, const struct keyword_rule *r, uint32_t value)
{
    bool list = is_type(s, value, JSON_ARRAY);
    bool schemas = list && schema_value(s, value)->n_children && all_children(s, value, is_schema);
    switch ((enum keyword_form)r->form) {
    case FORM_SCHEMA:
        return is_schema(s, value) ? NULL : "must be a schema";
    case FORM_SCHEMA_OR_LIST:
        if (list && s->dialect == DRAFT_2020)
            return "must be a schema; use prefixItems";
        return is_schema(s, value) || (list && all_children(s, value, is_schema))
                   ? NULL
                   : "must be a schema or a list of schemas";
    case FORM_LIST:
        return schemas ? NULL : "must be a list of one or more schemas";
    case FORM_MAP:
        return is_type(s, value, JSON_OBJECT) && all_children(s, value, is_schema)
                   ? NULL
                   : "must be an object of schemas";
    case FORM_DEPENDENCIES:
        return is_type(s, value, JSON_OBJECT) && all_children(s, value, is_schema_or_texts)
                   ? NULL
                   : "must be an object of schemas and lists of keys";
    case FORM_KEYS:
        return is_type(s, value, JSON_OBJECT) && all_children(s, value, is_texts)
                   ? NULL
                   : "must be an object of lists of keys";
    case FORM_TYPE:
        return is_text(s, value) || is_texts(s, value) ? NULL : "must be a type or a list of types";
    case FORM_VALUES:
        return list ? NULL : "must be a list";
    case FORM_TEXT:
        return is_text(s, value) ? NULL : "must be a string";
    case FORM_TEXTS:
        return is_texts(s, value) ? NULL : "must be a list of strings";
    case FORM_COUNT:
        return is_count(s, value) ? NULL : "must be an integer, 0 or more";
    case FORM_BOUND:
        if (!is_number(s, value))
            return is_type(s, value, JSON_TRUE) || is_type(s, value, JSON_FALSE)
                       ? NULL
                       : "must be a number";
        return NULL;
    case FORM_NUMBER:
        return is_number(s, value) ? NULL : "must be a number";
    case FORM_BOOL:
        return is_type(s, value, JSON_TRUE) || is_type(s, value, JSON_FALSE)
                   ? NULL
                   : "must be true or false";
    case FORM_VALUE:
        break;
    }
    return NULL;
}

/* It demands nothing, whatever the instance. */
static bool says_nothing(const struct schema *s, const struct keyword_rule *r, uint32_t value)
{
    switch (r->id) {
    case K_FORMAT:
        return s->flags & SCHEMA_ANNOTATE;
    case K_MIN_LENGTH:
    case K_MIN_ITEMS:
    case K_MIN_PROPERTIES:
        return !sub_count(s, value);
    case K_UNIQUE_ITEMS:
        return is_type(s, value, JSON_FALSE);
    case K_REQUIRED:
    case K_DEPENDENT_REQUIRED:
    case K_DEPENDENT_SCHEMAS:
    case K_DEPENDENCIES:
        return !schema_value(s, value)->n_children;
    default:
        return false;
    }
}

/* ---- subs ---- */

struct sub_name {
    uint32_t value, scope, constant;
};

static bool same_sub(const struct schema *s, uint32_t entry, const void *key, size_t n)
{
    const struct sub_name *k = key;
    const struct sub *x = &s->subs[entry];
    (void)n;
    return x->value == k->value && x->scope == k->scope && x->constant == k->constant;
}

static uint32_t sub_named(struct schema *s, const struct sub_name *name)
{
    struct table_slot *slot = table_find(s, &s->sub_table, name, sizeof *name, same_sub, s->n_subs);
    if (!slot)
        return SUB_FALSE;
    if (slot->number <= s->n_subs)
        return slot->number - 1;
    if (!schema_room(s, &s->subs, &s->sub_capacity, s->n_subs + 1, sizeof *s->subs))
        return SUB_FALSE;
    s->subs[s->n_subs] = (struct sub){.value = name->value,
                                      .scope = name->scope,
                                      .constant = name->constant,
                                      .memo = {MEMO_UNSET, MEMO_UNSET, MEMO_UNSET}};
    return s->n_subs++;
}

uint32_t sub_of(struct schema *s, uint32_t value, uint32_t scope)
{
    const struct json_value *v = schema_value(s, value);
    if (v->type == JSON_TRUE)
        return SUB_TRUE;
    if (v->type != JSON_OBJECT)
        return SUB_FALSE;
    return sub_named(s, &(struct sub_name){same_as(s, value), scope_enter(s, scope, value), false});
}

uint32_t sub_constant(struct schema *s, uint32_t value)
{
    return sub_named(s, &(struct sub_name){same_as(s, value), 0, true});
}

static bool add_keyword(struct schema *s, uint32_t sub, struct keyword k)
{
    if (!schema_room(s, &s->keywords, &s->keyword_capacity, s->n_keywords + 1, sizeof k))
        return false;
    s->keywords[s->n_keywords++] = k;
    s->subs[sub].n_keywords++;
    return true;
}

bool sub_read(struct schema *s, uint32_t sub)
{
    struct sub *x = &s->subs[sub];
    uint32_t value = x->value, scope = x->scope;
    if (x->read || s->status)
        return !s->status;
    x->read = true;
    x->keywords = s->n_keywords;
    if (x->constant)
        return add_keyword(s, sub, (struct keyword){K_CONSTANT, value, 0});
    /* Up to draft 7, what stands beside $ref says nothing. */
    uint32_t ref = s->dialect <= DRAFT_7 ? json_find(&s->json, value, "$ref", 4) : 0;
    uint32_t first = ref ? ref : schema_value(s, value)->first;
    for (uint32_t c = first; c && schema_step(s, 1); c = ref ? 0 : schema_value(s, c)->next) {
        const struct keyword_rule *r = keyword_rule(s, c);
        if (!r)
            continue;
        const char *wrong = wrong_form(s, r, c);
        if (wrong)
            return schema_refuse(s, value, r->name, wrong);
        if (says_nothing(s, r, c) || (s->left && s->left[c] == LEFT_OUT))
            continue;
        if (!add_keyword(s, sub, (struct keyword){r->id, c, 0}))
            return false;
    }
    /* References last: finding a target may read other subs. */
    for (uint32_t i = 0; i < s->subs[sub].n_keywords && !s->status; i++)
        if (sub_keyword(s, sub, i)->id == K_REF) {
            uint32_t target = ref_target(s, scope, sub_keyword(s, sub, i)->value);
            s->keywords[s->subs[sub].keywords + i].sub = target;
        }
    return !s->status;
}

uint32_t sub_find(const struct schema *s, uint32_t sub, enum keyword_id id)
{
    for (uint32_t i = 0; i < s->subs[sub].n_keywords; i++)
        if (sub_keyword(s, sub, i)->id == id)
            return sub_keyword(s, sub, i)->value;
    return 0;
}

literal sub_simplest(struct schema *s, uint32_t x)
{
    uint32_t negative = 0, value = s->subs[x].value;
    literal twice =
        LITERAL_FALSE; /* a `not` in a `not`: it evaluates nothing, unlike what is in it */
    for (uint32_t links = 0; x >= N_FIXED_SUBS && sub_read(s, x); links++) {
        if (!s->subs[x].n_keywords) {
            x = SUB_TRUE;
            break;
        }
        const struct keyword *k = sub_keyword(s, x, 0);
        if (s->subs[x].n_keywords > 1 || (k->id != K_REF && k->id != K_NOT))
            break;
        if (links > s->json.n_values || !schema_step(s, 1))
            return schema_refuse(s, value, keyword_name(s, k), "it leads back to itself"),
                   LITERAL_FALSE;
        if (k->id == K_REF)
            x = k->sub;
        else {
            if (negative && twice == LITERAL_FALSE)
                twice = LITERAL(x) | NOT;
            negative ^= NOT, x = sub_of(s, k->value, s->subs[x].scope);
        }
    }
    if (x < N_FIXED_SUBS)
        return LITERAL(x ^ negative);
    return twice != LITERAL_FALSE ? twice : LITERAL(x) | negative;
}

literal sub_literal(struct schema *s, uint32_t sub, uint32_t value)
{
    return sub_simplest(s, sub_of(s, value, s->subs[sub].scope));
}
