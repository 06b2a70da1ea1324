/* From options to a context: what will be taken is said before it is taken. */
#ifndef RUN_PLAN_H
#define RUN_PLAN_H

#include "app/run/run_options.h"

/* What plan_open would take. `n_ctx` is the number of positions when --ctx-size is not given (0:
 * the model's). */
void plan_make(const tern_model *model, const struct run_options *o, uint32_t n_ctx,
               struct tern_memory *plan);

/* Opens the context on which signals then act. Before: the plan on standard error with --verbose,
 * and, unless --quiet, one line when memory made the context smaller than the model's. */
/* How the weights are loaded, of tern_model_params. */
unsigned plan_load(const struct run_options *o);

enum tern_status plan_open(tern_context **out, tern_model *model, const struct run_options *o,
                           uint32_t n_ctx, struct tern_error *e);

/* The same for the draft's model, whose context no signal acts on. */
enum tern_status plan_draft(tern_context **out, tern_model *model, const struct run_options *o,
                            uint32_t n_ctx, struct tern_error *e);
void plan_close(tern_context *ctx);

#endif
