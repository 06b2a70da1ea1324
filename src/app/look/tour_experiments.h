/* The experiments of the tour, done when the page is written. */
#ifndef LOOK_TOUR_EXPERIMENTS_H
#define LOOK_TOUR_EXPERIMENTS_H

#include <stdio.h>

#include "app/look/subject.h"

/* ,"experiments":{...} into the data of a page. `a` has q, k and v of the layer, of all positions of
 * the subject. */
enum tern_status tour_experiments_put(FILE *f, struct subject *s, const tern_attention *a,
                                      uint64_t layer, uint64_t head, struct tern_error *e);

#endif
