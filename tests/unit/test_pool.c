/* The thread pool: every item is run once, in the ranges that the contract names, in the state that
 * exactness needs. Also what the thread sanitizer watches. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "base/clock.h"
#include "base/pool.h"
#include "suite.h"

#include <dirent.h>
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 5000, ROUNDS = 2000 };

static struct pool *open_pool(int n_threads)
{
    struct tern_error e = {0};
    struct pool *p = NULL;
    ck_assert_msg(pool_open(&p, n_threads, &e) == TERN_OK, "%s", e.text);
    ck_assert_int_eq(pool_threads(p), n_threads);
    return p;
}

struct tally {
    unsigned char runs[MAX_ITEMS]; /* how often each item was run */
    size_t begin[MAX_ITEMS];       /* of its range */
    atomic_int n_empty;            /* calls with no item */
};

static void tally_items(void *arg, size_t begin, size_t end, int thread)
{
    struct tally *t = arg;
    (void)thread;
    t->n_empty += begin >= end;
    for (size_t i = begin; i < end; i++) {
        t->runs[i]++;
        t->begin[i] = begin;
    }
}

/* True when each of the first n items, and no other below `max`, was run once. */
static bool all_once(const struct tally *t, size_t n, size_t max)
{
    for (size_t i = 0; i < max; i++)
        if (t->runs[i] != (i < n))
            return false;
    return !t->n_empty;
}

/* Every count from 0 up: each item once. Alone, all at once. */
START_TEST(each_item_once)
{
    struct pool *p = open_pool(_i);
    for (size_t n = 0; n < 200; n++) {
        struct tally t = {0};
        pool_run(p, n, tally_items, &t);
        ck_assert(all_once(&t, n, 200));
        for (size_t i = 0; i < n && _i == 1; i++)
            ck_assert_uint_eq(t.begin[i], 0);
    }
    pool_close(p);
}
END_TEST

/* Items, of which that with number `held` waits until the others are done, all but its piece. */
struct hold {
    size_t n, held;
    atomic_size_t n_done;
    size_t held_end; /* of its piece */
};

static void hold_items(void *arg, size_t begin, size_t end, int thread)
{
    struct hold *h = arg;
    (void)thread;
    if (begin <= h->held && h->held < end) {
        h->held_end = end;
        while (h->n_done < h->n - (end - begin))
            sched_yield();
    }
    h->n_done += end - begin;
}

/* A thread that comes no further keeps the piece it has in work, no more: at most a quarter of its
 * share. The others do what is left of it, and do not wait. */
START_TEST(others_do_what_a_slow_thread_has_left)
{
    struct pool *p = open_pool(3);
    for (size_t n = 3; n < 1000; n += n / 3) {
        for (size_t held = 0; held < n; held += n / 9 + 1) {
            struct hold h = {.n = n, .held = held};
            pool_run(p, n, hold_items, &h);
            ck_assert_uint_eq(h.n_done, n);
            ck_assert_uint_le(h.held_end - held, (n + 2) / 3 / 4 + 1);
        }
    }
    pool_close(p);
}
END_TEST

static void note_caller(void *arg, size_t begin, size_t end, int thread)
{
    (void)begin, (void)end, (void)thread;
    *(pthread_t *)arg = pthread_self();
}

START_TEST(one_item_runs_on_the_caller)
{
    struct pool *p = open_pool(4);
    pthread_t who = {0};
    pool_run(p, 1, note_caller, &who);
    ck_assert(pthread_equal(who, pthread_self()));
    pool_close(p);
}
END_TEST

/* A chain: each run reads what the run before wrote in other threads. Without a barrier the thread
 * sanitizer reports it, and the sums differ. */
struct chain {
    unsigned from[256], to[256];
};

static void chain_step(void *arg, size_t begin, size_t end, int thread)
{
    struct chain *c = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        c->to[i] = c->from[(i * 7 + 13) % 256] + c->from[255 - i];
}

