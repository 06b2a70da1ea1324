/* The worked examples of the tour: small attention by hand, computed by tern_zoo ("naive" and
 * "engine") when the page is written. */
#ifndef LOOK_TOUR_EXAMPLES_H
#define LOOK_TOUR_EXAMPLES_H

#include <stdio.h>

#include "tern_lab.h"

/* ,"examples":{...} into the data of a page */
enum tern_status tour_examples_put(FILE *f, struct tern_error *e);

#endif
