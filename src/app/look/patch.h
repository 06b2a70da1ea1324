/* --patch: values of a run over a second text, put into the run over the first. */
#ifndef LOOK_PATCH_H
#define LOOK_PATCH_H

#include "app/look/edits.h"

enum tern_status patch_take(struct edits *x, struct subject *s, struct tern_error *e);

#endif
