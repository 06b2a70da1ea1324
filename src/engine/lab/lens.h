/* The logit lens: rows of the stream through the last step alone. */
#ifndef LAB_LENS_H
#define LAB_LENS_H

#include <stdbool.h>

#include "engine/context.h"

/* tern_lens; without `capped`, what the logit cap would read. */
enum tern_status lens_run(struct tern_context *c, const float *x, size_t n_rows, size_t stride,
                          float *logits, bool capped, struct tern_error *e);

#endif
