/* --lens: what each layer would say next, if no layer followed. */
#ifndef LOOK_LOGIT_LENS_H
#define LOOK_LOGIT_LENS_H

#include "app/look/subject.h"

enum tern_status logit_lens_show(struct subject *s, struct tern_error *e);

#endif
