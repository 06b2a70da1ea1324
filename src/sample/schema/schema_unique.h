/* Arrays of unique items, where items can take few values: the array ends before they are used up. */
#ifndef SCHEMA_SCHEMA_UNIQUE_H
#define SCHEMA_SCHEMA_UNIQUE_H

#include "sample/schema/schema_parts.h"

/* Lowers the max of unique arrays whose items have few values. live[node]: the node has a value.
 * *changed: some max is lower now. Refuses, or leaves out, what cannot be decided so. */
bool unique_bound(struct schema *s, const bool *live, bool *changed);

#endif
