/* Several machines: rank 0 runs the program, and what changes its contexts is done by all. In: calls of
 * tern.h on rank 0; out: the same calls on the others, which follow until rank 0 ends. Each of these
 * functions stands at the beginning of the call that it tells of; without MPI it vanishes. */
#ifndef ENGINE_FOLLOW_H
#define ENGINE_FOLLOW_H

#include "engine/context.h"

#ifdef TERN_MPI

/* Meets the other machines with what became of opening the model here; *m is split if all could. Only
 * the first model of a process is; another one is rank 0's alone. `share` may be NULL. */
enum tern_status follow_meet(struct tern_model *m, enum tern_status status, const char *share,
                             struct tern_error *e);

/* Meets them again, when what each needs of the model was copied and locked, where that was wanted */
enum tern_status follow_loaded(struct tern_model *m, enum tern_status status, struct tern_error *e);

/* Has the others check their files, too; and what they found */
void lead_check(const struct tern_model *m);
enum tern_status follow_checked(const struct tern_model *m, enum tern_status status,
                                struct tern_error *e);

/* What --share says of n machines; none: the same for all */
struct split;
enum tern_status follow_shares(struct split *s, size_t n, const char *text, struct tern_error *e);

/* Plans a context here, and on the other machines too where the model is on all: what fits all of them.
 * A machine that it does not fit is named. */
typedef enum tern_status (*plan_fn)(const struct tern_model *m, const struct tern_context_params *p,
                                    struct tern_memory *plan, struct tern_error *e);
enum tern_status follow_planned(const struct tern_model *m, const struct tern_context_params *p,
                                plan_fn plan_here, struct tern_memory *plan, struct tern_error *e);

/* The model is closed: the others end, too. NULL: the one that is open */
void follow_end(const struct tern_model *m);

/* The same of a context of this plan, which is opened between the two */
void lead_open(tern_context *c, const struct tern_memory *plan);
enum tern_status follow_opened(tern_context *c, enum tern_status status, struct tern_error *e);

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

/* The others follow in split_store.h until store_end. And rows of the log of a sequence that was loaded run
 * again. */
enum tern_status lead_store(tern_context *c, struct tern_error *e);
void lead_resume(tern_context *c, uint32_t seq);

/* What only one machine can do yet: TERN_USAGE on several */
enum tern_status follow_alone(const struct tern_model *m, const char *what, struct tern_error *e);

#else

#define follow_alone(m, what, e) TERN_OK
#define follow_meet(m, status, share, e) (status)
#define follow_loaded(m, status, e) (status)
#define lead_check(m) ((void)0)
#define follow_checked(m, status, e) (status)
#define follow_planned(m, p, plan_here, plan, e) plan_here(m, p, plan, e)
#define follow_end(m) ((void)0)
#define lead_open(c, plan) ((void)0)
#define follow_opened(c, status, e) (status)
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
