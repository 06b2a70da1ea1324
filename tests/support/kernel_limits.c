/* See kernel_limits.h. */
#include "kernel_limits.h"

#include <time.h>

#include "kernels/peak/peak.h"

double limit_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct limit {
    struct pool *pool;
    unsigned cpu;
    const struct peak *peak;
    const char *data;
};

enum { LIMIT_ROUNDS = 1000000, LIMIT_PIECE = 256 };

static void limit_dots(void *arg, size_t begin, size_t end, int thread)
{
    (void)begin, (void)end, (void)thread;
    ((struct limit *)arg)->peak->run(LIMIT_ROUNDS);
}

static void limit_pieces(void *arg, size_t begin, size_t end, int thread)
{
    struct limit *l = arg;
    (void)thread;
    peak_read(l->cpu, l->data + begin * LIMIT_PIECE, (end - begin) * LIMIT_PIECE);
}

/* Billions of units of work a second, best of several */
static double limit_best(struct limit *l, size_t items, pool_fn fn, double work)
{
    double best = 0, start = limit_seconds();
    for (int i = 0; i < 3 || (limit_seconds() - start < 0.1 && i < 1000); i++) {
        double t = limit_seconds();
        pool_run(l->pool, items, fn, l);
        t = 1e-9 * work / (limit_seconds() - t);
        best = t > best ? t : best;
    }
    return best;
}

double limit_macs(struct pool *pool, unsigned cpu, enum tern_type type)
{
    struct limit l = {.pool = pool, .peak = peak_find(cpu, type)};
    size_t threads = (size_t)pool_threads(pool);
    if (!l.peak)
        return 0;
    return limit_best(&l, threads, limit_dots,
                      (double)threads * LIMIT_ROUNDS * (double)l.peak->macs);
}

double limit_read(struct pool *pool, unsigned cpu, const void *data, size_t bytes)
{
    struct limit l = {.pool = pool, .cpu = cpu, .data = data};
    return limit_best(&l, bytes / LIMIT_PIECE, limit_pieces, (double)bytes);
}
