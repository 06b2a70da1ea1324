/* Keys of objects, each known once; and what the groups of an object say of one. */
#ifndef SCHEMA_SCHEMA_KEY_H
#define SCHEMA_SCHEMA_KEY_H

#include "sample/schema/schema_tableau.h"

struct cell { /* a literal in a list */
    literal x;
    struct cell *next;
};

bool keys_open(struct schema *s);
uint32_t key_of_member(struct schema *s, uint32_t member); /* of shapes.keys */
uint32_t key_of_text(struct schema *s, uint32_t text);
uint32_t key_of_bytes(struct schema *s, const char *p, size_t n);

/* The language of a member of patternProperties. */
lang key_pattern(struct schema *s, uint32_t member);
/* How many keys the language has; SHAPE_NO_LIMIT: more than a few besides n. */
uint32_t key_count(struct schema *s, lang keys, uint32_t n);
/* Puts the literals that the atoms demand of a key's value before `list`. */
struct cell *key_literals(struct schema *s, const struct goal *atoms, uint32_t key,
                          struct cell *list);
struct cell *cell_add(struct schema *s, struct cell *list, literal x);
/* The node of the literals. */
uint32_t cell_node(struct schema *s, const struct cell *list);

#endif
