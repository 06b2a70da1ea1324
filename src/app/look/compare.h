/* --compare: two files of one model, side by side on one text. */
#ifndef LOOK_COMPARE_H
#define LOOK_COMPARE_H

#include "app/look/subject.h"

enum tern_status compare_show(struct subject *s, struct tern_error *e);

#endif
