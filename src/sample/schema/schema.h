/* A JSON schema's text becomes shapes. Draft 2020-12, and the spelling of drafts 4 to 2019-09.
 *
 * A keyword that cannot be kept exactly is refused: "schema: KEYWORD at #/place: reason". With
 * SCHEMA_LAX it is left out instead, and listed: it counts as kept, and what comes out may break it. Where
 * it is negated, what negates it is left out (schema_lax.h): lax never makes a schema stricter.
 *
 * Besides the budget, these bounds hold; past them a schema is refused:
 *   depth of the text                                            64 (JSON_DEPTH)
 *   sub-schemas that apply to one value, one inside the other   128
 *   shapes of one node: ways in which its conditions combine    700
 *   branches of anyOf beside unevaluated...                       8
 *   patternProperties that meet in one object                    64, and 128 sets of keys
 *   negated conditions on keys of one object                      8
 *   `contains` that meet in one array                             4, and 256 counts in all
 *   minItems of a unique array                                 1024 */
#ifndef SCHEMA_SCHEMA_H
#define SCHEMA_SCHEMA_H

#include "sample/schema/shape.h"

enum {
    SCHEMA_LAX = 1,
    SCHEMA_ANNOTATE = 2, /* `format` says nothing */
};

/* How the members' values are written in the objects of the first n items of a list, the schema
 * {"prefixItems": [...]}: with no other keys than these. Values with others cannot be written. */
struct schema_notation {
    lang (*keys)(struct languages *ls);
    uint32_t n;
};

/* The sentences of what was left out, each ending in NUL. */
struct schema_notes {
    char *text; /* [n] of [capacity]; owned by the caller: free() */
    size_t n, capacity;
};

/* `budget` is borrowed until shapes_free; notation and notes may be NULL. TERN_USAGE: the schema is refused;
 * TERN_LIMIT: the budget is too small for it. */
enum tern_status schema_compile(struct shapes *out, const char *text, size_t n, unsigned flags,
                                const struct schema_notation *notation, struct budget *budget,
                                struct schema_notes *notes, struct tern_error *e);

#endif
