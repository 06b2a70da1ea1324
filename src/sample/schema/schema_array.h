/* Arrays: the keywords of a sub as goals, and the atoms of a finished branch as a shape. */
#ifndef SCHEMA_SCHEMA_ARRAY_H
#define SCHEMA_SCHEMA_ARRAY_H

#include "sample/schema/schema_options.h"

void array_take_keyword(struct tableau *t, uint32_t sub, const struct keyword *k);
void array_take_rest(struct tableau *t, const struct goal *g);
void array_negate(struct tableau *t, uint32_t sub, const struct keyword *k);
void array_negate_constant(struct tableau *t, uint32_t value);
/* Appends the shape of the branch's atoms. */
void array_emit(struct tableau *t);

#endif
