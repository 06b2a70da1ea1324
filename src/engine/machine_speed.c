/* How fast this machine reads weights: see machine_speed.h. */
#include "engine/machine_speed.h"

#ifdef TERN_MPI

#include "base/arena.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "model/act_buffer.h"

enum { LAPS = 4, LAP_NS = 25000000, STEP_TILES = 64 };

struct speed_job {
    const struct tern_model *m;
    struct activations row;
    float *y;     /* [vocab], whole tiles */
    size_t first; /* tile of the run in work */
};

static void speed_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct speed_job *job = arg;
    const struct matrix *head = &job->m->model->head;
    (void)thread;
    job->m->kernels.matmul[head->type](job->y, 0, head->data, job->first + begin, job->first + end,
                                       &job->row);
}

/* Bytes a nanosecond of one lap, which begins where the last one ended */
static double lap(struct speed_job *job)
{
    const struct matrix *head = &job->m->model->head;
    size_t tiles = ceil_div(head->rows, TILE_ROWS), done = 0, n;
    uint64_t begin = clock_ns(), ns = 0;
    for (; ns < LAP_NS; ns = clock_ns() - begin) {
        n = min_size(STEP_TILES * (size_t)pool_threads(job->m->pool), tiles - job->first);
        pool_run(job->m->pool, n, speed_items, job);
        done += n;
        job->first = job->first + n == tiles ? 0 : job->first + n;
    }
    return (double)(done * format_tile_bytes(format_find(head->type), head->k)) / (double)ns;
}

/* One row of zeros, and what comes of it */
static void take(struct arena *a, struct act_buffer *row, struct speed_job *job)
{
    const struct matrix *head = &job->m->model->head;
    act_buffer_take(a, row, 1, head->k);
    job->y = arena_take(a, round_up(head->rows, TILE_ROWS), sizeof *job->y);
    job->row = act_buffer_view(row, 1, head->k, false);
}

uint32_t machine_speed(struct tern_model *m)
{
    struct arena a = {0};
    struct act_buffer row;
    struct speed_job job = {.m = m};
    double best = 0;
    take(&a, &row, &job);
    if (arena_open(&a, "a measurement", NULL))
        return 0;
    take(&a, &row, &job);
    pool_lock(m->pool);
    for (size_t i = 0; i < LAPS; i++) { /* the first one also brings the pages */
        double speed = lap(&job);
        best = speed > best ? speed : best;
    }
    pool_unlock(m->pool);
    arena_close(&a);
    return (uint32_t)(best * 1000) + 1;
}

#endif
