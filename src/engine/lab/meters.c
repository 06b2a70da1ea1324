/* tern_meter: the speed of the machine's memory and multipliers, with the threads of a model. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/machines.h"
#include "base/memory.h"
#include "base/thread_count.h"
#include "engine/lab/network.h"
#include "engine/model_handle.h"
#include "tern_lab.h"
#include "kernels/peak/peak.h"

enum {
    BUFFER_BYTES = 512 << 20, /* far beyond any cache, but at most an eighth of the free memory */
    SLICE_BYTES = 1 << 20,    /* unit of the split over threads */
    MEASURE_NS = 200000000,
    MAX_PASSES = 256,
};

struct tern_meter {
    struct pool *pool, *own; /* of the model, borrowed, or its own */
    unsigned cpu;            /* bits of the model's target */
    unsigned char *buffer;
    size_t bytes;
    /* the run in work */
    const struct peak *peak;
    uint64_t rounds;
#ifdef TERN_MPI
    const struct tern_model *model; /* or NULL */
#endif
};

static void touch_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct tern_meter *m = arg;
    (void)thread;
    memset(m->buffer + begin * SLICE_BYTES, 1, (end - begin) * SLICE_BYTES);
}

enum tern_status tern_meter_open(tern_meter **out, tern_model *model, struct tern_error *e)
{
    struct tern_meter *m = calloc(1, sizeof *m);
    uint64_t room = memory_available() / 8 / machines_beside();
    size_t most = BUFFER_BYTES / machines_beside();
    *out = NULL;
    if (!m)
        return error_memory(e, "the meter", sizeof *m);
    m->bytes = room < most ? (size_t)(room / SLICE_BYTES + 1) * SLICE_BYTES : most;
    m->buffer = memory_reserve(m->bytes);
    enum tern_status s = m->buffer ? TERN_OK : error_memory(e, "the memory to be read", m->bytes);
    if (!s)
        s = kernels_cpu(model ? model->kernels.name : NULL, &m->cpu, e);
    if (!s && !model)
        s = pool_open(&m->own, thread_count_best(NULL, 0), e);
    if (s) {
        tern_meter_close(m);
        return s;
    }
    m->pool = model ? model->pool : m->own;
#ifdef TERN_MPI
    m->model = model;
#endif
    memory_advise_huge(m->buffer, m->bytes);
    pool_lock(m->pool);
    pool_run(m->pool, m->bytes / SLICE_BYTES, touch_items, m);
    pool_unlock(m->pool);
    *out = m;
    return TERN_OK;
}

void tern_meter_close(tern_meter *m)
{
    if (!m)
        return;
    memory_release(m->buffer, m->bytes);
    pool_close(m->own);
    free(m);
}

static void read_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct tern_meter *m = arg;
    (void)thread;
    peak_read(m->cpu, m->buffer + begin * SLICE_BYTES, (end - begin) * SLICE_BYTES);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double tern_meter_read(tern_meter *m)
{
    uint64_t ns[MAX_PASSES], total = 0;
    size_t n = 0;
    network_begin(m->model, true, TERN_F32);
    pool_lock(m->pool);
    while (n < MAX_PASSES && (n < 3 || total < MEASURE_NS)) {
        uint64_t start = clock_ns();
        pool_run(m->pool, m->bytes / SLICE_BYTES, read_items, m);
        total += ns[n++] = clock_ns() - start;
    }
    pool_unlock(m->pool);
    qsort(ns, n, sizeof *ns, compare);
    double median = (double)m->bytes / (double)ns[n / 2];
    return network_together(m->model, median);
}

static void peak_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct tern_meter *m = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        m->peak->run(m->rounds);
}

/* Multiply-adds a nanosecond when every thread runs `rounds`. */
static double run_peak(struct tern_meter *m, uint64_t rounds, uint64_t *ns)
{
    size_t threads = (size_t)pool_threads(m->pool);
    m->rounds = rounds;
    uint64_t start = clock_ns();
    pool_run(m->pool, threads, peak_items, m);
    *ns = clock_ns() - start + 1;
    return (double)rounds * m->peak->macs * (double)threads / (double)*ns;
}

static double best_peak(tern_meter *m)
{
    uint64_t rounds = 1 << 14, ns;
    double best = 0;
    pool_lock(m->pool);
    for (int i = 0; i < 8; i++) { /* the first runs find the length of the others */
        double speed = run_peak(m, rounds, &ns);
        best = speed > best ? speed : best;
        if (ns < MEASURE_NS / 8)
            rounds = rounds * (MEASURE_NS / 8) / ns + 1;
    }
    pool_unlock(m->pool);
    return best;
}

double tern_meter_peak(tern_meter *m, enum tern_type type, const char **instruction)
{
    m->peak = peak_find(m->cpu, type);
    if (instruction)
        *instruction = m->peak ? m->peak->instruction : "";
    network_begin(m->model, false, type);
    return network_together(m->model, m->peak ? best_peak(m) : 0);
}
