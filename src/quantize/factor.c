/* cflags: -O2 */
/* Sums over the inputs of a matrix and their triangular factors: see factor.h. */
#include "quantize/factor.h"

#include "base/sizes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum {
    MAX_BAND = 4096, /* columns that feel each other */
    PANEL = 32,      /* columns that are eliminated together */
    APART = 8        /* doubles between rows, so that these do not collide in the cache */
};

struct gram gram_shape(size_t k)
{
    size_t padded = round_up(k, GROUP), bands = ceil_div(padded, MAX_BAND);
    size_t band = round_up(ceil_div(padded, bands), GROUP);
    return (struct gram){.k = padded, .stride = round_up(band, 64), .band = band};
}

uint64_t gram_bytes(size_t k)
{
    struct gram g = gram_shape(k);
    return (uint64_t)g.k * g.stride * sizeof(float);
}

/* ---- H += X^T X ---- */

static void layout_scratch(struct gram_scratch *s, size_t n, size_t k, int n_threads)
{
    size_t padded = round_up(k, GROUP);
    s->x_stride = round_up(k, 64);
    s->t_stride = round_up(n, 64);
    s->x = arena_take(&s->arena, (uint64_t)n * s->x_stride, sizeof(float));
    s->tiles = arena_take(&s->arena, (uint64_t)padded * n, sizeof(float));
    s->t = arena_take(&s->arena, (uint64_t)padded * s->t_stride, sizeof(float));
    s->y = arena_take(&s->arena, (uint64_t)n_threads * TILE_ROWS * MAX_BAND, sizeof(float));
}

enum tern_status gram_scratch_open(struct gram_scratch *s, size_t n, size_t k, int n_threads,
                                   struct tern_error *e)
{
    *s = (struct gram_scratch){0};
    layout_scratch(s, n, k, n_threads);
    enum tern_status status = arena_open(&s->arena, "the sums over the calibration text", e);
    if (!status)
        layout_scratch(s, n, k, n_threads);
    return status;
}

void gram_scratch_close(struct gram_scratch *s)
{
    arena_close(&s->arena);
}

struct sum { /* what the items of gram_add share */
    const struct gram *g;
    struct gram_scratch *s;
    size_t n, k;
    const struct kernels *kernels;
};

/* 16 columns of X an item, in both forms that the kernel reads. */
static void turn_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct sum *job = arg;
    const struct gram_scratch *s = job->s;
    (void)thread;
    for (size_t c = begin * TILE_ROWS; c < end * TILE_ROWS; c++)
        for (size_t i = 0; i < job->n; i++) {
            float x = c < job->k ? s->x[i * s->x_stride + c] : 0;
            s->tiles[(c / TILE_ROWS * job->n + i) * TILE_ROWS + c % TILE_ROWS] = x;
            s->t[c * s->t_stride + i] = x;
        }
}

/* 16 rows of H an item, from the first column of their band to the diagonal. */
static void sum_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct sum *job = arg;
    const struct gram *g = job->g;
    float *y = job->s->y + (size_t)thread * TILE_ROWS * MAX_BAND;
    for (size_t i = begin; i < end; i++) {
        size_t row = i * TILE_ROWS, first = row / g->band * g->band;
        size_t columns = row - first + TILE_ROWS;
        struct activations x = {.n = TILE_ROWS,
                                .k = job->n,
                                .stride = job->s->t_stride,
                                .x = job->s->t + row * job->s->t_stride};
        job->kernels->matmul[TERN_F32](y, g->stride, job->s->tiles + first * job->n, 0,
                                       columns / TILE_ROWS, &x);
        for (size_t r = 0; r < TILE_ROWS; r++) {
            float *h = g->h + (row + r) * g->stride;
            for (size_t c = 0; c < columns; c += TILE_ROWS)
                for (size_t at = c; at < c + TILE_ROWS; at++)
                    h[at] += y[r * g->stride + at];
        }
    }
}

void gram_add(const struct gram *g, struct gram_scratch *s, size_t n, size_t k,
              const struct kernels *kernels, struct pool *pool)
{
    struct sum job = {g, s, n, k, kernels};
    pool_run(pool, g->k / TILE_ROWS, turn_items, &job);
    pool_run(pool, g->k / TILE_ROWS, sum_items, &job);
}

/* ---- H = U D U^T ---- */

static void layout_factor(struct factor *f, size_t k)
{
    struct gram g = gram_shape(k);
    f->u = arena_take(&f->arena, (uint64_t)g.k * g.stride, sizeof(float));
    f->d = arena_take(&f->arena, g.k, sizeof(float));
    f->diagonal = arena_take(&f->arena, g.k, sizeof(float));
    f->work = arena_take(&f->arena, (uint64_t)g.band * (g.band + APART + PANEL), sizeof(double));
}

enum tern_status factor_open(struct factor *f, size_t k, struct tern_error *e)
{
    *f = (struct factor){0};
    layout_factor(f, k);
    enum tern_status s = arena_open(&f->arena, "the factors of the calibration", e);
    if (!s)
        layout_factor(f, k);
    return s;
}

