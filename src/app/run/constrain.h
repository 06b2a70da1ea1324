/* What the text must be: --json, --json-schema and their like, compiled for the model. */
#ifndef RUN_CONSTRAIN_H
#define RUN_CONSTRAIN_H

#include "app/run/run_options.h"

/* The constraint of the options, NULL without one. thought [n]: not empty, the answer begins with a
 * thought that these bytes end; the text is free until then. With --jsonl a refusal is written to
 * standard output, too, and names the keyword of a schema. */
enum tern_status constrain_open(tern_constraint **out, const tern_model *model,
                                const struct run_options *o, const char *thought, size_t n,
                                struct tern_error *e);

/* What --json-schema-lax leaves to the caller, to standard error. */
void constrain_print(const tern_constraint *c, const struct run_options *o);

#endif
