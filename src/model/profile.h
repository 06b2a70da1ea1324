/* Where a batch's time goes: every run of the pool belongs to an operation, and while a profile is
 * attached to struct forward, its time and each thread's share of work are added up. Without one,
 * profile_run is pool_run behind one test of a pointer. Timing changes no bit: the same functions
 * get the same items.
 * ADDING AN OPERATION: a name here, its name and cost in profile.c. */
#ifndef MODEL_PROFILE_H
#define MODEL_PROFILE_H

#include <stdint.h>

#include "base/clock.h"
#include "base/pool.h"
#include "model/model.h"

struct cache;
struct row;

enum operation {
    OP_EMBED,
    OP_NORM, /* norms and quantization of a step's input */
    OP_QKV,
    OP_ATTEND,
    OP_CONVOLVE,
    OP_RECUR,
    OP_OUT,
    OP_ROUTER,
    OP_GATE_UP,
    OP_DOWN,
    OP_LOGITS,
    OP_GUESS, /* all of the layer that guesses; its bytes are not counted */
    N_OPERATIONS
};

struct profile_cost { /* of a batch, from its shape alone */
    uint64_t bytes;   /* weights and cache that must be read once */
    uint64_t macs;    /* multiply-adds of matmuls and attention */
};

struct profile_op {
    uint64_t calls, ns;
    uint64_t wait_ns; /* mean over the threads of the time in which a thread had no work */
};

/* What an item of attention is: KV heads, rows of the batch and blocks from a first one on */
struct profile_note {
    uint32_t kv_head, n_kv_heads, row, n_rows, block, n_blocks;
};

struct profile_thread { /* within one run of the pool; on a cache line of its own */
    _Alignas(64) uint64_t busy_ns;
    uint64_t inner_ns;        /* of busy_ns: preparing the one row of the batch */
    struct profile_note note; /* of the last item */
};

/* A thread's items first .. last - 1 of a run of `op`, and when it had them in work */
struct profile_span {
    enum operation op;
    size_t layer; /* n_layers: outside of the layers */
    int thread;
    uint64_t begin_ns, end_ns;
    size_t first, last;
    struct profile_note note; /* n_rows 0: none */
};

/* Who wants to see each span, as it ends, in its thread; and the end of each run of the pool over n
 * items, in the thread that ran it. */
struct profile_watcher {
    void (*span)(struct profile_watcher *w, const struct profile_span *span);
    void (*run)(struct profile_watcher *w, size_t n, uint64_t end_ns);
};

struct profile { /* the two functions are pointers so that programs that never measure lack them */
    void (*count)(const struct model *m, const struct cache *cache, const struct row *rows,
                  size_t n, struct profile_cost *cost);
    void (*run)(struct profile *p, enum operation op, struct pool *pool, size_t n,
                pool_fn fn, void *arg);
    struct profile_op ops[N_OPERATIONS];
    struct profile_cost cost[N_OPERATIONS];
    struct profile_thread *threads;
    int n_threads;
    size_t layer;
    struct profile_watcher *watcher; /* borrowed; NULL: nobody watches */
    enum operation op;               /* of the current run, like fn and arg */
    pool_fn fn;
    void *arg;
};

enum tern_status profile_open(struct profile **out, int n_threads, struct tern_error *e);
void profile_close(struct profile *p); /* NULL is fine */

/* Adds what evaluating rows [n] as one batch must read and compute to cost [N_OPERATIONS]. The rows
 * of a sequence share its cache, and all rows share the weights. */
void profile_cost(const struct model *m, const struct cache *cache, const struct row *rows,
                  size_t n, struct profile_cost *cost);
/* The same of one layer alone */
void profile_layer_cost(const struct model *m, const struct cache *cache, size_t layer,
                        const struct row *rows, size_t n, struct profile_cost *cost);

const char *profile_name(enum operation op);

/* pool_run, for operation `op` of the profile (NULL: none). */
static inline void profile_run(struct profile *p, enum operation op, struct pool *pool, size_t n,
                               pool_fn fn, void *arg)
{
    if (p)
        p->run(p, op, pool, n, fn, arg);
    else
        pool_run(pool, n, fn, arg);
}

/* The layer that is in work; n_layers outside of them. */
static inline void profile_layer(struct profile *p, size_t layer)
{
    if (p)
        p->layer = layer;
}

static inline void profile_note(struct profile *p, int thread, struct profile_note note)
{
    if (p)
        p->threads[thread].note = note;
}

/* Around work inside an item that is not the run's own operation but OP_NORM. */
static inline uint64_t profile_begin(const struct profile *p)
{
    return p ? clock_ns() : 0;
}

static inline void profile_end(struct profile *p, int thread, uint64_t begin)
{
    if (p)
        p->threads[thread].inner_ns += clock_ns() - begin;
}

#endif
