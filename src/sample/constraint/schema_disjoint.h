/* A cheap test, so that oneOf need not say of each branch that the others do not hold. */
#ifndef CONSTRAINT_SCHEMA_DISJOINT_H
#define CONSTRAINT_SCHEMA_DISJOINT_H

#include "sample/constraint/schema_tableau.h"

/* True: no value of the type is in both, and has the required keys of the atoms. False: unknown. */
bool disjoint(struct schema *s, unsigned type, const struct goal *atoms, literal x, literal y);

#endif
