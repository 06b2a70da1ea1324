/* Values in a notation that cannot write every key. */
#ifndef SCHEMA_SCHEMA_WRITTEN_H
#define SCHEMA_SCHEMA_WRITTEN_H

#include "sample/schema/schema_parts.h"

/* Before the pruning: s->written has, for what s->notation speaks of, the node of the values that can be
 * written. An object has no key there that cannot be written, so what is left can always be finished. */
bool written_nodes(struct schema *s, uint32_t root);

#endif
