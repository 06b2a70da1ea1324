/* Several machines: the others do what rank 0 orders (order.h), by the same calls. They cannot fail: what
 * an order takes was taken when the context opened, or all agree on what became of it. */
#include "engine/order.h"

#ifdef TERN_MPI

#include "base/fpenv.h"
#include "base/machines.h"
#include "base/sizes.h"
#include "engine/guess/heads.h"
#include "engine/lab/network.h"
#include "engine/lead.h"
#include "engine/memory_plan.h"
#include "model/recurrence.h"
#include "model/split.h"
#include "model/split_store.h"

/* A batch as rank 0 has it: what it was allowed to add can be added here. */
static void follow_run(tern_context *c, const struct order *order)
{
    const struct order_row *rows = order->rows;
    size_t n = (size_t)order->n;
    if (n > SHORT_ROWS) {
        void *more = order_room(n * sizeof *rows);
        order_more(more, n * sizeof *rows);
        rows = more;
    }
    for (size_t i = 0; i < n; i++) {
        c->expected[rows[i].seq] = rows[i].expected;
        (void)context_add(c,
                          (struct row){.seq = rows[i].seq,
                                       .token = rows[i].token,
                                       .flags = rows[i].flags,
                                       .best = rows[i].best,
                                       .within = rows[i].within,
                                       .trial = rows[i].trial},
                          NULL);
    }
    c->forward.stopped = order->stop;
    (void)context_run(c, order->if_finite);
}

static void follow_open(tern_model *m, const struct order *order, struct tern_error *e)
{
    struct tern_memory plan;
    order_more(&plan, sizeof plan);
    enum tern_status s = memory_plan_again(m, &plan, e);
    if (s)
        (void)meet_agree(m, s, e);
    else
        (void)tern_context_open_plan(&order_contexts[order->context], m, &plan, e);
}

static void follow_plan(const tern_model *m, struct tern_error *e)
{
    struct tern_context_params params;
    struct tern_memory plan;
    order_more(&params, sizeof params);
    (void)tern_context_plan(m, &params, &plan, e);
}

static void follow_find(tern_context *c, const struct order *order)
{
    size_t n = (size_t)order->n, bytes = min_size(n, c->memory.n_ctx) * sizeof(tern_token);
    tern_token *tokens = order_room(bytes);
    order_more(tokens, bytes);
    c->expected[order->seq] = order->to;
    (void)tern_prefix_find(c, order->seq, tokens, n);
}

static void follow_guess(tern_context *c, const struct order *order)
{
    tern_token guess[HEADS_MOST];
    size_t made;
    c->forward.stopped = order->stop;
    (void)context_guess(c, order->seq, order->token, (size_t)order->n, 0, guess, &made);
}

static void follow_resume(tern_context *c, uint32_t seq)
{
    struct fpenv saved = fpenv_enter();
    pool_lock(c->model->pool);
    recurrence_resume(&c->forward, seq);
    pool_unlock(c->model->pool);
    fpenv_leave(saved);
}

static void follow_store(tern_context *c, struct tern_error *e)
{
    if (!lead_store(c, e))
        store_follow(&c->cache, &c->prefixes, c->model->model);
}

/* False at the end. */
static bool follow(tern_model *m, const struct order *order, struct tern_error *e)
{
    tern_context *c = order_contexts[order->context];
    switch ((enum order_kind)order->kind) {
    case ORDER_END:
        return false;
    case ORDER_OPEN:
        follow_open(m, order, e);
        break;
    case ORDER_CHECK:
        (void)tern_model_check(m, e);
        break;
    case ORDER_PLAN:
        follow_plan(m, e);
        break;
    case ORDER_CLOSE:
        tern_context_close(c);
        order_contexts[order->context] = NULL;
        break;
    case ORDER_RUN:
        follow_run(c, order);
        break;
    case ORDER_KEEP:
        (void)tern_seq_keep(c, order->seq, (uint32_t)order->n);
        break;
    case ORDER_FORK:
        (void)tern_seq_fork(c, order->seq, order->to, (uint32_t)order->n);
        break;
    case ORDER_SHOW:
        context_show(c, order->seq, 0, false);
        break;
    case ORDER_DROP:
        context_drop(c);
        break;
    case ORDER_SETTLE:
        c->expected[order->seq] = order->to;
        context_settle(c, order->seq);
        break;
    case ORDER_GUESS:
        follow_guess(c, order);
        break;
    case ORDER_PREFIX_FIND:
        follow_find(c, order);
        break;
    case ORDER_PREFIX_KEEP:
        tern_prefix_keep(c, order->seq);
        break;
    case ORDER_PREFIX_CLEAR:
        tern_prefix_clear(c);
        break;
    case ORDER_STORE:
        follow_store(c, e);
        break;
    case ORDER_RESUME:
        follow_resume(c, order->seq);
        break;
    case ORDER_METER:
        network_follow(m, order);
        break;
    }
    return true;
}

enum tern_status tern_follow(tern_model *m, struct tern_error *e)
{
    struct order order;
    if (machines_rank() == 0 || !split_of(m->model))
        return error_set(
            e, TERN_USAGE,
            "only a machine beside the first can follow, with the model that all have");
    do
        order_take(&order);
    while (follow(m, &order, e));
    meet_end(m);
    return TERN_OK;
}

#endif
