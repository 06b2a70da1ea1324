/* A JSON text as a tree of values, for schemas and lists of tools. The reader is strict (RFC 8259): a
 * value nested deeper than JSON_DEPTH, a key that comes twice in an object and a lone surrogate are
 * refused. Numbers keep their text. It does not recurse. */
#ifndef TEXT_JSON_READ_H
#define TEXT_JSON_READ_H

#include "base/budget.h"

#include <string.h>

enum { JSON_DEPTH = 64 };
enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/* Values are numbered in the order of the text: 0 is the root, so that 0 also means "none" where a
 * child is asked for. Texts are places in json.text. */
struct json_value {
    uint8_t type;
    uint32_t text, n_text;  /* a number as written; a string unescaped, UTF-8, maybe with NUL */
    uint32_t key, n_key;    /* of a member of an object, unescaped */
    uint32_t parent, index; /* it is child number `index` of parent */
    uint32_t first, next;   /* the first child, the next child of the same parent; 0: none */
    uint32_t n_children;
    uint32_t from, to; /* where it stands in what was read: p[from .. to) */
};

struct json {
    struct json_value *values; /* [n_values] */
    char *text;
    uint32_t *table; /* members by parent and key: open addressing, 0 is empty */
    struct budget *budget;
    uint32_t n_values, value_capacity, n_text, text_capacity, n_keys, table_size;
};

/* Reads p[0..n), which has one value and blanks around it. The tree takes its memory from the budget,
 * which is borrowed until close. On an error (TERN_USAGE with the place; TERN_LIMIT; TERN_NO_MEMORY)
 * there is nothing to close. `what` begins the sentence of an error. */
enum tern_status json_read(struct json *out, const char *p, size_t n, const char *what,
                           struct budget *budget, struct tern_error *e);
void json_close(struct json *j); /* a zeroed one is fine */

/* The member of `object` whose key is key[0..n), or 0. Any other type has no members. */
uint32_t json_find(const struct json *j, uint32_t object, const char *key, size_t n);

/* The member of that name; of none (0), and of other types, 0. */
static inline uint32_t json_member(const struct json *j, uint32_t object, const char *name)
{
    return object ? json_find(j, object, name, strlen(name)) : 0;
}

/* Value v, if it is one, is a string that equals `text`. */
static inline bool json_is(const struct json *j, uint32_t v, const char *text)
{
    const struct json_value *x = &j->values[v];
    return v && x->type == JSON_STRING && x->n_text == strlen(text) &&
           memcmp(j->text + x->text, text, x->n_text) == 0;
}

/* Where value v stands, as a JSON pointer behind '#', such as "#/properties/a~1b/enum/0"; cut where it
 * does not fit room bytes with their end. Control characters become '?'. */
void json_place(const struct json *j, uint32_t v, char *out, size_t room);

#endif
