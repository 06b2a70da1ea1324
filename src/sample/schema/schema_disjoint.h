/* A cheap test, so that oneOf need not say of each branch that the others do not hold. */
#ifndef SCHEMA_SCHEMA_DISJOINT_H
#define SCHEMA_SCHEMA_DISJOINT_H

#include "sample/schema/schema_options.h"

/* True: no value of the type is in both, and has the keys that the branch requires. False: unknown. */
bool disjoint(struct schema *s, unsigned type, const struct branch *branch, literal x, literal y);

#endif
