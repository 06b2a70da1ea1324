/* Rank 0 leads: see lead.h. */
#include "engine/lead.h"

#ifdef TERN_MPI

#include <stdio.h>

#include "base/machines.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "engine/memory_plan.h"
#include "engine/order.h"
#include "model/split.h"
#include "model/split_store.h"

static bool leads(const struct tern_model *m)
{
    return machines_rank() == 0 && split_of(m->model);
}

static void give(const tern_context *c, struct order order, const void *more, size_t bytes)
{
    order.context = c->number;
    if (leads(c->model))
        order_give(order, more, bytes);
}

void lead_check(const struct tern_model *m)
{
    if (leads(m))
        order_give((struct order){.kind = ORDER_CHECK}, NULL, 0);
}

/* ---- plans ---- */

static struct planned planned[MOST_MACHINES]; /* the last plan */

/* What a machine holds of its plan */
static uint64_t cache_here(const struct planned *p)
{
    return p->memory.cache - p->elsewhere;
}

/* Processes that share the memory of machine r take it together. */
static enum tern_status check_together(int r, struct tern_error *e)
{
    const struct tern_memory *own = &planned[r].memory;
    uint64_t sum = 0;
    int n = 0;
    for (int i = 0; i < machines_size(); i++)
        if (machines_share(r, i))
            sum += cache_here(&planned[i]) + planned[i].memory.batch, n++;
    if (sum <= own->available)
        return TERN_OK;
    return error_set(e, TERN_NO_MEMORY,
                     "%s: a context of %u positions needs %llu MiB in the %d processes there, %llu "
                     "MiB are free: start fewer there, or ask for a smaller context",
                     machines_host(r), own->n_ctx, (unsigned long long)(sum >> 20), n,
                     (unsigned long long)(own->available >> 20));
}

/* Of one machine: rank 0 says what is wanted, and all say what that takes there. */
static enum tern_status plan_on_all(const struct tern_model *m, const struct tern_context_params *p,
                                    plan_fn plan_here, struct tern_memory *plan,
                                    struct tern_error *e)
{
    size_t at[MOST_MACHINES + 1];
    struct planned *own = &planned[machines_rank()];
    if (leads(m))
        order_give((struct order){.kind = ORDER_PLAN}, p, sizeof *p);
    enum tern_status s = plan_here(m, p, plan, e);
    for (int r = 0; r <= machines_size(); r++)
        at[r] = (size_t)r * sizeof *own;
    *own = (struct planned){.memory = *plan,
                            .elsewhere = s ? 0 : memory_plan_elsewhere(m, plan),
                            .for_files = memory_for_files(),
                            .status = s};
    snprintf(own->message, sizeof own->message, "%s", s ? e->text : "");
    machines_gather(planned, at);
    for (int r = 0; r < machines_size() && !s; r++)
        if (planned[r].status)
            s = error_set(e, planned[r].status, "%s: %s", machines_host(r), planned[r].message);
    for (int r = 0; r < machines_size() && !s; r++)
        s = check_together(r, e);
    return s;
}

/* A context of the model's length is reduced to what the smallest machine has room for. */
enum tern_status lead_plan(const struct tern_model *m, const struct tern_context_params *p,
                           plan_fn plan_here, struct tern_memory *plan, struct tern_error *e)
{
    struct tern_context_params params = *p;
    struct tern_error mine;
    e = e ? e : &mine;
    if (!split_of(m->model))
        return plan_here(m, p, plan, e);
    enum tern_status s = plan_on_all(m, p, plan_here, plan, e);
    params.n_ctx = plan->n_ctx;
    for (int r = 0; r < machines_size(); r++)
        params.n_ctx = (uint32_t)min_size(params.n_ctx, planned[r].memory.n_ctx);
    if (!s && leads(m) && params.n_ctx < plan->n_ctx) {
        s = plan_on_all(m, &params, plan_here, plan, e);
        plan->reduced = true;
    }
    return s;
}

int tern_machine(const tern_model *m, uint32_t rank, struct tern_machine *out)
{
    const struct split *s = split_of(m->model);
    *out = (struct tern_machine){.host = ""};
    if (!s || rank >= s->n)
        return 0;
    *out = (struct tern_machine){.host = machines_host((int)rank),
                                 .share = s->until[rank + 1] - s->until[rank],
                                 .shares = s->until[s->n],
                                 .memory = planned[rank].memory,
                                 .for_files = planned[rank].for_files,
                                 .first = rank};
    out->memory.cache -= planned[rank].elsewhere, out->memory.prefix -= planned[rank].elsewhere;
    for (uint32_t r = 0; r < s->n; r++)
        if (machines_share((int)rank, (int)r)) {
            out->first = r < out->first ? r : out->first;
            out->beside++;
            out->weights_beside += planned[r].memory.weights;
            out->others_beside += cache_here(&planned[r]) + planned[r].memory.batch;
        }
    return 1;
}

