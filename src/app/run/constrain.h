/* What the text must be: --json, --json-schema and their like, compiled for the model. */
#ifndef RUN_CONSTRAIN_H
#define RUN_CONSTRAIN_H

#include "app/run/run_options.h"

/* A constraint and what it was made of */
struct constrain {
    tern_constraint *constraint; /* owned; NULL: the text is free */
    struct tern_constraint_params params;
    char *file; /* owned: params.text, where it was read from a file */
};

/* The constraint of the options, if they have one. thought [n]: not empty, the answer begins with a
 * thought that these bytes end; the text is free until then. With --jsonl a refusal is written to
 * standard output, too, and names the keyword of a schema. */
enum tern_status constrain_open(struct constrain *out, const tern_model *model,
                                const struct run_options *o, const char *thought, size_t n,
                                struct tern_error *e);
void constrain_close(struct constrain *c);

/* What --json-schema-lax leaves to the caller, to standard error. */
void constrain_print(const tern_constraint *c, const struct run_options *o);

#endif
