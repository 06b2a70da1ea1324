/* Quantizes a weights file: in, one of f32, f16, bf16 (or q8, for q4 and q4c); out, the same model
 * with its matrices as q8, q4 or q4c. Norms, biases and other sections are copied, the seal is left
 * empty. Memory: the header and a few MiB, for a model of any size; more with a calibration.
 */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "base/error.h"
#include "base/pool.h"
#include "quantize/calibrate.h"

struct quantize_params {
    enum tern_type type;
    /* q4, q4c: tensors that become q8, separated by commas: names ("layer.0.down"), all of a layer
     * ("layer.0"), or parts ("down"); "head" is the embedding where that is the head too. */
    const char *keep_q8;             /* or NULL */
    struct calibration *calibration; /* of the same file, not for q8; or NULL */
};

/* Writes `out` under its name (give a temporary one): the same bytes for any pool. `report` may be
 * NULL; non-zero from it, or from what the pool asks (pool_stop_when), stops with TERN_CANCELLED. TERN_USAGE when there is nothing to make
 * smaller, or keep_q8 names nothing; TERN_LIMIT, naming the tensor, for a value that is not finite
 * or too large for the type. */
enum tern_status quantize_file(const char *in, const char *out, const struct quantize_params *o,
                               struct pool *pool,
                               int (*report)(void *arg, const struct tern_quantize_report *r),
                               void *arg, struct tern_error *e);

#endif
