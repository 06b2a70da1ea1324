/* Quantizes a weights file: in, one of f32, f16, bf16 (or q8, for q4); out, the same model with its
 * matrices as q8 or q4. Norms, biases and other sections are copied, the seal is left empty.
 * Memory: the header and a few MiB, whatever the size of the model. */
#ifndef MODEL_QUANTIZE_H
#define MODEL_QUANTIZE_H

#include "base/error.h"
#include "base/pool.h"

/* Writes `out` under its name (give a temporary one): the same bytes for any pool. `report` may be
 * NULL; non-zero from it stops with TERN_CANCELLED. TERN_USAGE when there is nothing to make smaller; TERN_LIMIT, naming the tensor, for a
 * value that is not finite or too large for the type. */
enum tern_status quantize_file(const char *in, const char *out, enum tern_type type,
                               struct pool *pool,
                               int (*report)(void *arg, const struct tern_quantize_report *r),
                               void *arg, struct tern_error *e);

#endif
