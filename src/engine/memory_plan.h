/* The memory plan of a context: made once by tern_context_plan, and opened as it is. */
#ifndef ENGINE_MEMORY_PLAN_H
#define ENGINE_MEMORY_PLAN_H

#include "engine/model_handle.h"
#include "model/cache_request.h"

/* TERN_USAGE unless a context of these sizes may exist, whatever memory there is. */
enum tern_status memory_plan_check(const struct model *m, const struct tern_memory *plan,
                                   struct tern_error *e);

/* What the plan asks of the cache */
struct cache_request memory_plan_cache(const struct tern_memory *plan);

#ifdef TERN_MPI
/* Another machine's plan, with what it takes on this one. TERN_NO_MEMORY when that is too much. */
enum tern_status memory_plan_again(const struct tern_model *m, struct tern_memory *plan,
                                   struct tern_error *e);

/* What other machines hold of the plan's cache, which counts the store of prefixes whole */
uint64_t memory_plan_elsewhere(const struct tern_model *m, const struct tern_memory *plan);

/* What one process would take for the whole model and the plan, without kept prefixes */
uint64_t memory_plan_alone(const struct tern_model *m, const struct tern_memory *plan);
#endif

#endif
