/* What surgery does to the next token, and to the text that follows. */
#ifndef LOOK_BEFORE_AFTER_H
#define LOOK_BEFORE_AFTER_H

#include "app/look/edits.h"

enum tern_status before_after_show(struct subject *s, struct tern_error *e);

#endif
