/* --tour: a page that follows one token through one layer, with the numbers of this run beside the
 * equation and the line of src/model/plain.c that computes them; then worked examples and
 * experiments. page/tour.js has the words and the drawings; here are the numbers. */
#ifndef LOOK_TOUR_H
#define LOOK_TOUR_H

#include "app/look/subject.h"

enum tern_status tour_write(struct subject *s, struct tern_error *e);

#endif
