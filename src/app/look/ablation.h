/* --ablate: heads, attention, feed-forward and experts that are switched off, or fixed at their mean
 * over a text. */
#ifndef LOOK_ABLATION_H
#define LOOK_ABLATION_H

#include "app/look/edits.h"

enum tern_status ablation_take(struct edits *x, struct subject *s, struct tern_error *e);

/* An edit for every head of the model, in order. */
enum tern_status ablation_take_all(struct edits *x, struct subject *s, struct tern_error *e);

#endif
