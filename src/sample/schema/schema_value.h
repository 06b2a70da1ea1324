/* What a sub-schema says of scalars. Three algebras share one walk over the keywords:
 *   types    the set of types that it may accept, and of those that it wholly accepts;
 *   strings  a language;
 *   numbers  a union of number rules.
 * The sets of types are exact for null, true and false. */
#ifndef SCHEMA_SCHEMA_VALUE_H
#define SCHEMA_SCHEMA_VALUE_H

#include "sample/schema/schema_parts.h"

/* Types packed: those that may be accepted | those of which all are << 8. */
static inline unsigned types_may(uint32_t types)
{
    return types & T_ALL;
}
static inline unsigned types_full(uint32_t types)
{
    return types >> 8;
}

bool value_open(struct schema *s); /* the fixed subs and number sets */
/* In the algebra's own numbering: types, lang, number set. Anything where `status` is set. */
uint32_t value_of(struct schema *s, enum algebra a, literal x);
/* What one keyword of a sub says. */
uint32_t value_of_keyword(struct schema *s, enum algebra a, uint32_t sub, const struct keyword *k);
uint32_t value_and(struct schema *s, enum algebra a, uint32_t x, uint32_t y);
/* Nothing is in it. */
bool value_is_none(struct schema *s, enum algebra a, uint32_t x);
unsigned value_type(const struct schema *s, uint32_t value); /* T_STRING ... of a JSON value */

#endif