static unsigned chain_run(struct pool *p, unsigned n_steps)
{
    struct chain c;
    for (unsigned i = 0; i < 256; i++)
        c.from[i] = i;
    for (unsigned s = 0; s < n_steps; s++) {
        pool_run(p, 256, chain_step, &c);
        memcpy(c.from, c.to, sizeof c.from);
    }
    return c.from[100];
}

START_TEST(a_run_is_a_barrier)
{
    struct pool *one = open_pool(1), *many = open_pool(_i);
    ck_assert_uint_eq(chain_run(many, ROUNDS), chain_run(one, ROUNDS));
    pool_close(many);
    pool_close(one);
}
END_TEST

#ifdef __linux__
/* Whether thread `name` of this process waits, or has ended. */
static bool is_asleep(const char *name)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'R';
    if (f)
        fclose(f);
    return state == 'S' || state == 'Z';
}
#endif

/* Waits until all other threads sleep. */
static void wait_until_asleep(void)
{
#ifdef __linux__
    for (uint64_t end = clock_ns() + 60000000000; clock_ns() < end; sched_yield()) {
        DIR *tasks = opendir("/proc/self/task");
        size_t awake = 0;
        for (struct dirent *d; (d = readdir(tasks));)
            awake += d->d_name[0] != '.' && !is_asleep(d->d_name);
        closedir(tasks);
        if (awake == 1) /* this one */
            return;
    }
    ck_abort_msg("the workers do not fall asleep");
#endif
}

/* Many short runs of random sizes, with pauses in which the workers fall asleep. */
START_TEST(torture)
{
    struct pool *p = open_pool(_i);
    struct tally *t = calloc(1, sizeof *t);
    uint32_t seed = 1, n_good = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525u + 1013904223u;
        const size_t n = (seed >> 8) % (round % 10 ? 40 : MAX_ITEMS);
        memset(t->runs, 0, MAX_ITEMS);
        pool_run(p, n, tally_items, t);
        n_good += all_once(t, n, MAX_ITEMS);
        if (round % 500 == 0) {
            wait_until_asleep();
        }
    }
    ck_assert_uint_eq(n_good, ROUNDS);
    free(t);
    pool_close(p);
}
END_TEST

static void run_inner(void *arg, size_t begin, size_t end, int thread)
{
    (void)begin, (void)end, (void)thread;
    chain_run(arg, 20);
}

/* Pools side by side, opened and closed in every order, also while the other works. */
START_TEST(pools_are_independent)
{
    for (int round = 0; round < 50; round++) {
        struct pool *a = open_pool(1 + round % 4), *b = open_pool(1 + round % 3);
        pool_run(a, 1, run_inner, b);
        if (round % 2) {
            pool_close(a);
            ck_assert_uint_ne(chain_run(b, 5), 0);
            pool_close(b);
        } else {
            pool_close(b);
            ck_assert_uint_ne(chain_run(a, 5), 0);
            pool_close(a);
        }
    }
    pool_close(NULL);
}
END_TEST

struct locked {
    struct pool *pool;
    unsigned n_done;
};

static void add_items(void *arg, size_t begin, size_t end, int thread)
{
    unsigned *sums = arg;
    sums[thread] += (unsigned)(end - begin);
}

static void *locked_main(void *arg)
{
    struct locked *l = arg;
    for (int i = 0; i < 200; i++) {
        unsigned sums[4] = {0};
        pool_lock(l->pool);
        pool_run(l->pool, 97, add_items, sums);
        l->n_done += sums[0] + sums[1] + sums[2] + sums[3] == 97;
        pool_unlock(l->pool);
    }
    return NULL;
}

/* Contexts in different threads share one pool, one step at a time. */
START_TEST(lock_serves_one_step_at_a_time)
{
    struct locked l = {open_pool(4), 0};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, locked_main, &l), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(l.n_done, 600);
    pool_close(l.pool);
}
END_TEST

