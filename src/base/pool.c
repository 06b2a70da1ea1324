/* cflags: -O2 */
/* The thread pool: see pool.h. A run writes every thread's share, publishes its function and bumps
 * `epoch`, on which workers wait. A worker enters the run, works until no share has anything left, and
 * leaves, which is subtracted from `pending`, on which the caller waits. The caller never waits for a
 * thread that has no processor or is still waking: it does that share, too, and closes the run to who
 * has not entered.
 *
 * Who waits spins first and then sleeps: on a futex on Linux, on a condition elsewhere (and with
 * -DPOOL_PORTABLE). How long to spin is learned: longer when what was waited for came soon, half as
 * long when it did not: then another thread needs the processor, and spinning only delays it.
 * With more threads than processors nobody spins at all. */
#include "base/pool.h"

#include "base/affinity.h"
#include "base/clock.h"
#include "base/fpenv.h"
#include "base/thread_count.h"
#include "base/strict.h"
#include "base/thread.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && !defined(POOL_PORTABLE)
#define POOL_FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
    MAX_THREADS = 1024,
    SPIN_STEP = 64,        /* pauses between two looks at the clock, about 1 us */
    SPIN_FIRST_NS = 30000, /* longer than a caller's work between two runs of a token */
    SPIN_LEAST_NS = 2000,
    SPIN_MOST_NS = 100000, /* about what it costs to sleep and to be woken */
    STACK_BYTES = 1 << 20, /* kernels keep small tiles on the stack, nothing large */
};

/* A number that threads wait for to change. */
struct event {
    _Alignas(64) atomic_uint value;
    atomic_uint sleepers;
#ifndef POOL_FUTEX
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
};

/* A thread of the pool; the first one is the caller. */
struct seat {
    _Alignas(64) atomic_uint_least64_t share; /* items that nobody has taken: begin << 32 | end */
    atomic_uint entered; /* the last run that the worker has entered, or that was closed to it */
    struct pool *pool;
    pthread_t thread;
    int index;
    uint64_t spin_ns;
};

struct pool {
    struct event epoch, pending;
    _Alignas(64) pool_fn fn; /* these three are written before epoch changes */
    void *arg;
    size_t pieces;    /* of a share, at most about */
    size_t least;     /* items of a piece */
    atomic_bool stop; /* a late worker looks at it while the caller goes on */
    bool spin;
    atomic_int caller; /* its processor */
    bool running;      /* guards against a run within a run */
    int (*ask)(void *arg); /* pool_stop_when, or NULL; written while nothing runs */
    void *ask_arg;
    atomic_bool stopped; /* it said so */
    int n_threads, n_started;
    pthread_mutex_t step;
    struct seat seats[];
};

