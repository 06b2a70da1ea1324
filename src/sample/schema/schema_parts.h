/* What the parts of the schema compiler share: one `struct schema` from schema_compile's begin to its
 * end. It stops at the first error: `status` is set, and every function returns at once. */
#ifndef SCHEMA_SCHEMA_PARTS_H
#define SCHEMA_SCHEMA_PARTS_H

#include "text/json_read.h"
#include "sample/language/numbers.h"
#include "sample/schema/schema.h"

enum dialect { DRAFT_4 = 4, DRAFT_6 = 6, DRAFT_7 = 7, DRAFT_2019 = 8, DRAFT_2020 = 9, DRAFT_ANY };

/* Sets of types; bits of the literals are SHAPE_NULL, SHAPE_TRUE, SHAPE_FALSE. */
enum {
    T_LITERALS = 7,
    T_STRING = 8,
    T_NUMBER = 16,
    T_ARRAY = 32,
    T_OBJECT = 64,
    T_ALL = 127,
};

enum keyword_id { /* in the order of the types they speak of */
                  K_TYPE,
                  K_ENUM,
                  K_CONST,
                  K_ALL_OF,
                  K_ANY_OF,
                  K_ONE_OF,
                  K_NOT,
                  K_IF,
                  K_THEN,
                  K_ELSE,
                  K_REF, /* every kind of reference; `sub` is its target */
                  K_FORMAT,
                  K_PATTERN,
                  K_MIN_LENGTH,
                  K_MAX_LENGTH,
                  K_MINIMUM,
                  K_MAXIMUM,
                  K_EXCLUSIVE_MINIMUM,
                  K_EXCLUSIVE_MAXIMUM,
                  K_MULTIPLE_OF,
                  K_PREFIX_ITEMS,
                  K_ITEMS,
                  K_ADDITIONAL_ITEMS,
                  K_CONTAINS,
                  K_MIN_CONTAINS,
                  K_MAX_CONTAINS,
                  K_MIN_ITEMS,
                  K_MAX_ITEMS,
                  K_UNIQUE_ITEMS,
                  K_UNEVALUATED_ITEMS,
                  K_PROPERTIES,
                  K_PATTERN_PROPERTIES,
                  K_ADDITIONAL_PROPERTIES,
                  K_PROPERTY_NAMES,
                  K_REQUIRED,
                  K_MIN_PROPERTIES,
                  K_MAX_PROPERTIES,
                  K_DEPENDENT_REQUIRED,
                  K_DEPENDENT_SCHEMAS,
                  K_DEPENDENCIES,
                  K_UNEVALUATED_PROPERTIES,
                  K_CONSTANT, /* of a constant: it equals `value` */
                  N_KEYWORDS
};

struct keyword {
    uint8_t id;
    uint32_t value; /* of the document */
    uint32_t sub;   /* K_REF: the target */
};

enum algebra { ALGEBRA_TYPES, ALGEBRA_STRING, ALGEBRA_NUMBER, N_ALGEBRAS };
enum { MEMO_UNSET = 0xfffffffe, MEMO_BUSY = 0xfffffffd };

/* A sub-schema in a dynamic scope; or a constant, which only its value matches. */
struct sub {
    uint32_t value, scope;
    bool constant, read;
    uint8_t n_keywords;
    uint32_t keywords; /* of schema.keywords */
    uint32_t memo[N_ALGEBRAS];
    uint32_t done[2]; /* in branch.done of a tableau: itself, its negation */
};

/* A literal is a sub-schema that must hold, or with NOT that must not. */
typedef uint32_t literal;
#define LITERAL(sub) ((literal)(sub) << 1)
enum { NOT = 1 };
enum { SUB_TRUE, SUB_FALSE, N_FIXED_SUBS };
enum { LITERAL_TRUE = SUB_TRUE << 1, LITERAL_FALSE = SUB_FALSE << 1 };

/* A node: the conjunction of its literals. */
struct conjunction {
    struct stretch literals; /* of schema.literals, ascending */
    bool valued, expanded;
    uint8_t types; /* that it may have */
    struct node shape;
};

struct number_set {
    struct stretch rules; /* of schema.rules: their union */
};

struct resource {
    const char *uri; /* without fragment */
    uint32_t n, value;
};
struct anchor {
    const char *name;
    uint32_t n, value, resource;
    bool dynamic;
};
struct scope { /* the resources entered, outermost last; 0 is the document's alone */
    uint32_t outer, resource;
};

struct chunk {
    struct chunk *older;
    size_t size, used;
};
struct chunk_mark {
    struct chunk *chunk;
    size_t used;
};

struct table_slot {
    uint32_t hash, number; /* 0: empty, else entry + 1 */
};
struct table { /* open addressing */
    struct table_slot *slots;
    uint32_t size, n;
};

struct schema {
    struct budget *budget;
    struct languages *languages; /* of out */
    struct shapes *out;
    struct tern_error *error;
    struct schema_notes *notes;
    enum tern_status status;
    unsigned flags;
    const struct schema_notation *notation; /* NULL: JSON's */
    enum dialect dialect;
    uint32_t depth; /* of sub-schemas that apply to one place: $ref, allOf and so on */
    bool crowded;   /* refused, because conditions combine in too many ways */
    bool loose;     /* the second try, of lax: oneOf is read as anyOf where branches may overlap */
    bool again;     /* more is to be left out: it is to be compiled again */
    unsigned char *left; /* [n_left] of each value: enum left; NULL: nothing was left out */
    uint32_t n_left;
    struct json json;
    struct chunk *chunks;

    struct sub *subs;
    struct keyword *keywords;
    struct conjunction *nodes;
    literal *literals;
    struct number_rule *rules;
    struct number_set *number_sets;
    uint32_t *queue; /* nodes to expand */
    uint32_t n_subs, n_keywords, n_nodes, n_literals, n_rules, n_number_sets, n_queue;
    uint32_t sub_capacity, keyword_capacity, node_capacity, literal_capacity, rule_capacity,
        number_set_capacity, queue_capacity;
    uint32_t
        *written; /* [n_written] of each node from before: its copy; NULL: there is no notation */
    uint32_t n_written;
    struct table sub_table, node_table, key_table, shape_table;

    unsigned char *part;   /* of each value: enum part */
    uint32_t *same;        /* of each value: one that says the same */
    bool dynamic;          /* it has dynamic references */
    uint32_t *resource_at; /* of each value; NULL: one resource */
    struct resource *resources;
    struct anchor *anchors;
    struct scope *scopes;
    uint32_t n_resources, n_anchors, n_scopes;
    uint32_t resource_capacity, anchor_capacity, scope_capacity;

    uint32_t array_capacity, object_capacity, item_capacity, member_capacity, class_capacity,
        key_capacity, text_capacity;
    uint32_t
        *key_of; /* of each value: its key (of a member) or text (of an item) + 1; 0: not asked */
    uint32_t *pattern_of; /* of each member of patternProperties: its language + 1 */
    struct mark {
        uint32_t form, entry;           /* the entry that it has in a form */
        uint32_t required, absent, has; /* atoms of a tableau's branch */
    } * marks;                          /* of each key */
    uint32_t mark_capacity, n_forms;
};

static inline const struct json_value *schema_value(const struct schema *s, uint32_t value)
{
    return &s->json.values[value];
}
static inline const char *schema_text(const struct schema *s, uint32_t value)
{
    return s->json.text + s->json.values[value].text;
}
static inline const char *schema_key(const struct schema *s, uint32_t value)
{
    return s->json.text + s->json.values[value].key;
}

#endif
