/* Several machines: see follow.h. An order is one broadcast, and a second one where it is long. */
#include "engine/follow.h"

#ifdef TERN_MPI

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/machines.h"
#include "engine/guess/heads.h"
#include "engine/machine_speed.h"
#include "engine/memory_plan.h"
#include "model/recurrence.h"
#include "model/split.h"
#include "model/split_store.h"
#include "weights/part.h"
#include "weights/weights.h"

enum order_kind {
    ORDER_END,
    ORDER_CHECK,
    ORDER_PLAN,
    ORDER_OPEN,
    ORDER_CLOSE,
    ORDER_RUN,
    ORDER_KEEP,
    ORDER_FORK,
    ORDER_SHOW,
    ORDER_DROP,
    ORDER_SETTLE,
    ORDER_GUESS,
    ORDER_PREFIX_FIND,
    ORDER_PREFIX_KEEP,
    ORDER_PREFIX_CLEAR,
    ORDER_STORE,
    ORDER_RESUME,
};

enum { SHORT_ROWS = 8, MOST_CONTEXTS = 64 };

#define MEASURED "measured"

struct order_row {
    uint32_t seq, expected;
    tern_token token;
    uint32_t flags;
    uint16_t best;
    uint8_t within, trial;
};

struct order {
    uint32_t kind, context, seq, to;
    uint64_t n;
    int32_t token;
    uint8_t if_finite, stop;
    struct order_row rows[SHORT_ROWS]; /* all n of a short batch; of a long one they follow */
};

struct planned { /* by a machine */
    struct tern_memory memory;
    uint32_t status;
    char message[sizeof(((struct tern_error *)0)->text)];
};

/* MPI belongs to the process, and so does this. */
static struct {
    struct split split;      /* of the model that is on all machines */
    bool open, over;         /* a model is open on all machines; somebody has left */
    struct planned *planned; /* [size] of the last plan that was made */
    tern_context *contexts[MOST_CONTEXTS];
    struct order_row *rows; /* [n_rows] of a long batch */
    size_t n_rows;
} all;

/* ---- the start ---- */

struct report { /* of a machine that opened the model */
    uint32_t status, arith;
    uint64_t content_id;
    uint32_t speed; /* where shares are measured */
    bool leaves;    /* its process ends */
    char version[16], host[HOST_NAME], share[256], message[sizeof(((struct tern_error *)0)->text)];
};

/* All get all reports; true when nobody leaves. */
static bool meet(struct report *reports)
{
    size_t at[MOST_MACHINES + 1];
    bool all_stay = true;
    for (int r = 0; r <= machines_size(); r++)
        at[r] = (size_t)r * sizeof *reports;
    machines_gather(reports, at);
    for (int r = 0; r < machines_size(); r++)
        all_stay &= !reports[r].leaves;
    return all_stay;
}

static void put_text(char *to, size_t size, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n < size ? n : size - 1);
}

static void put_report(struct report *r, enum tern_status status, const struct tern_error *e)
{
    r->status = status, r->arith = TERN_ARITH;
    put_text(r->version, sizeof r->version, TERN_VERSION);
    put_text(r->host, sizeof r->host, machines_host(machines_rank()));
    put_text(r->message, sizeof r->message, status && e ? e->text : "");
}

/* A process that ends tells the others, which may wait for it with a model that they opened. */
static void leave(void)
{
    static struct report reports[MOST_MACHINES];
    struct tern_error e = {.text = "it ended before it opened the model"};
    follow_end(NULL);
    put_report(&reports[machines_rank()], TERN_IO, &e);
    reports[machines_rank()].leaves = true;
    if (!all.over)
        (void)meet(reports);
    all.over = true;
}

enum tern_status tern_machines_start(void (*lost)(const char *sentence), struct tern_error *e)
{
    enum tern_status s = machines_start(lost, e);
    if (!s)
        atexit(leave);
    return s;
}

uint32_t tern_machines(uint32_t *rank)
{
    *rank = (uint32_t)machines_rank();
    return (uint32_t)machines_size();
}

