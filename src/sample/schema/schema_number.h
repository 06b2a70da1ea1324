/* Keywords of numbers. A set of numbers is a union of rules. */
#ifndef SCHEMA_SCHEMA_NUMBER_H
#define SCHEMA_SCHEMA_NUMBER_H

#include "sample/schema/schema_parts.h"

enum { NUMBERS_NONE = 0, NUMBERS_ALL = 1 };

bool numbers_open_sets(struct schema *s);
uint32_t numbers_and(struct schema *s, uint32_t x, uint32_t y);
uint32_t numbers_or(struct schema *s, uint32_t x, uint32_t y);
/* The bounds say that no number is in two of the sets. False: perhaps, or `status` is set. */
bool numbers_apart(struct schema *s, const uint32_t *sets, uint32_t n);
uint32_t numbers_minus(struct schema *s, uint32_t x, uint32_t y); /* of x what is not in y */
uint32_t numbers_not(struct schema *s, uint32_t x);
uint32_t numbers_keyword(struct schema *s, uint32_t sub, const struct keyword *k);
/* The texts of the set. */
lang numbers_language(struct schema *s, uint32_t set);

#endif
