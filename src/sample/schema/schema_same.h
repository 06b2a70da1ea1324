/* Which sub-schemas say the same, so that each is compiled once: equal, except for annotations. */
#ifndef SCHEMA_SCHEMA_SAME_H
#define SCHEMA_SCHEMA_SAME_H

#include "sample/schema/schema_parts.h"

/* What a value of the document is. */
enum part { PART_VALUE, PART_SCHEMA, PART_SCHEMAS /* a list or a map of schemas */ };

/* Finds the part of every value, and the keyword of every member of a schema. */
bool parts_open(struct schema *s);
/* Finds equal sub-schemas; after the resources are known. */
bool same_open(struct schema *s);
/* The first sub-schema of the document that says what `value` says. */
uint32_t same_as(const struct schema *s, uint32_t value);

#endif