/* until of "3,2,1"; the same for all without it */
enum tern_status follow_shares(struct split *s, size_t n, const char *text, struct tern_error *e)
{
    const char *at = text;
    s->n = n, s->rank = (size_t)machines_rank();
    for (size_t r = 0; r < s->n; r++) {
        uint64_t share = 0;
        bool starts = *at >= '0' && *at <= '9';
        for (; *at >= '0' && *at <= '9' && share < 1000000; at++)
            share = 10 * share + (uint64_t)(*at - '0');
        bool ends = starts && *at == (r + 1 < s->n ? ',' : 0);
        if (*text && (!ends || share >= 1000000))
            return error_set(e, TERN_USAGE,
                             "the shares '%s' are not %zu whole numbers below 1000000", text, s->n);
        at += *at == ',';
        s->until[r + 1] = s->until[r] + (*text ? share : 1);
    }
    return s->until[s->n] ? TERN_OK : error_set(e, TERN_USAGE, "the shares '%s' are all 0", text);
}

/* Those that rank 0 was given, or each one's speed */
static enum tern_status take_shares(struct split *s, const struct report *reports,
                                    struct tern_error *e)
{
    bool measured = !strcmp(reports[0].share, MEASURED);
    enum tern_status status =
        follow_shares(s, (size_t)machines_size(), measured ? "" : reports[0].share, e);
    for (size_t r = 0; r < s->n && measured; r++)
        s->until[r + 1] = s->until[r] + (reports[r].speed ? reports[r].speed : 1);
    return status;
}

/* What is wrong with a machine, beside rank 0 */
static enum tern_status judge(const struct report *first, const struct report *r,
                              struct tern_error *e)
{
    if (r->status)
        return error_set(e, r->status, "%s: %s", r->host, r->message);
    if (strcmp(r->version, first->version) || r->arith != first->arith)
        return error_set(e, TERN_USAGE,
                         "%s has tern %s (arithmetic %u), %s has %s (%u): use one build", r->host,
                         r->version, r->arith, first->host, first->version, first->arith);
    if (r->content_id != first->content_id)
        return error_set(e, TERN_BAD_FILE,
                         "%s has another model file (content id %016llx) than %s (%016llx)",
                         r->host, (unsigned long long)r->content_id, first->host,
                         (unsigned long long)first->content_id);
    return TERN_OK;
}

/* Whether a part is this machine's, of a model that several open; its shares are those that count, where no
 * others were given. */
static enum tern_status take_part(const struct tern_model *m, bool alone, const char *share,
                                  char *shares, size_t size, struct tern_error *e)
{
    const struct file_part *p = weights_part(m->model->weights);
    const char *path = weights_path(m->model->weights);
    size_t n = 0;
    put_text(shares, size, share ? share : "");
    if (share && strcmp(share, MEASURED)) {
        struct split asked = {0};
        enum tern_status s =
            follow_shares(&asked, (size_t)machines_size(), *share ? share : " ", e);
        if (s)
            return s;
    }
    if (!p)
        return TERN_OK;
    if (alone)
        return error_set(
            e, TERN_USAGE, "%s is part %d of %d of a model: %d machines open them (mpirun -n %d)",
            path, (int)p->rank + 1, (int)p->n_machines, (int)p->n_machines, (int)p->n_machines);
    if (p->n_machines != (uint64_t)machines_size() || p->rank != (uint64_t)machines_rank())
        return error_set(e, TERN_USAGE, "%s is part %d of %d of a model, here is machine %d of %d",
                         path, (int)p->rank + 1, (int)p->n_machines, machines_rank() + 1,
                         machines_size());
    if (share && !strcmp(share, MEASURED))
        return error_set(e, TERN_USAGE, "%s was cut for its shares: they cannot be measured", path);
    for (size_t r = 0; r < p->n_machines && !share && n < size; r++)
        n += (size_t)snprintf(shares + n, size - n, r ? ",%llu" : "%llu",
                              (unsigned long long)p->share[r]);
    return TERN_OK;
}

