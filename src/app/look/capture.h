/* --capture: what happens inside a model, as arrays for other tools. */
#ifndef LOOK_CAPTURE_H
#define LOOK_CAPTURE_H

#include "app/look/hooks.h"

enum tern_status capture_text(struct subject *s, struct tern_error *e);

#endif
