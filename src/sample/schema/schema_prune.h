/* Takes out what no value satisfies, and numbers what is left. */
#ifndef SCHEMA_SCHEMA_PRUNE_H
#define SCHEMA_SCHEMA_PRUNE_H

#include "sample/schema/schema_parts.h"

/* Moves the expanded nodes to s->out, whose root becomes what `root` was; the least fixpoint of "has a
 * value" decides which are left. */
bool prune(struct schema *s, uint32_t root);

#endif