enum tern_status follow_meet(struct tern_model *m, enum tern_status status, const char *share,
                             struct tern_error *e)
{
    size_t n = (size_t)machines_size();
    char shares[sizeof(((struct report *)0)->share)] = "";
    bool alone = n == 1 || all.open || all.over;
    status = status ? status : take_part(m, alone, share, shares, sizeof shares, e);
    if (alone)
        return status;
    struct report *reports = calloc(n, sizeof *reports);
    if (!reports)
        return error_memory(e, "the machines' reports", n * sizeof *reports);
    struct report *own = &reports[machines_rank()];
    put_report(own, status, e);
    put_text(own->share, sizeof own->share, shares);
    if (!status && share && !strcmp(share, MEASURED))
        own->speed = machine_speed(m);
    own->content_id = status ? 0 : weights_content_id(m->model->weights);
    all.over = !meet(reports);
    for (size_t r = 1; r < n && !*reports[0].share; r++) /* of a part that another has */
        memcpy(reports[0].share, reports[r].share, sizeof reports[0].share);
    for (size_t r = 1; r < n && !status; r++)
        status = judge(&reports[0], &reports[r], e);
    if (!status)
        status = reports[0].status ? TERN_CANCELLED : take_shares(&all.split, reports, e);
    if (!status)
        m->model->split = &all.split;
    all.open = !status;
    if (!status) {
        uint64_t exchange_ns, bytes_per_s;
        machines_measure(&exchange_ns, &bytes_per_s); /* here, for all are here */
    }
    free(reports);
    return status;
}

void follow_end(const struct tern_model *m)
{
    struct order end = {.kind = ORDER_END};
    if (!all.open || machines_rank() || (m && !split_of(m->model)))
        return;
    machines_broadcast(&end, sizeof end);
    all.open = false;
}

enum tern_status follow_alone(const struct tern_model *m, const char *what, struct tern_error *e)
{
    return split_of(m->model)
               ? error_set(e, TERN_USAGE, "%s works on one machine only, and here are %d", what,
                           machines_size())
               : TERN_OK;
}

/* ---- orders ---- */

static bool leads(const tern_context *c)
{
    return machines_rank() == 0 && split_of(c->model->model);
}

static void give(const tern_context *c, struct order order, const void *more, size_t bytes)
{
    if (!leads(c))
        return;
    order.context = c->number;
    machines_broadcast(&order, sizeof order);
    if (bytes) {
        void *copy = (void *)(uintptr_t)more; /* which a broadcast of rank 0 only reads */
        machines_broadcast(copy, bytes);
    }
}

/* Of one machine: rank 0 says what is wanted, and all say what that takes there. */
static enum tern_status plan_on_all(const struct tern_model *m, const struct tern_context_params *p,
                                    plan_fn plan_here, struct tern_memory *plan,
                                    struct tern_error *e)
{
    size_t at[MOST_MACHINES + 1], n = (size_t)machines_size();
    struct planned *own = &all.planned[machines_rank()];
    enum tern_status s = plan_here(m, p, plan, e);
    for (size_t r = 0; r <= n; r++)
        at[r] = r * sizeof *own;
    *own = (struct planned){.memory = *plan, .status = s};
    put_text(own->message, sizeof own->message, s ? e->text : "");
    machines_gather(all.planned, at);
    for (size_t r = 0; r < n && !s; r++)
        if (all.planned[r].status)
            s = error_set(e, all.planned[r].status, "%s: %s", machines_host((int)r),
                          all.planned[r].message);
    return s;
}

static enum tern_status plan_as_ordered(const struct tern_model *m,
                                        const struct tern_context_params *p, plan_fn plan_here,
                                        struct tern_memory *plan, struct tern_error *e)
{
    struct order order = {.kind = ORDER_PLAN};
    struct tern_context_params params = *p;
    machines_broadcast(&order, sizeof order);
    machines_broadcast(&params, sizeof params);
    return plan_on_all(m, &params, plan_here, plan, e);
}

