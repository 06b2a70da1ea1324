/* What a barrier of the pool costs: ns per run of as many items as threads.
 *   prog_pool          empty barriers of 1, the default and too many threads; fails where one is so
 *                      long that a thread must have spun while another waited for its processor
 *   prog_pool --bench  items of 0, 10 and 100 us: alone, with too many threads, with all threads on
 *                      one processor, beside a restless process for every processor (Linux)
 *   prog_pool --slow   throughput beside that of a static split: threads alike, the last one doing
 *                      all twice, a restless process on the last processor (Linux)
 *
 * A plain program: also for other machines. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "base/clock.h"
#include "base/pool.h"
#include "base/thread_count.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOW_ROUNDS = 15, SLOW_RUNS = 40, ITEM_SPINS = 1000, RUNS = 20000, WORST_MEDIAN_NS = 1000000, MAX_RIVALS = 64 };

static void work(void *arg, size_t begin, size_t end, int thread)
{
    const uint64_t ns = *(const uint64_t *)arg;
    (void)begin, (void)end, (void)thread;
    if (ns)
        for (const uint64_t start = clock_ns(); clock_ns() - start < ns;)
            ;
}

/* Items, or whole ranges of them, of ITEM_SPINS each; the slow thread does them twice. */
struct uneven {
    size_t n_items, ranges; /* ranges: that an item of the run stands for, or 0 */
    int slow;               /* thread; -1: none */
};

static void uneven_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct uneven *u = arg;
    if (u->ranges)
        begin = begin * u->n_items / u->ranges, end = end * u->n_items / u->ranges;
    for (size_t i = (end - begin) * (thread == u->slow ? 2 : 1); i > 0; i--)
        for (volatile unsigned spin = 0; spin < ITEM_SPINS; spin++)
            ;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Times up to RUNS barriers of n threads, about a second of them; true when the median is sane. */
static int measure(const char *name, int n, uint64_t work_ns, size_t runs)
{
    static uint64_t ns[RUNS];
    struct tern_error e = {0};
    struct pool *p = NULL;
    const uint64_t start = clock_ns();
    size_t done = 0;
    uint64_t now = start;

    if (pool_open(&p, n, &e)) {
        printf("%s\n", e.text);
        return 0;
    }
    while (done < runs && now - start < 1000000000u) {
        const uint64_t begin = clock_ns();
        pool_run(p, (size_t)n, work, &work_ns);
        now = clock_ns();
        ns[done++] = now - begin;
    }
    pool_close(p);
    qsort(ns, done, sizeof ns[0], compare);
    printf("%-16s %2d threads, work %6llu ns: mean %8llu, median %8llu, 99 %% %8llu ns\n", name, n,
           (unsigned long long)work_ns, (unsigned long long)((now - start) / done),
           (unsigned long long)ns[done / 2], (unsigned long long)ns[done * 99 / 100]);
    fflush(stdout);
    return ns[done / 2] < WORST_MEDIAN_NS;
}

static void measure_works(const char *name, int n)
{
    static const uint64_t works[] = {0, 10000, 100000};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        measure(name, n, works[i], RUNS);
}

static uint64_t time_runs(struct pool *p, size_t n, struct uneven *u)
{
    const uint64_t begin = clock_ns();
    for (size_t i = 0; i < SLOW_RUNS; i++)
        pool_run(p, n, uneven_items, u);
    return clock_ns() - begin;
}

/* Both splits in turns; prints the median of the ratios. A run of one item a thread is a static split. */
static void measure_split(const char *name, int n, int slow, size_t items)
{
    uint64_t parts[SLOW_ROUNDS], stolen = 0, still = 0;
    struct pool *p = NULL;
    if (pool_open(&p, n, NULL))
        return;
    for (size_t i = 0; i < SLOW_ROUNDS; i++) {
        struct uneven shared = {items, 0, slow}, fixed = {items, (size_t)n, slow};
        const uint64_t a = time_runs(p, (size_t)n, &fixed), b = time_runs(p, items, &shared);
        parts[i] = a * 1000 / b, still += a, stolen += b;
    }
    pool_close(p);
    qsort(parts, SLOW_ROUNDS, sizeof parts[0], compare);
    printf("%-16s %2d threads, %4zu items: static %7.1f us a run, shared %7.1f, median ratio %.3f\n",
           name, n, items, (double)still / SLOW_ROUNDS / SLOW_RUNS / 1000,
           (double)stolen / SLOW_ROUNDS / SLOW_RUNS / 1000, (double)parts[SLOW_ROUNDS / 2] / 1000);
    fflush(stdout);
}

static void measure_splits(const char *name, int n, int slow)
{
    static const size_t items[] = {16, 64, 176, 1000};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        measure_split(name, n, slow, items[i]);
}

#ifdef __linux__
/* Processes that never rest, one for each processor. */
static int start_rivals(pid_t *pids)
{
    int n = thread_count_most();
    n = n > MAX_RIVALS ? MAX_RIVALS : n;
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (!pids[i])
            for (volatile unsigned spin = 0;;)
                spin++;
    }
    return n;
}

/* One of them, on the last processor that this process may use */
static void bench_competitor(int n)
{
    cpu_set_t all, one;
    pid_t pid;
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && !CPU_COUNT(&one); cpu--)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    pid = fork();
    if (!pid) {
        sched_setaffinity(0, sizeof one, &one);
        for (volatile unsigned spin = 0;;)
            spin++;
    }
    measure_splits("competitor", n, -1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void bench_crowded(int n)
{
    pid_t pids[MAX_RIVALS];
    cpu_set_t all, one;
    const int rivals = start_rivals(pids);
    measure_works("rivals", n);
    for (int i = 0; i < rivals; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && !CPU_COUNT(&one))
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    measure_works("one processor", n);
    sched_setaffinity(0, sizeof all, &all);
}
#else
static void bench_competitor(int n)
{
    (void)n;
}

static void bench_crowded(int n)
{
    (void)n;
}
#endif

int main(int argc, char **argv)
{
    char why[160];
    const int n = thread_count_best(why, sizeof why), many = thread_count_most() + 1;

    printf("%s\n", why);
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        measure_works("alone", n > 1 ? n : 2);
        measure_works("too many", many);
        bench_crowded(n > 1 ? n : 2);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--slow")) {
        const int threads = n > 1 ? n : 2;
        measure_splits("alike", threads, -1);
        measure_splits("one half as fast", threads, threads - 1);
        bench_competitor(threads);
        return 0;
    }
    int ok = measure("alone", 1, 0, RUNS);
    if (n > 1)
        ok &= measure("alone", n, 0, RUNS);
    ok &= measure("too many", many, 0, 2000);
    return !ok;
}
