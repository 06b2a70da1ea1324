/* Values that no model can have. */
#ifndef WEIGHTS_FINITE_H
#define WEIGHTS_FINITE_H

#include "weights/weights.h"

/* TERN_BAD_FILE, with the tensor's name, when it is f32 and holds a NaN or an infinity; padding does not
 * count. Other types are not read: they would be decoded. */
enum tern_status finite_check(const struct weights *w, const struct tensor *t, struct tern_error *e);

#endif
