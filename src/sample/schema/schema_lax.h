/* What --json-schema-lax must leave out besides: a keyword that counts as kept makes a schema wider only
 * where it is not negated. So the outermost `not`, `if`, `oneOf`, or `contains` with maxContains, that
 * holds such a keyword is left out whole, and what asks which members were evaluated. The schema is then
 * compiled again without them. */
#ifndef SCHEMA_SCHEMA_LAX_H
#define SCHEMA_SCHEMA_LAX_H

#include "sample/schema/schema_parts.h"

/* Values of schema.left */
enum left {
    LEFT_NOTHING,
    LEFT_OPEN /* the keyword counts as kept */,
    LEFT_OUT /* it is not there */
};

/* `member`, a keyword, counts as kept, whatever it says. */
void lax_open(struct schema *s, uint32_t member);
/* Sets s->again where something more is to be left out. The root is a sub. */
void lax_widen(struct schema *s, uint32_t root);

#endif
