/* --receipt and --verify-receipt: files that state what the answer of a model was. */
#ifndef RUN_RECEIPT_FILE_H
#define RUN_RECEIPT_FILE_H

#include "app/run/complete.h"

/* Before the text is made: whether the file of --receipt, if that was given, can be written. */
enum tern_status receipt_file_check(const struct run_options *o, struct tern_error *e);

/* The receipt of the answer behind prompt[0..n), which complete_run has just made. */
enum tern_status receipt_file_write(const struct completion *g, const tern_token *prompt, size_t n,
                                    struct tern_error *e);

/* Says on standard output what was proven, or what is wrong. TERN_BAD_FILE where it is refuted. */
enum tern_status receipt_file_verify(tern_model *model, const struct run_options *o,
                                     struct tern_error *e);

#endif
