/* --why: what each head, feed-forward and expert adds directly to the logit of a next token. */
#ifndef LOOK_WHY_H
#define LOOK_WHY_H

#include "app/look/subject.h"

enum tern_status why_show(struct subject *s, struct tern_error *e);

#endif
