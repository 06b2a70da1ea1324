/* What `run` can say about a weights file: --info, --check, --selftest, --seal-value. All of it
 * goes to standard output. */
#ifndef RUN_INFO_H
#define RUN_INFO_H

#include "tern.h"

enum tern_status info_describe(const tern_model *model, const char *path, int verbose,
                               struct tern_error *e);
enum tern_status info_check(tern_model *model, struct tern_error *e);
/* This machine, line by line. */
enum tern_status info_doctor(struct tern_error *e);
enum tern_status info_selftest(tern_model *model, struct tern_error *e);
enum tern_status info_seal(tern_model *model, struct tern_error *e);

#endif
