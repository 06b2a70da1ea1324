/* The checksums of a weights file's tensor bytes, which opening it does not read. */
#ifndef WEIGHTS_CHECKSUMS_H
#define WEIGHTS_CHECKSUMS_H

#include "weights/weights.h"

/* Verifies every tensor's checksum and the zeros between tensors; reads the whole file. `progress`
 * (may be NULL) gets the bytes done and the bytes in all; non-zero stops with TERN_CANCELLED. */
enum tern_status checksums_verify(const struct weights *w,
                                  int (*progress)(void *arg, uint64_t done, uint64_t total),
                                  void *arg, struct tern_error *e);

/* The checksum of one tensor alone; `progress` as above, over this tensor. */
enum tern_status checksums_verify_tensor(const struct weights *w, const struct tensor *t,
                                         int (*progress)(void *arg, uint64_t done, uint64_t total),
                                         void *arg, struct tern_error *e);

#endif
