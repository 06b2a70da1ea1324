/* The source's golden logits, which a weights file stores. */
#ifndef LAB_SELFTEST_H
#define LAB_SELFTEST_H

#include "engine/model_handle.h"

/* *error = max |a - b| / max |b| of the model's logits a and the golden ones b; *bound: the largest
 * error that the file allows. *found is false when the file has no golden logits. */
enum tern_status selftest_golden(struct tern_model *m, bool *found, float *error, float *bound,
                                 struct tern_error *e);

#endif
