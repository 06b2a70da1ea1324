/* Several machines that open one model: see meet.h. */
#include "engine/meet.h"

#ifdef TERN_MPI

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machines.h"
#include "base/memory.h"
#include "engine/machine_speed.h"
#include "engine/order.h"
#include "model/split.h"
#include "weights/part.h"
#include "weights/weights.h"

#define MEASURED "measured"

/* MPI belongs to the process, and so does this. */
static struct {
    struct split split; /* of the model that is on all machines */
    bool open, over;    /* a model is open on all machines; somebody has left */
} all;

/* ---- reports ---- */

struct report { /* of a machine: what became of what it did */
    uint32_t status;
    bool leaves; /* its process ends */
    char message[sizeof(((struct tern_error *)0)->text)];
    /* Of a model that it opened */
    uint32_t arith, speed; /* speed: where shares are measured */
    uint64_t content_id;
    uint64_t copies, available; /* bytes: of the weights that it is about to copy */
    char version[16], share[MOST_SHARES];
};

static struct report reports[MOST_MACHINES];

static struct report *own_report(enum tern_status status, const struct tern_error *e)
{
    struct report *own = &reports[machines_rank()];
    *own = (struct report){.status = status};
    snprintf(own->message, sizeof own->message, "%s", status && e ? e->text : "");
    return own;
}

/* All get all reports; true when nobody leaves. */
static bool meet(void)
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

static enum tern_status say(int r, struct tern_error *e)
{
    return error_set(e, reports[r].status, "%s: %s", machines_host(r), reports[r].message);
}

/* Meets, and finds the first failure; what became of it here comes before. */
static enum tern_status agree(enum tern_status status, struct tern_error *e)
{
    (void)meet();
    for (int r = 0; r < machines_size() && !status; r++)
        if (reports[r].status)
            status = say(r, e);
    return status;
}

enum tern_status meet_agree(const struct tern_model *m, enum tern_status status,
                            struct tern_error *e)
{
    if (!split_of(m->model))
        return status;
    (void)own_report(status, e);
    return agree(status, e);
}

/* The copies of all processes that share the memory of machine r. What one alone has no room for, it says
 * itself (load.h). */
static enum tern_status check_copies(int r, struct tern_error *e)
{
    uint64_t sum = 0, available = reports[r].available;
    int n = 0;
    for (int i = 0; i < machines_size(); i++)
        if (machines_share(r, i))
            sum += reports[i].copies, n++;
    if (sum <= available || reports[r].copies > available)
        return TERN_OK;
    return error_set(e, TERN_NO_MEMORY,
                     "%s: copies of the weights take %llu MiB in the %d processes there, %llu MiB "
                     "are available; mapped, they need none to start with",
                     machines_host(r), (unsigned long long)(sum >> 20), n,
                     (unsigned long long)(available >> 20));
}

enum tern_status meet_copies(const struct tern_model *m, enum tern_status status, uint64_t bytes,
                             struct tern_error *e)
{
    if (!split_of(m->model))
        return status;
    struct report *own = own_report(status, e);
    own->copies = bytes, own->available = memory_available();
    status = agree(status, e);
    for (int r = 0; r < machines_size() && !status; r++)
        status = check_copies(r, e);
    return status;
}

/* ---- shares ---- */

/* until of "3,2,1"; the same for all without it */
enum tern_status meet_shares(struct split *s, size_t n, const char *text, struct tern_error *e)
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

/* Those that rank 0 was given, or the part of another machine; or each one's speed */
static enum tern_status take_shares(struct split *s, struct tern_error *e)
{
    const char *text = reports[0].share;
    for (int r = 1; r < machines_size() && !*text; r++)
        text = reports[r].share;
    bool measured = !strcmp(text, MEASURED);
    enum tern_status status = meet_shares(s, (size_t)machines_size(), measured ? "" : text, e);
    for (size_t r = 0; r < s->n && measured; r++)
        s->until[r + 1] = s->until[r] + (reports[r].speed ? reports[r].speed : 1);
    return status;
}

/* ---- parts ---- */

static enum tern_status check_part(const struct file_part *p, const char *path, bool alone,
                                   bool measured, struct tern_error *e)
{
    int rank = machines_rank(), n = machines_size();
    if (alone)
        return error_set(
            e, TERN_USAGE, "%s is part %d of %d of a model: %d machines open them (mpirun -n %d)",
            path, (int)p->rank + 1, (int)p->n_machines, (int)p->n_machines, (int)p->n_machines);
    if (p->n_machines != (uint64_t)n || p->rank != (uint64_t)rank)
        return error_set(e, TERN_USAGE, "%s is part %d of %d of a model, here is machine %d of %d",
                         path, (int)p->rank + 1, (int)p->n_machines, rank + 1, n);
    if (measured)
        return error_set(e, TERN_USAGE, "%s was cut for its shares: they cannot be measured", path);
    return TERN_OK;
}

