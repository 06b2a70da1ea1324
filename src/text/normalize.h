/* The normalizer: what the text is changed into before it is cut into words. */
#ifndef TEXT_NORMALIZE_H
#define TEXT_NORMALIZE_H

#include "text/growth.h"

/* Runs the steps over p[0..n), which is UTF-8; `first`: it begins where the whole input begins.
 * *out is borrowed from p or from one of the two scratch buffers, until they are used again. False:
 * no memory, g->over, or stopped. */
bool normalize_run(const struct steps *steps, struct buffer scratch[2], struct growth *g,
                   const char *p, size_t n, bool first, const char **out, size_t *n_out);

#endif
