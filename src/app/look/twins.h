/* Whether two files hold one model: the same shape and the same tokens. */
#ifndef LOOK_TWINS_H
#define LOOK_TWINS_H

#include "app/look/subject.h"

/* TERN_USAGE with the first thing that differs. */
enum tern_status twins_check(const struct subject *a, const struct subject *b,
                             struct tern_error *e);

#endif
