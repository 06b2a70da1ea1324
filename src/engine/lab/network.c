/* What all machines do together: see network.h. */
#include "engine/lab/network.h"

#ifdef TERN_MPI

#include <math.h>

#include "base/machines.h"
#include "base/thread_count.h"
#include "engine/meet.h"
#include "engine/memory_plan.h"
#include "model/split.h"

enum { GATHERS = 4 /* of a layer (split.h) */ };

struct speed { /* of a machine */
    double speed;
    int64_t socket; /* the processors that it may use are on it */
};

static struct speed speeds[MOST_MACHINES]; /* as measured last */

void tern_network(struct tern_network *use)
{
    struct machines_use u;
    machines_used(&u);
    *use = (struct tern_network){.calls = u.calls,
                                 .sent = u.sent,
                                 .received = u.received,
                                 .gathers = u.gathers,
                                 .gathered = u.gathered,
                                 .wait_seconds = (double)u.wait_ns * 1e-9};
}

/* ---- together ---- */

void network_begin(const struct tern_model *m, bool reads, enum tern_type type)
{
    struct order order = {.kind = ORDER_METER, .n = reads, .token = (int32_t)type};
    if (!m || !split_of(m->model))
        return;
    if (machines_rank() == 0)
        order_give(order, NULL, 0);
    (void)meet_agree(m, TERN_OK, NULL); /* all are ready */
}

double network_together(const struct tern_model *m, double here)
{
    const struct split *s = m ? split_of(m->model) : NULL;
    size_t at[MOST_MACHINES + 1];
    double slowest = INFINITY;
    if (!s)
        return here;
    speeds[s->rank] = (struct speed){here, thread_count_socket()};
    for (size_t r = 0; r <= s->n; r++)
        at[r] = r * sizeof *speeds;
    machines_gather(speeds, at);
    for (size_t r = 0; r < s->n; r++) {
        double share = (double)(s->until[r + 1] - s->until[r]) / (double)s->until[s->n];
        if (share * slowest > speeds[r].speed)
            slowest = speeds[r].speed / share;
    }
    return slowest;
}

void network_follow(struct tern_model *m, const struct order *order)
{
    tern_meter *meter;
    struct tern_error e;
    if (tern_meter_open(&meter, m, &e)) {
        (void)meet_agree(m, TERN_NO_MEMORY, &e);
        (void)network_together(m, 0);
        return;
    }
    if (order->n)
        (void)tern_meter_read(meter);
    else
        (void)tern_meter_peak(meter, (enum tern_type)order->token, NULL);
    tern_meter_close(meter);
}

/* ---- cost ---- */

/* What one process in the place of those on the first machine would read; *beside: how many they are. Two
 * on two sockets are two machines. */
static double read_alone(const struct split *s, uint32_t *beside)
{
    double sum = 0;
    for (int r = 0; r < (int)s->n; r++)
        if (machines_share(0, r) && speeds[r].socket == speeds[0].socket)
            sum += speeds[r].speed, ++*beside;
    return sum;
}

enum tern_status tern_network_cost(tern_model *model, struct tern_network_cost *cost,
                                   struct tern_error *e)
{
    const struct model *m = model->model;
    const struct split *s = split_of(m);
    tern_meter *meter;
    struct tern_machine first;
    uint64_t ns, speed;
    *cost = (struct tern_network_cost){0};
    if (!tern_machine(model, 0, &first) || !first.memory.n_ctx ||
        memory_plan_alone(model, &first.memory) > first.for_files)
        return TERN_OK;
    enum tern_status status = tern_meter_open(&meter, model, e);
    if (status)
        return status;
    double bytes = (double)model_token_bytes(m), together = tern_meter_read(meter);
    double travel = (double)split_token_bytes(m) * (double)(s->n - 1) / (double)s->n;
    tern_meter_close(meter);
    if (together <= 0)
        return TERN_OK;
    machines_measure(&ns, &speed);
    cost->exchange = (double)ns * 1e-9, cost->bytes_per_second = (double)speed;
    cost->exchanges = GATHERS * m->n_layers + 3; /* an order; the logits; what all agree on */
    cost->alone = bytes / (read_alone(s, &cost->beside) * 1e9);
    cost->together = bytes / (together * 1e9) + (double)cost->exchanges * cost->exchange +
                     travel / cost->bytes_per_second;
    return TERN_OK;
}

#endif
