/* Several machines: rank 0 runs the program, and what changes its contexts is done by all. In: calls of
 * tern.h on rank 0; out: orders to the others, which do the same (order.h, follow.c) until rank 0 ends. Each
 * of these functions stands at the beginning of the call that it tells of. It does nothing on the others, and
 * where the model is on one machine; without MPI it vanishes. */
#ifndef ENGINE_LEAD_H
#define ENGINE_LEAD_H

#include "engine/context.h"
#include "engine/meet.h"

#ifdef TERN_MPI

void lead_check(const struct tern_model *m);

/* Plans a context here, and on the other machines too: what fits all of them. A machine that it does not fit
 * is named. */
typedef enum tern_status (*plan_fn)(const struct tern_model *m, const struct tern_context_params *p,
                                    struct tern_memory *plan, struct tern_error *e);
enum tern_status lead_plan(const struct tern_model *m, const struct tern_context_params *p,
                           plan_fn plan_here, struct tern_memory *plan, struct tern_error *e);

/* Before a context of this plan is opened, and when it was (c), or not: what became of it on all */
enum tern_status lead_open(const struct tern_model *m, const struct tern_memory *plan,
                           struct tern_error *e);
enum tern_status lead_opened(const struct tern_model *m, tern_context *c, enum tern_status status,
                             struct tern_error *e);

void lead_close(tern_context *c);
void lead_run(tern_context *c, bool if_finite);
void lead_keep(tern_context *c, uint32_t seq, uint32_t n);
void lead_fork(tern_context *c, uint32_t from, uint32_t to, uint32_t n);
void lead_show(tern_context *c, uint32_t seq);
void lead_drop(tern_context *c);
void lead_settle(tern_context *c, uint32_t seq);
void lead_guess(tern_context *c, uint32_t seq, tern_token token, size_t max);
void lead_prefix_find(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n);
void lead_prefix_keep(tern_context *c, uint32_t seq);
void lead_prefix_clear(tern_context *c);

/* On all: takes the memory of split_store.h, in which the others follow until store_end. And rows of the log
 * of a sequence that was loaded run again. */
enum tern_status lead_store(tern_context *c, struct tern_error *e);
void lead_resume(tern_context *c, uint32_t seq);

#else

#define lead_check(m) ((void)0)
#define lead_plan(m, p, plan_here, plan, e) plan_here(m, p, plan, e)
#define lead_open(m, plan, e) TERN_OK
#define lead_opened(m, c, status, e) (status)
#define lead_close(c) ((void)0)
#define lead_run(c, if_finite) ((void)0)
#define lead_keep(c, seq, n) ((void)0)
#define lead_fork(c, from, to, n) ((void)0)
#define lead_show(c, seq) ((void)0)
#define lead_drop(c) ((void)0)
#define lead_settle(c, seq) ((void)0)
#define lead_guess(c, seq, token, max) ((void)0)
#define lead_prefix_find(c, seq, tokens, n) ((void)0)
#define lead_prefix_keep(c, seq) ((void)0)
#define lead_prefix_clear(c) ((void)0)
#define lead_store(c, e) TERN_OK
#define lead_resume(c, seq) ((void)0)

#endif

#endif
