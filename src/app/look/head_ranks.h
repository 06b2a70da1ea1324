/* --ablate each: all heads, ranked by the loss that switching each off causes on a text. */
#ifndef LOOK_HEAD_RANKS_H
#define LOOK_HEAD_RANKS_H

#include "app/look/edits.h"

/* --ablate each was asked for. */
bool head_ranks_are_wanted(const struct look_options *o);

enum tern_status head_ranks_show(struct subject *s, struct tern_error *e);

#endif