void factor_close(struct factor *f)
{
    arena_close(&f->arena);
}

/* The order of the columns is turned round, so that the common lower factor L D L^T is wanted. */
struct elimination {
    double *a; /* [n, stride] lower triangle; L below the diagonal and D on it in the end */
    double *p; /* [PANEL, n] the panel's columns of L, times D, as rows */
    size_t n, stride, first; /* n is a multiple of PANEL */
};

/* The panel's columns of rows begin .. end - 1; first its own rows, then those below it. */
static void solve_rows(const struct elimination *m, size_t begin, size_t end)
{
    const double *panel = m->a + m->first * m->stride + m->first; /* its own rows and columns */
    for (size_t i = begin; i < end; i++) {
        double *row = m->a + i * m->stride + m->first;
        size_t own = i - m->first;
        for (size_t c = 0; c < PANEL && c < own; c++) {
            double ld = row[c];
            m->p[c * m->n + i] = ld;
            row[c] /= panel[c * m->stride + c];
            for (size_t j = c + 1; j < PANEL && j <= own; j++)
                row[j] -= ld * (j == own ? row[c] : panel[j * m->stride + c]);
        }
    }
}

static void panel_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct elimination *m = arg;
    (void)thread;
    solve_rows(m, m->first + PANEL + begin, m->first + PANEL + end);
}

/* a[i, j] -= sum over the panel of L[i, c] D[c] L[j, c] for rows i below it; j goes on to a whole
 * eight, above the diagonal, where nothing is read. */
static void update_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct elimination *m = arg;
    const size_t below = m->first + PANEL;
    (void)thread;
    for (size_t i = below + begin; i < below + end; i++) {
        double *row = m->a + i * m->stride;
        const double *l = row + m->first;
        for (size_t c = 0; c < PANEL; c += 4) {
            const double *p = m->p + c * m->n;
            for (size_t j = below; j <= i; j += 8)
                for (size_t t = j; t < j + 8; t++)
                    row[t] -= l[c] * p[t] + l[c + 1] * p[m->n + t] + l[c + 2] * p[2 * m->n + t] +
                              l[c + 3] * p[3 * m->n + t];
        }
    }
}

static void eliminate(struct elimination *m, struct pool *pool)
{
    for (m->first = 0; m->first < m->n; m->first += PANEL) {
        size_t below = m->n - m->first - PANEL;
        solve_rows(m, m->first, m->first + PANEL);
        if (below) {
            pool_run(pool, below, panel_items, m);
            pool_run(pool, below, update_items, m);
        }
    }
}

/* Copies a band of H with its columns turned round and its diagonal damped, which f keeps, and
 * makes it whole; false when it is not finite. */
static bool load_band(struct elimination *m, struct factor *f, const struct gram *g, size_t first,
                      double damping)
{
    double mean = 0;
    for (size_t i = 0; i < m->n; i++)
        mean += (double)g->h[(first + i) * g->stride + i] / (double)m->n;
    if (!(mean <= FLT_MAX))
        return false;
    damping = mean > 0 ? mean * damping : 1;
    for (size_t i = 0; i < m->n; i++) {
        float *row = g->h + (first + i) * g->stride;
        f->diagonal[first + i] = (float)((double)row[i] + damping);
        for (size_t j = 0; j <= i; j++) {
            m->a[(m->n - 1 - j) * m->stride + m->n - 1 - i] =
                (double)row[j] + (i == j ? damping : 0);
            g->h[(first + j) * g->stride + i] = row[j];
        }
    }
    return true;
}

/* Turns L D L^T into rows of U and D, D with mean 1. */
static bool store_band(const struct elimination *m, struct factor *f, size_t first)
{
    double mean = 0;
    bool good = true;
    for (size_t i = 0; i < m->n; i++)
        mean += m->a[i * m->stride + i] / (double)m->n;
    for (size_t j = 0; j < m->n; j++) {
        const size_t tj = m->n - 1 - j;
        double d = m->a[tj * m->stride + tj];
        good &= d > 0 && d <= DBL_MAX;
        f->d[first + j] = (float)(d / mean);
        for (size_t i = 0; i < j; i++)
            f->u[(first + j) * f->stride + i] = (float)m->a[(m->n - 1 - i) * m->stride + tj];
    }
    return good;
}

bool factor_make(struct factor *f, const struct gram *g, double damping, struct pool *pool)
{
    f->k = g->k, f->stride = g->stride, f->band = g->band, f->h = g->h;
    for (size_t first = 0; first < g->k; first += g->band) {
        size_t n = g->k - first < g->band ? g->k - first : g->band;
        struct elimination m = {
            .a = f->work, .p = f->work + n * (n + APART), .n = n, .stride = n + APART};
        if (!load_band(&m, f, g, first, damping))
            return false;
        eliminate(&m, pool);
        if (!store_band(&m, f, first))
            return false;
    }
    return true;
}