/* ---- contexts ---- */

enum tern_status lead_open(const struct tern_model *m, const struct tern_memory *plan,
                           struct tern_error *e)
{
    struct order order = {.kind = ORDER_OPEN, .context = order_number()};
    if (!leads(m))
        return TERN_OK;
    if (order.context == MOST_CONTEXTS)
        return error_set(e, TERN_LIMIT,
                         "%d contexts are open, as many as several machines can have",
                         MOST_CONTEXTS);
    order_give(order, plan, sizeof *plan);
    return TERN_OK;
}

enum tern_status lead_opened(const struct tern_model *m, tern_context *c, enum tern_status status,
                             struct tern_error *e)
{
    if (!split_of(m->model))
        return status;
    if (!status && !order_room(order_bytes(&c->memory)))
        status = error_memory(e, "the rows of a batch", order_bytes(&c->memory));
    status = meet_agree(m, status, e);
    if (!status && leads(m)) {
        c->number = order_number();
        order_contexts[c->number] = c;
    }
    return status;
}

void lead_close(tern_context *c)
{
    if (!leads(c->model) || order_contexts[c->number] != c)
        return;
    give(c, (struct order){.kind = ORDER_CLOSE}, NULL, 0);
    order_contexts[c->number] = NULL;
}

/* ---- batches and sequences ---- */

static struct order_row order_row(const tern_context *c, const struct row *row)
{
    return (struct order_row){row->seq,  c->expected[row->seq], row->token, row->flags,
                              row->best, row->within,           row->trial};
}

void lead_run(tern_context *c, bool if_finite)
{
    const struct forward *f = &c->forward;
    struct order order = {.kind = ORDER_RUN, .n = f->n, .if_finite = if_finite};
    struct order_row *rows = f->n > SHORT_ROWS ? order_room(f->n * sizeof *rows) : order.rows;
    if (!leads(c->model)) /* the others know from the order */
        return;
    order.stop = c->forward.stopped = forward_is_cancelled(&c->forward);
    for (size_t i = 0; i < f->n; i++)
        rows[i] = order_row(c, &f->rows[i]);
    give(c, order, rows, f->n > SHORT_ROWS ? f->n * sizeof *rows : 0);
}

void lead_keep(tern_context *c, uint32_t seq, uint32_t n)
{
    give(c, (struct order){.kind = ORDER_KEEP, .seq = seq, .n = n}, NULL, 0);
}

void lead_fork(tern_context *c, uint32_t from, uint32_t to, uint32_t n)
{
    give(c, (struct order){.kind = ORDER_FORK, .seq = from, .to = to, .n = n}, NULL, 0);
}

void lead_show(tern_context *c, uint32_t seq)
{
    give(c, (struct order){.kind = ORDER_SHOW, .seq = seq}, NULL, 0);
}

void lead_drop(tern_context *c)
{
    give(c, (struct order){.kind = ORDER_DROP}, NULL, 0);
}

void lead_settle(tern_context *c, uint32_t seq)
{
    give(c, (struct order){.kind = ORDER_SETTLE, .seq = seq, .to = c->expected[seq]}, NULL, 0);
}

void lead_guess(tern_context *c, uint32_t seq, tern_token token, size_t max)
{
    if (!leads(c->model))
        return;
    bool stop = c->forward.stopped = forward_is_cancelled(&c->forward);
    give(c, (struct order){.kind = ORDER_GUESS, .seq = seq, .token = token, .n = max, .stop = stop},
         NULL, 0);
}

void lead_prefix_find(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n)
{
    if (seq < c->memory.n_seqs) /* none beyond the context is found */
        give(c,
             (struct order){.kind = ORDER_PREFIX_FIND, .seq = seq, .to = c->expected[seq], .n = n},
             tokens, min_size(n, c->memory.n_ctx) * sizeof *tokens);
}

void lead_prefix_keep(tern_context *c, uint32_t seq)
{
    give(c, (struct order){.kind = ORDER_PREFIX_KEEP, .seq = seq}, NULL, 0);
}

void lead_prefix_clear(tern_context *c)
{
    give(c, (struct order){.kind = ORDER_PREFIX_CLEAR}, NULL, 0);
}

enum tern_status lead_store(tern_context *c, struct tern_error *e)
{
    const struct model *m = c->model->model;
    if (!split_of(m))
        return TERN_OK;
    give(c, (struct order){.kind = ORDER_STORE}, NULL, 0);
    enum tern_status s = meet_agree(c->model, store_open(&c->cache, m, e), e);
    if (s)
        store_close();
    return s;
}

void lead_resume(tern_context *c, uint32_t seq)
{
    give(c, (struct order){.kind = ORDER_RESUME, .seq = seq}, NULL, 0);
}

#endif
