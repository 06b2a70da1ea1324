/* Objects: the keywords of a sub as goals, and the atoms of a finished branch as a shape. */
#ifndef SCHEMA_SCHEMA_OBJECT_H
#define SCHEMA_SCHEMA_OBJECT_H

#include "sample/schema/schema_options.h"

void object_take_keyword(struct tableau *t, uint32_t sub, const struct keyword *k);
void object_take_rest(struct tableau *t, const struct goal *g);
void object_negate(struct tableau *t, uint32_t sub, const struct keyword *k);
void object_negate_constant(struct tableau *t, uint32_t value);
/* Whether the key comes with such a value, as far as the atoms of the branch say. */
enum truth object_truth(struct tableau *t, uint32_t key, literal x);
/* False: some required key has no value. Cheap, and so not complete. */
bool object_may_hold(struct tableau *t);
/* Appends the shapes of the branch's atoms. */
void object_emit(struct tableau *t);

#endif