/* The shares that were asked for, or else those of this machine's part, if it has one; and whether they, and
 * the part, are right here */
static enum tern_status find_shares(const struct tern_model *m, bool alone, const char *asked,
                                    char *shares, size_t size, struct tern_error *e)
{
    const struct file_part *p = weights_part(m->model->weights);
    bool measured = asked && !strcmp(asked, MEASURED);
    struct split unused = {0};
    enum tern_status s = TERN_OK;
    snprintf(shares, size, "%s", asked ? asked : "");
    if (asked && !measured)
        s = meet_shares(&unused, (size_t)machines_size(), *asked ? asked : " ", e);
    if (!s && p)
        s = check_part(p, weights_path(m->model->weights), alone, measured, e);
    if (!s && p && !asked)
        part_shares(p, shares, size);
    return s;
}

/* ---- the meeting ---- */

/* What is wrong with machine r, beside rank 0 */
static enum tern_status judge(int r, struct tern_error *e)
{
    const struct report *first = &reports[0], *other = &reports[r];
    const char *host = machines_host(0), *there = machines_host(r);
    if (other->status)
        return say(r, e);
    if (strcmp(other->version, first->version) || other->arith != first->arith)
        return error_set(e, TERN_USAGE,
                         "%s has tern %s (arithmetic %u), %s has %s (%u): use one build", there,
                         other->version, other->arith, host, first->version, first->arith);
    if (other->content_id != first->content_id)
        return error_set(e, TERN_BAD_FILE,
                         "%s has another model file (content id %016llx) than %s (%016llx)", there,
                         (unsigned long long)other->content_id, host,
                         (unsigned long long)first->content_id);
    return TERN_OK;
}

enum tern_status meet_open(struct tern_model *m, enum tern_status status, const char *share,
                           struct tern_error *e)
{
    char shares[sizeof reports->share] = "";
    bool alone = machines_size() == 1 || all.open || all.over;
    status = status ? status : find_shares(m, alone, share, shares, sizeof shares, e);
    if (alone)
        return status;
    struct report *own = own_report(status, e);
    own->arith = TERN_ARITH;
    snprintf(own->version, sizeof own->version, "%s", TERN_VERSION);
    memcpy(own->share, shares, sizeof shares);
    if (!status && !strcmp(shares, MEASURED))
        own->speed = machine_speed(m);
    own->content_id = status ? 0 : weights_content_id(m->model->weights);
    all.over = !meet();
    for (int r = 1; r < machines_size() && !status; r++)
        status = judge(r, e);
    if (!status)
        status = reports[0].status ? TERN_CANCELLED : take_shares(&all.split, e);
    all.open = !status;
    if (!status) {
        uint64_t exchange_ns, bytes_per_s;
        m->model->split = &all.split;
        machines_measure(&exchange_ns, &bytes_per_s); /* here, for all are here */
    }
    return status;
}

enum tern_status meet_loaded(struct tern_model *m, enum tern_status status, struct tern_error *e)
{
    if (!m || !m->model || !split_of(m->model))
        return status;
    status = meet_agree(m, status, e);
    all.open = !status; /* else all know, and nobody follows */
    return status;
}

void meet_end(const struct tern_model *m)
{
    if (!all.open || (m && !split_of(m->model)))
        return;
    if (machines_rank() == 0)
        order_end();
    all.open = false;
}

enum tern_status meet_alone(const struct tern_model *m, const char *what, struct tern_error *e)
{
    return split_of(m->model)
               ? error_set(e, TERN_USAGE, "%s works on one machine only, and here are %d", what,
                           machines_size())
               : TERN_OK;
}

/* ---- the process ---- */

/* A process that ends tells the others, which may wait for it with a model that they opened. */
static void leave(void)
{
    struct tern_error e = {.text = "it ended before it opened the model"};
    meet_end(NULL);
    own_report(TERN_IO, &e)->leaves = true;
    if (!all.over)
        (void)meet();
    all.over = true;
}

enum tern_status tern_machines_start(void (*lost)(const char *sentence), struct tern_error *e)
{
    char sizes[64]; /* of what they send each other: builds that differ in them cannot talk */
    snprintf(sizes, sizeof sizes, "%zu, %zu, %zu, %zu", sizeof(struct report), sizeof(struct order),
             sizeof(struct planned), sizeof(struct tern_context_params));
    enum tern_status s = machines_start(sizes, lost, e);
    if (!s)
        atexit(leave);
    return s;
}

uint32_t tern_machines(uint32_t *rank)
{
    *rank = (uint32_t)machines_rank();
    return (uint32_t)machines_size();
}

#endif
