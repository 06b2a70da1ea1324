/* Constraints of tern.h, behind the handles. */
#ifndef ENGINE_API_CONSTRAINT_H
#define ENGINE_API_CONSTRAINT_H

#include <stdbool.h>

#include "tern.h"

/* Whether the state is of a constraint for this model's tokens. */
bool api_constraint_fits(const tern_constraint_state *s, const tern_model *model);

#endif
