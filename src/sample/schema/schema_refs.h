/* References: $id, $anchor, $dynamicAnchor, $recursiveAnchor, and what $ref points to. */
#ifndef SCHEMA_SCHEMA_REFS_H
#define SCHEMA_SCHEMA_REFS_H

#include "sample/schema/schema_parts.h"

/* Finds the resources and anchors of the document, and its dialect. */
bool refs_open(struct schema *s);
/* The scope inside `value`, entered from `scope`. */
uint32_t scope_enter(struct schema *s, uint32_t scope, uint32_t value);
/* The sub that a reference leads to: `value` is the string of $ref, $dynamicRef or $recursiveRef. */
uint32_t ref_target(struct schema *s, uint32_t scope, uint32_t value);

#endif