/* A context of the model's length is reduced to what the smallest machine has room for. */
enum tern_status follow_planned(const struct tern_model *m, const struct tern_context_params *p,
                                plan_fn plan_here, struct tern_memory *plan, struct tern_error *e)
{
    struct tern_context_params params = *p;
    struct tern_error mine;
    e = e ? e : &mine;
    if (!split_of(m->model))
        return plan_here(m, p, plan, e);
    if (machines_rank())
        return plan_on_all(m, p, plan_here, plan, e);
    enum tern_status s = plan_as_ordered(m, p, plan_here, plan, e);
    uint32_t least = plan->n_ctx;
    for (int r = 0; r < machines_size(); r++)
        least = all.planned[r].memory.n_ctx < least ? all.planned[r].memory.n_ctx : least;
    if (!s && least < plan->n_ctx) {
        params.n_ctx = least;
        s = plan_as_ordered(m, &params, plan_here, plan, e);
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
                                 .memory = all.planned[rank].memory};
    return 1;
}

void lead_open(tern_context *c, const struct tern_memory *plan)
{
    size_t n = 0;
    while (n + 1 < MOST_CONTEXTS && all.contexts[n])
        n++;
    c->number = (uint32_t)n;
    if (leads(c))
        all.contexts[n] = c;
    give(c, (struct order){.kind = ORDER_OPEN}, plan, sizeof *plan);
}

/* The first machine's failure that all reports tell of, or this one's */
static enum tern_status agree(enum tern_status status, struct tern_error *e)
{
    size_t n = (size_t)machines_size();
    struct report *reports = calloc(n, sizeof *reports);
    if (!reports)
        return error_memory(e, "the machines' reports", n * sizeof *reports);
    put_report(&reports[machines_rank()], status, e);
    (void)meet(reports);
    for (size_t r = 0; r < n && !status; r++)
        if (reports[r].status)
            status = error_set(e, reports[r].status, "%s: %s", reports[r].host, reports[r].message);
    free(reports);
    return status;
}

void lead_check(const struct tern_model *m)
{
    struct order order = {.kind = ORDER_CHECK};
    if (split_of(m->model) && machines_rank() == 0)
        machines_broadcast(&order, sizeof order);
}

enum tern_status follow_checked(const struct tern_model *m, enum tern_status status,
                                struct tern_error *e)
{
    return split_of(m->model) ? agree(status, e) : status;
}

/* Rows of a long batch: taken when a context opens, for running one cannot fail */
static struct order_row *room_for(size_t n)
{
    if (n > all.n_rows) {
        struct order_row *rows = realloc(all.rows, n * sizeof *rows);
        all.rows = rows ? rows : all.rows, all.n_rows = rows ? n : all.n_rows;
    }
    return n <= all.n_rows ? all.rows : NULL;
}

enum tern_status follow_opened(tern_context *c, enum tern_status status, struct tern_error *e)
{
    size_t n = c->memory.n_batch;
    if (!split_of(c->model->model))
        return status;
    if (!status && !room_for(n))
        status = error_memory(e, "the rows of a batch", n * sizeof *all.rows);
    return agree(status, e);
}

enum tern_status follow_loaded(struct tern_model *m, enum tern_status status, struct tern_error *e)
{
    if (!m || !m->model || !split_of(m->model))
        return status;
    free(all.planned);
    all.planned = calloc((size_t)machines_size(), sizeof *all.planned);
    if (!status && !all.planned)
        status = error_memory(e, "the machines' plans", sizeof *all.planned);
    status = agree(status, e);
    all.open = !status; /* else all know, and nobody follows */
    return status;
}

void lead_close(tern_context *c)
{
    if (!leads(c) || all.contexts[c->number] != c)
        return;
    give(c, (struct order){.kind = ORDER_CLOSE}, NULL, 0);
    all.contexts[c->number] = NULL;
}

static struct order_row order_row(const tern_context *c, const struct row *row)
{
    return (struct order_row){row->seq,  c->expected[row->seq], row->token, row->flags,
                              row->best, row->within,           row->trial};
}

