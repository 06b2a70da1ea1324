/* A recognizer that binds late: the text is free until the trigger's bytes have come, and then what another
 * recognizer says. The first trigger counts. Free text may hold anything but the model's end tokens. */
#ifndef CONSTRAINT_LAZY_H
#define CONSTRAINT_LAZY_H

#include "sample/recognize/recognizer.h"
#include "sample/constraint/spelling.h"

enum { LAZY_TRIGGER = 256 }; /* bytes of a trigger, at most */

/* Wraps *r, which it takes over; *r stays as it is after an error. `params` has trigger and flags. TERN_USAGE: the trigger is
 * too long, or cannot begin the bound text though TERN_CONSTRAINT_FROM_TRIGGER says so. */
enum tern_status lazy_open(struct recognizer *r, const struct spelling *s,
                           const struct tern_constraint_params *params, struct tern_error *e);

#endif
