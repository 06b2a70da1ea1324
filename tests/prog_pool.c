/* How long a barrier of the pool takes: an empty run over as many items as threads. Prints the
 * median and the 99th percentile per thread count; fails where one is so long that a thread must
 * have spun while another waited for its processor. A plain program: also for other machines. */
#include "base/clock.h"
#include "base/pool.h"
#include "base/quota.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 20000, WORST_MEDIAN_NS = 1000000 };

static void do_nothing(void *arg, size_t begin, size_t end, int thread)
{
    (void)arg, (void)begin, (void)end, (void)thread;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Times `runs` barriers of n threads; true when the median is sane. */
static int measure(int n, size_t runs)
{
    static uint64_t ns[RUNS];
    struct tern_error e = {0};
    struct pool *p = NULL;

    if (pool_open(&p, n, &e)) {
        printf("%s\n", e.text);
        return 0;
    }
    for (size_t i = 0; i < runs; i++) {
        const uint64_t begin = clock_ns();
        pool_run(p, (size_t)n, do_nothing, NULL);
        ns[i] = clock_ns() - begin;
    }
    pool_close(p);
    qsort(ns, runs, sizeof ns[0], compare);
    printf("%d threads: median %llu ns, 99 %% %llu ns\n", n, (unsigned long long)ns[runs / 2],
           (unsigned long long)ns[runs * 99 / 100]);
    return ns[runs / 2] < WORST_MEDIAN_NS;
}

int main(void)
{
    char why[160];
    const int n = quota_threads(why, sizeof why), many = quota_processors() + 1;
    int ok = measure(1, RUNS);

    printf("%s\n", why);
    if (n > 1)
        ok &= measure(n, RUNS);
    ok &= measure(many, 2000);
    return !ok;
}