struct seen {
    float third[4]; /* 1 / 3 and a denormal, computed by each thread */
    volatile float tiny[4];
    sigset_t blocked[4];
    int n;
    atomic_int n_here; /* nobody leaves before n are here, so each thread has one share */
};

static void look_around(void *arg, size_t begin, size_t end, int thread)
{
    struct seen *s = arg;
    volatile float one = 1, three = 3, small = FLT_MIN;
    (void)begin, (void)end;
    s->third[thread] = one / three;
    s->tiny[thread] = small / 2 * 1.0f;
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked[thread]);
    s->n_here++;
    while (s->n_here < s->n)
        sched_yield();
}

/* Threads keep denormals and round to nearest, whatever the thread that opened the pool does. */
START_TEST(workers_have_the_exact_state)
{
    struct seen s = {.n = 4};
    struct pool *p;
#if defined(__x86_64__) && !defined(FPENV_PORTABLE) /* which knows no flush-to-zero */
    const unsigned caller = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(caller | 0x8040 | 0x6000); /* FTZ, DAZ, towards zero */
    p = open_pool(4);
    __builtin_ia32_ldmxcsr(caller);
#else
    p = open_pool(4);
#endif
    pool_run(p, 4, look_around, &s);
    for (int i = 1; i < 4; i++) {
        ck_assert(s.third[i] == s.third[0]);
        ck_assert(s.tiny[i] == FLT_MIN / 2);
    }
    pool_close(p);
}
END_TEST

#ifdef __linux__
static void count_caller(void *arg, size_t begin, size_t end, int thread)
{
    (void)begin, (void)end;
    if (thread == 0)
        ++*(unsigned *)arg;
}

/* The caller does what a worker without a processor has not begun. */
START_TEST(no_wait_for_a_worker_that_has_not_begun)
{
    cpu_set_t one;
    unsigned shares = 0;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    struct pool *p = open_pool(3);
    for (int i = 0; i < ROUNDS; i++)
        pool_run(p, 3, count_caller, &shares);
    ck_assert_uint_gt(shares, ROUNDS + ROUNDS / 2);
    pool_close(p);
}
END_TEST
#define LINUX_TESTS TEST(no_wait_for_a_worker_that_has_not_begun),
#else
#define LINUX_TESTS
#endif

/* Ctrl-C goes to the program's thread; a fault of the worker's own must reach its handler. */
START_TEST(workers_block_foreign_signals_only)
{
    struct seen s = {.n = 2};
    struct pool *p = open_pool(2);
    pool_run(p, 2, look_around, &s);
    ck_assert(!sigismember(&s.blocked[0], SIGINT));
    ck_assert(sigismember(&s.blocked[1], SIGINT));
    ck_assert(sigismember(&s.blocked[1], SIGTERM));
    ck_assert(!sigismember(&s.blocked[1], SIGBUS));
    pool_close(p);
}
END_TEST

START_TEST(impossible_counts_are_refused)
{
    struct tern_error e = {0};
    struct pool *p = (struct pool *)&e;
    ck_assert_int_eq(pool_open(&p, 0, &e), TERN_USAGE);
    ck_assert_ptr_null(p);
    ck_assert_int_eq(pool_open(&p, -3, &e), TERN_USAGE);
    ck_assert_int_eq(pool_open(&p, 100000, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "100000"));
    ck_assert_int_eq(pool_open(&p, 0, NULL), TERN_USAGE);
}
END_TEST

SUITE("pool", LOOP(each_item_once, 1, 9), TEST(others_do_what_a_slow_thread_has_left),
      TEST(one_item_runs_on_the_caller), LOOP(a_run_is_a_barrier, 2, 6), LOOP(torture, 1, 8),
      TEST(pools_are_independent), TEST(lock_serves_one_step_at_a_time),
      TEST(workers_have_the_exact_state), TEST(workers_block_foreign_signals_only),
      LINUX_TESTS TEST(impossible_counts_are_refused))
