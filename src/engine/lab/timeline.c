/* The timeline: tern_timeline of tern_lab.h. Each thread writes to a list of its own. */
#include "engine/lab/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/context.h"
#include "tern_lab.h"

struct timeline_thread {
    struct tern_span *spans; /* [n] of room for `room` */
    size_t n, run;           /* run: the first span of the current run */
    uint64_t lost;
};

struct timeline {
    struct profile_watcher watcher; /* first: the profile has its address */
    struct tern_context *ctx;
    uint64_t start_ns;
    size_t room;
    int n_threads;
    struct timeline_thread *threads; /* [n_threads], with their spans behind them; owned */
    struct profile_cost *cost;       /* [n_layers + 1, N_OPERATIONS] of the batch in work; owned */
};

static struct timeline *timeline_of(const struct profile *p)
{
    return p ? (struct timeline *)(void *)p->watcher : NULL;
}

/* ---- while the model runs -------------------------------------------------------------------- */

static void add_span(struct profile_watcher *w, const struct profile_span *span)
{
    struct timeline *t = (struct timeline *)(void *)w;
    struct timeline_thread *own = &t->threads[span->thread];
    if (own->n == t->room) {
        own->lost++;
        return;
    }
    struct tern_span *s = &own->spans[own->n++];
    *s = (struct tern_span){.operation = profile_name(span->op),
                            .layer = span->layer,
                            .thread = span->thread,
                            .begin = (double)(span->begin_ns - t->start_ns) * 1e-9,
                            .end = (double)(span->end_ns - t->start_ns) * 1e-9,
                            .kv_head = span->note.kv_head,
                            .n_kv_heads = span->note.n_kv_heads,
                            .row = span->note.row,
                            .n_rows = span->note.n_rows,
                            .block = span->note.block,
                            .n_blocks = span->note.n_blocks};
    /* until the end of the run: how many items it had */
    s->bytes = (t->cost[span->layer * N_OPERATIONS + span->op].bytes) * (span->last - span->first);
}

/* All threads are done: now it is known how many items there were, and who waited. */
static void end_run(struct profile_watcher *w, size_t n, uint64_t end_ns)
{
    struct timeline *t = (struct timeline *)(void *)w;
    double end = (double)(end_ns - t->start_ns) * 1e-9;
    for (int i = 0; i < t->n_threads; i++) {
        struct timeline_thread *own = &t->threads[i];
        for (size_t k = own->run; k < own->n; k++) {
            own->spans[k].bytes /= n ? n : 1;
            own->spans[k].wait =
                (k + 1 < own->n ? own->spans[k + 1].begin : end) - own->spans[k].end;
        }
        own->run = own->n;
    }
}

/* The bytes of each layer's operations, before a batch; then the sums of the profile. */
static void count(const struct model *m, const struct cache *cache, const struct row *rows,
                  size_t n, struct profile_cost *cost)
{
    profile_cost(m, cache, rows, n, cost);
    struct profile *p = (struct profile *)(void *)((char *)cost - offsetof(struct profile, cost));
    struct timeline *t = timeline_of(p);
    struct profile_cost all[N_OPERATIONS] = {{0}};
    memset(t->cost, 0, (m->n_layers + 1) * N_OPERATIONS * sizeof *t->cost);
    for (size_t l = 0; l < m->n_layers; l++)
        profile_layer_cost(m, cache, l, rows, n, t->cost + l * N_OPERATIONS);
    profile_cost(m, cache, rows, n, all);
    for (int op = 0; op < N_OPERATIONS; op++)
        if (op == OP_EMBED || op == OP_LOGITS)
            t->cost[m->n_layers * N_OPERATIONS + (size_t)op] = all[op];
}

/* ---- the calls ------------------------------------------------------------------------------- */

static void drop(struct timeline *t)
{
    if (t) {
        free(t->threads);
        free(t->cost);
    }
    free(t);
}

void timeline_close(struct tern_context *c)
{
    struct timeline *t = timeline_of(c->forward.profile);
    if (t)
        c->forward.profile->watcher = NULL;
    drop(t);
}

enum tern_status tern_timeline_start(tern_context *c, size_t max_spans, struct tern_error *e)
{
    int n_threads = pool_threads(c->model->pool);
    size_t room = ceil_div(max_spans, (size_t)n_threads), n_layers = c->model->model->n_layers;
    uint64_t bytes = (uint64_t)n_threads *
                     (sizeof(struct timeline_thread) + room * (uint64_t)sizeof(struct tern_span));
    enum tern_status s = tern_profile_start(c, e);
    if (s)
        return s;
    struct timeline *t = calloc(1, sizeof *t);
    if (t && room < SIZE_MAX / sizeof(struct tern_span) / 1024) {
        t->threads =
            calloc((size_t)n_threads, sizeof *t->threads + room * sizeof(struct tern_span));
        t->cost = calloc((n_layers + 1) * N_OPERATIONS, sizeof *t->cost);
    }
    if (!t || !t->threads || !t->cost) {
        drop(t);
        tern_profile_stop(c);
        return error_memory(e, "the timeline", (size_t)bytes);
    }
    struct tern_span *spans = (struct tern_span *)(void *)(t->threads + n_threads);
    for (int i = 0; i < n_threads; i++)
        t->threads[i].spans = spans + (size_t)i * room;
    t->watcher = (struct profile_watcher){add_span, end_run};
    t->ctx = c, t->room = room, t->n_threads = n_threads, t->start_ns = clock_ns();
    c->forward.profile->watcher = &t->watcher;
    c->forward.profile->count = count;
    return TERN_OK;
}

static int by_begin(const void *a, const void *b)
{
    double x = ((const struct tern_span *)a)->begin, y = ((const struct tern_span *)b)->begin;
    return x < y ? -1 : x > y;
}

size_t tern_timeline(const tern_context *c, struct tern_span *spans, size_t max, uint64_t *lost)
{
    const struct timeline *t = timeline_of(c->forward.profile);
    size_t n = 0;
    uint64_t without_room = 0;
    for (int i = 0; t && i < t->n_threads; i++) {
        const struct timeline_thread *own = &t->threads[i];
        size_t some = n < max ? min_size(own->n, max - n) : 0;
        memcpy(spans + n, own->spans, some * sizeof *spans);
        n += own->n, without_room += own->lost;
    }
    if (n <= max && n)
        qsort(spans, n, sizeof *spans, by_begin);
    if (lost)
        *lost = without_room;
    return n;
}
