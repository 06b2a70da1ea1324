/* One sub-schema becomes a table of keywords, checked for form. */
#ifndef SCHEMA_SCHEMA_READ_H
#define SCHEMA_SCHEMA_READ_H

#include "sample/schema/schema_parts.h"

/* How a keyword's value is built; FORM_SCHEMA to FORM_DEPENDENCIES hold sub-schemas. */
enum keyword_form {
    FORM_SCHEMA,
    FORM_SCHEMA_OR_LIST,
    FORM_LIST,
    FORM_MAP,
    FORM_DEPENDENCIES, /* a map of schemas and of lists of keys */
    FORM_KEYS,         /* a map of lists of keys */
    FORM_TYPE,
    FORM_VALUE,
    FORM_VALUES,
    FORM_TEXT,
    FORM_TEXTS,
    FORM_COUNT,
    FORM_NUMBER,
    FORM_BOUND, /* a number; in draft 4 true or false */
    FORM_BOOL,
};
struct keyword_rule {
    const char *name;
    uint8_t id, form, since, until; /* dialects */
};
/* The rule of a member of a schema, or NULL: it says nothing in this dialect. */
const struct keyword_rule *keyword_rule(const struct schema *s, uint32_t member);
const char *keyword_name(const struct schema *s, const struct keyword *k);
/* The types that it limits. */
unsigned keyword_types(const struct keyword *k);

/* The number of the sub-schema `value` in a scope; SUB_FALSE too where `status` is set. */
uint32_t sub_of(struct schema *s, uint32_t value, uint32_t scope);
/* The same for what equals `value`. */
uint32_t sub_constant(struct schema *s, uint32_t value);
/* A sub as a literal. What only refers to another, or negates one, is that one. */
literal sub_simplest(struct schema *s, uint32_t sub);
/* The same of a sub-schema of `sub`. */
literal sub_literal(struct schema *s, uint32_t sub, uint32_t value);
/* Fills the keywords of a sub. */
bool sub_read(struct schema *s, uint32_t sub);
/* Keyword `id` of a sub that was read; its value, or 0. */
uint32_t sub_find(const struct schema *s, uint32_t sub, enum keyword_id id);
static inline const struct keyword *sub_keyword(const struct schema *s, uint32_t sub, uint32_t i)
{
    return &s->keywords[s->subs[sub].keywords + i];
}

/* The integer of a FORM_COUNT, at most UINT32_MAX - 1. */
uint32_t sub_count(const struct schema *s, uint32_t value);

#endif