/* ---- waiting ------------------------------------------------------------------------------- */

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` does nothing on most cores */
#endif
}

static bool event_is(const struct event *ev, unsigned old)
{
    return atomic_load_explicit(&ev->value, memory_order_acquire) == old;
}

/* True when the value stopped being `old` within a few pauses. */
static bool event_glance(const struct event *ev, unsigned old)
{
    for (unsigned i = 0; i < SPIN_STEP; i++) {
        if (!event_is(ev, old))
            return true;
        cpu_pause();
    }
    return false;
}

/* The order that loses no wake-up: a waiter counts itself, then looks at the value; who changes the
 * value does so first, then looks at the count. All of it sequentially consistent. */
#ifdef POOL_FUTEX

static void event_init(struct event *ev)
{
    (void)ev;
}

static void event_close(struct event *ev)
{
    (void)ev;
}

static void event_sleep(struct event *ev, unsigned old)
{
    atomic_fetch_add(&ev->sleepers, 1);
    while (atomic_load(&ev->value) == old)
        syscall(SYS_futex, &ev->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&ev->sleepers, 1);
}

static void event_wake(struct event *ev)
{
    if (atomic_load(&ev->sleepers))
        syscall(SYS_futex, &ev->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

static void event_init(struct event *ev)
{
    pthread_mutex_init(&ev->mutex, NULL);
    pthread_cond_init(&ev->changed, NULL);
}

static void event_close(struct event *ev)
{
    pthread_cond_destroy(&ev->changed);
    pthread_mutex_destroy(&ev->mutex);
}

static void event_sleep(struct event *ev, unsigned old)
{
    pthread_mutex_lock(&ev->mutex);
    atomic_fetch_add(&ev->sleepers, 1);
    while (atomic_load(&ev->value) == old)
        pthread_cond_wait(&ev->changed, &ev->mutex);
    atomic_fetch_sub(&ev->sleepers, 1);
    pthread_mutex_unlock(&ev->mutex);
}

static void event_wake(struct event *ev)
{
    if (atomic_load(&ev->sleepers)) {
        pthread_mutex_lock(&ev->mutex);
        pthread_cond_broadcast(&ev->changed);
        pthread_mutex_unlock(&ev->mutex);
    }
}

#endif

/* Waits until the value is no longer `old`. *spin_ns is how long to spin, and learns. */
static void event_wait(struct event *ev, unsigned old, uint64_t *spin_ns)
{
    if (!*spin_ns) {
        event_sleep(ev, old);
        return;
    }
    if (event_glance(ev, old))
        return;
    const uint64_t begin = clock_ns();
    uint64_t waited = 0;
    while (!event_glance(ev, old) && (waited = clock_ns() - begin) < *spin_ns)
        ;
    if (event_is(ev, old))
        event_sleep(ev, old), waited = clock_ns() - begin;
    if (waited > SPIN_MOST_NS)
        *spin_ns = *spin_ns / 2 > SPIN_LEAST_NS ? *spin_ns / 2 : SPIN_LEAST_NS;
    else if (waited > *spin_ns / 2)
        *spin_ns = *spin_ns * 2 < SPIN_MOST_NS ? *spin_ns * 2 : SPIN_MOST_NS;
}

/* ---- work ---------------------------------------------------------------------------------- */

void pool_stop_when(struct pool *p, int (*stop)(void *arg), void *arg)
{
    p->ask = stop, p->ask_arg = arg;
    atomic_store(&p->stopped, false);
}

bool pool_stopped(struct pool *p, int thread)
{
    if (!p->ask)
        return false;
    if (thread == 0 && !atomic_load(&p->stopped) && p->ask(p->ask_arg))
        atomic_store(&p->stopped, true);
    return atomic_load(&p->stopped);
}

static uint64_t items(size_t begin, size_t end)
{
    return (uint64_t)begin << 32 | end;
}

static size_t items_left(uint64_t share)
{
    return (uint32_t)share - (size_t)(share >> 32);
}

/* Orders of the shares are relaxed: what a piece reads was published by `epoch`, and what it wrote
 * is published by `pending`. A share may become again what it was: then these items are there again. */

/* Takes the next piece of a thread's own share; false when nothing is left. */
static bool take(struct seat *s, size_t least, size_t *begin, size_t *end)
{
    uint64_t old = atomic_load_explicit(&s->share, memory_order_relaxed);
    do {
        const size_t left = items_left(old);
        if (!left)
            return false;
        const size_t quarter = (left + 3) / 4, n = quarter > least ? quarter : least;
        *begin = (size_t)(old >> 32);
        *end = *begin + (n < left ? n : left);
    } while (!atomic_compare_exchange_weak_explicit(&s->share, &old, items(*end, (uint32_t)old),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Fills the empty share of `s` with the second half of the fullest; false when all are empty. */
static bool steal(struct pool *p, struct seat *s)
{
    for (;;) {
        struct seat *from = NULL;
        uint64_t most = 0;
        for (int i = 0; i < p->n_threads; i++) {
            const uint64_t has = atomic_load_explicit(&p->seats[i].share, memory_order_relaxed);
            if (items_left(has) > items_left(most))
                from = &p->seats[i], most = has;
        }
        if (!from)
            return false;
        const size_t half = items_left(most) / 2, n = half > p->least ? half : p->least;
        const size_t end = (uint32_t)most, left = items_left(most);
        const size_t at = end - (n < left ? n : left);
        if (atomic_compare_exchange_strong_explicit(&from->share, &most,
                                                    items((size_t)(most >> 32), at),
                                                    memory_order_relaxed, memory_order_relaxed)) {
            atomic_store_explicit(&s->share, items(at, end), memory_order_relaxed);
            return true;
        }
    }
}

/* Thread `thread` works until nothing is left that nobody has taken. Who entered the run, or began
 * it, may read what it published: it does not end before. */
static void work(struct pool *p, int thread)
{
    struct seat *s = &p->seats[thread];
    size_t begin, end;
    do
        while (take(s, p->least, &begin, &end)) {
            if (pool_stopped(p, thread))
                return;
            p->fn(p->arg, begin, end, thread);
        }
    while (steal(p, s));
}

/* The worker enters run `epoch`, or the caller closes it to the worker: who comes first. The run
 * before was entered or closed. */
static bool enter(struct seat *s, unsigned epoch)
{
    unsigned before = epoch - 1;
    return atomic_compare_exchange_strong(&s->entered, &before, epoch);
}

/* The system may start or wake a worker on the caller's processor and leave it there for a tenth of
 * a second, in which the two only disturb each other. */
static void step_aside(struct pool *p)
{
    const int here = affinity_here();
    if (p->spin && here >= 0 && here == atomic_load_explicit(&p->caller, memory_order_relaxed))
        affinity_leave(here);
}

static void *worker_main(void *arg)
{
    struct seat *s = arg;
    struct pool *p = s->pool;

    fpenv_enter();
    for (unsigned seen = 0;;) {
        event_wait(&p->epoch, seen, &s->spin_ns);
        seen = atomic_load(&p->epoch.value);
        if (p->stop)
            return NULL;
        if (!enter(s, seen)) {
            step_aside(p);
            continue;
        }
        work(p, s->index);
        if (atomic_fetch_sub(&p->pending.value, 1) == 1)
            event_wake(&p->pending);
    }
}

/* Who has not entered need not, when nothing is left. */
static void close_run(struct pool *p, unsigned epoch)
{
    for (int i = 1; i < p->n_threads; i++)
        if (enter(&p->seats[i], epoch))
            atomic_fetch_sub(&p->pending.value, 1);
}

static void share_out(struct pool *p, size_t n_items)
{
    const size_t n = (size_t)p->n_threads, each = n_items / n, more = n_items % n;
    for (size_t t = 0, begin = 0, end; t < n; t++, begin = end) {
        end = begin + each + (t < more); /* the first `more` get one more */
        atomic_store_explicit(&p->seats[t].share, items(begin, end), memory_order_relaxed);
    }
    p->least = each / p->pieces + 1;
}

static void run_all(struct pool *p, size_t n_items, pool_fn fn, void *arg)
{
    assert(!p->running && n_items <= UINT32_MAX);
    p->running = true;
    p->fn = fn, p->arg = arg;
    share_out(p, n_items);
    atomic_store(&p->pending.value, (unsigned)p->n_threads - 1);
    atomic_store_explicit(&p->caller, affinity_here(), memory_order_relaxed);
    const unsigned epoch = atomic_fetch_add(&p->epoch.value, 1) + 1;
    event_wake(&p->epoch);
    work(p, 0);
    close_run(p, epoch);
    for (unsigned left; (left = atomic_load(&p->pending.value));)
        event_wait(&p->pending, left, &p->seats[0].spin_ns);
    p->running = false;
}

/* One thread does all at once, but piece by piece where somebody may stop it. */
static void run_alone(struct pool *p, size_t n_items, pool_fn fn, void *arg)
{
    const size_t piece = p->ask ? n_items / p->pieces + 1 : n_items;
    for (size_t i = 0; i < n_items && !pool_stopped(p, 0); i += piece)
        fn(arg, i, i + piece < n_items ? i + piece : n_items, 0);
}

void pool_run(struct pool *p, size_t n_items, pool_fn fn, void *arg)
{
    if (p->n_threads == 1 || n_items <= 1)
        run_alone(p, n_items, fn, arg);
    else
        run_all(p, n_items, fn, arg);
}

void pool_cut(struct pool *p, size_t pieces)
{
    p->pieces = pieces;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Starts the workers; false when the system has no more threads. */
static bool start_workers(struct pool *p)
{
    bool ok = true;
    for (int i = 1; i < p->n_threads && ok; i++) {
        struct seat *s = &p->seats[i];
        s->pool = p, s->index = i, s->spin_ns = p->seats[0].spin_ns;
        ok = !thread_start(&s->thread, STACK_BYTES, worker_main, s, NULL);
        p->n_started += ok;
    }
    return ok;
}

enum tern_status pool_open(struct pool **out, int n_threads, struct tern_error *e)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return error_set(e, TERN_USAGE, "%d threads asked for; 1 to %d are possible", n_threads,
                         MAX_THREADS);
    size_t bytes = sizeof(struct pool) + (size_t)n_threads * sizeof(struct seat);
    bytes = (bytes + 63) / 64 * 64;
    struct pool *p = aligned_alloc(64, bytes);
    if (!p)
        return error_memory(e, "the thread pool", bytes);
    memset(p, 0, bytes);
    p->n_threads = n_threads;
    p->pieces = POOL_COARSE;
    p->spin = n_threads <= thread_count_most();
    p->seats[0].spin_ns = p->spin ? SPIN_FIRST_NS : 0;
    event_init(&p->epoch);
    event_init(&p->pending);
    pthread_mutex_init(&p->step, NULL);
    if (!start_workers(p)) {
        const int n = p->n_started + 1;
        pool_close(p);
        return error_set(e, TERN_NO_MEMORY,
                         "the system starts only %d of %d threads; ask for fewer", n, n_threads);
    }
    *out = p;
    return TERN_OK;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    p->stop = true;
    atomic_fetch_add(&p->epoch.value, 1);
    event_wake(&p->epoch);
    for (int i = 1; i <= p->n_started; i++)
        pthread_join(p->seats[i].thread, NULL);
    pthread_mutex_destroy(&p->step);
    event_close(&p->pending);
    event_close(&p->epoch);
    free(p);
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}

void pool_lock(struct pool *p)
{
    pthread_mutex_lock(&p->step);
}

void pool_unlock(struct pool *p)
{
    pthread_mutex_unlock(&p->step);
}

void pool_once(atomic_bool *done, void (*make)(void))
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    if (atomic_load_explicit(done, memory_order_acquire))
        return;
    pthread_mutex_lock(&making);
    if (!atomic_load_explicit(done, memory_order_relaxed))
        make();
    atomic_store_explicit(done, true, memory_order_release);
    pthread_mutex_unlock(&making);
}
