/* --steer: a direction that is added to the stream at every position, after layers or the embedding.
 * It comes from two texts, or from a file of llama.cpp's control vectors. */
#ifndef LOOK_STEERING_H
#define LOOK_STEERING_H

#include "app/look/edits.h"

/* Also keeps the direction, x->direction. */
enum tern_status steering_take(struct edits *x, struct subject *s, struct tern_error *e);

#endif