void lead_run(tern_context *c, bool if_finite)
{
    const struct forward *f = &c->forward;
    struct order order = {.kind = ORDER_RUN, .n = f->n, .if_finite = if_finite};
    struct order_row *rows = f->n > SHORT_ROWS ? room_for(f->n) : order.rows;
    if (!leads(c)) /* the others know from the order */
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
    if (!leads(c))
        return;
    bool stop = c->forward.stopped = forward_is_cancelled(&c->forward);
    give(c, (struct order){.kind = ORDER_GUESS, .seq = seq, .token = token, .n = max, .stop = stop},
         NULL, 0);
}

void lead_prefix_find(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n)
{
    if (seq < c->memory.n_seqs)
        give(c,
             (struct order){.kind = ORDER_PREFIX_FIND, .seq = seq, .to = c->expected[seq], .n = n},
             tokens, n * sizeof *tokens);
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
    enum tern_status s = leads(c) ? store_open(&c->cache, c->model->model, e) : TERN_OK;
    if (!s)
        give(c, (struct order){.kind = ORDER_STORE}, NULL, 0);
    return s;
}

void lead_resume(tern_context *c, uint32_t seq)
{
    give(c, (struct order){.kind = ORDER_RESUME, .seq = seq}, NULL, 0);
}

/* ---- following ---- */

/* A batch as rank 0 has it: what it was allowed to add can be added here. */
static void follow_run(tern_context *c, const struct order *order)
{
    const struct order_row *rows = order->rows;
    size_t n = (size_t)order->n;
    if (n > SHORT_ROWS) {
        rows = room_for(n);
        machines_broadcast(all.rows, n * sizeof *rows);
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

static enum tern_status follow_open(tern_model *m, const struct order *order, struct tern_error *e)
{
    struct tern_memory plan;
    machines_broadcast(&plan, sizeof plan);
    enum tern_status s = memory_plan_again(m, &plan, e);
    if (s)
        return agree(s, e);
    return tern_context_open_plan(&all.contexts[order->context], m, &plan, e);
}

static void follow_plan(const tern_model *m, struct tern_error *e)
{
    struct tern_context_params params;
    struct tern_memory plan;
    machines_broadcast(&params, sizeof params);
    (void)tern_context_plan(m, &params, &plan, e);
}

static enum tern_status follow_find(tern_context *c, const struct order *order,
                                    struct tern_error *e)
{
    size_t n = (size_t)order->n;
    tern_token *tokens = malloc(n * sizeof *tokens + 1);
    if (!tokens)
        return error_memory(e, "a prefix", n * sizeof *tokens);
    machines_broadcast(tokens, n * sizeof *tokens);
    c->expected[order->seq] = order->to;
    (void)tern_prefix_find(c, order->seq, tokens, n);
    free(tokens);
    return TERN_OK;
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

/* False at the end. */
static bool follow(tern_model *m, const struct order *order, enum tern_status *s,
                   struct tern_error *e)
{
    tern_context *c = all.contexts[order->context];
    switch ((enum order_kind)order->kind) {
    case ORDER_END:
        return false;
    case ORDER_OPEN:
        (void)follow_open(m, order, e);
        break;
    case ORDER_CHECK:
        (void)tern_model_check(m, e);
        break;
    case ORDER_PLAN:
        follow_plan(m, e);
        break;
    case ORDER_CLOSE:
        tern_context_close(c);
        all.contexts[order->context] = NULL;
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
        *s = follow_find(c, order, e);
        break;
    case ORDER_PREFIX_KEEP:
        tern_prefix_keep(c, order->seq);
        break;
    case ORDER_PREFIX_CLEAR:
        tern_prefix_clear(c);
        break;
    case ORDER_STORE:
        *s = store_follow(&c->cache, &c->prefixes, m->model, e);
        break;
    case ORDER_RESUME:
        follow_resume(c, order->seq);
        break;
    }
    return !*s;
}

enum tern_status tern_follow(tern_model *m, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    struct order order;
    if (machines_rank() == 0 || !split_of(m->model))
        return error_set(
            e, TERN_USAGE,
            "only a machine beside the first can follow, with the model that all have");
    do
        machines_broadcast(&order, sizeof order);
    while (follow(m, &order, &s, e));
    all.open = false;
    return s;
}

#endif
