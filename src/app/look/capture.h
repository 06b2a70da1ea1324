/* --capture: what happens inside a model, as arrays for other tools. */
#ifndef LOOK_CAPTURE_H
#define LOOK_CAPTURE_H

#include "app/look/hooks.h"

enum tern_status capture_text(struct subject *s, struct tern_error *e);

/* --lines: many texts, whose rows stand one after the other in each array. */
enum tern_status capture_lines(struct subject *s, struct tern_error *e);

/* What both do with a row of an observation: q or k, as it was before RoPE, into out
 * [2 * columns]. */
void capture_turn_back(const struct subject *s, const struct tern_observation *o,
                       const struct tern_row *at, const float *x, float *out);

#endif
