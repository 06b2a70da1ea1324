/* Objects: the keywords of a sub as goals, and the atoms of a finished branch as a shape. */
#ifndef CONSTRAINT_SCHEMA_OBJECT_H
#define CONSTRAINT_SCHEMA_OBJECT_H

#include "sample/constraint/schema_options.h"

void object_take_keyword(struct tableau *t, uint32_t sub, const struct keyword *k);
void object_take_rest(struct tableau *t, const struct goal *g);
void object_negate(struct tableau *t, uint32_t sub, const struct keyword *k);
void object_negate_constant(struct tableau *t, uint32_t value);
/* False: the atom, which was just added, leaves a key that must come without a value. Cheap, and so not
 * complete. */
bool object_may_hold(struct tableau *t, const struct goal *atom);
/* Appends the shapes of the branch's atoms. */
void object_emit(struct tableau *t);

#endif
