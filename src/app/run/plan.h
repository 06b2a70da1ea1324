/* From options to a context. The plan is made once, and said; then the context is opened as planned. */
#ifndef RUN_PLAN_H
#define RUN_PLAN_H

#include "app/run/run_options.h"

/* How the weights are loaded, of tern_model_params. */
unsigned plan_load(const struct run_options *o);

/* Fills *plan. `n_ctx` is the number of positions when --ctx-size is not given (0: the model's). With
 * --verbose the plan goes to standard error. Unless --quiet, a line there says so when the context
 * is smaller than the model's, for memory, or larger. */
enum tern_status plan_make(tern_model *model, const struct run_options *o, uint32_t n_ctx,
                           struct tern_memory *plan, struct tern_error *e);

/* Opens the context on which signals then act. */
enum tern_status plan_open(tern_context **out, tern_model *model, const struct tern_memory *plan,
                           struct tern_error *e);

/* Plans and opens the context of the draft's model, on which no signal acts. */
enum tern_status plan_draft(tern_context **out, tern_model *model, const struct run_options *o,
                            uint32_t n_ctx, struct tern_error *e);
void plan_close(tern_context *ctx);

#endif
