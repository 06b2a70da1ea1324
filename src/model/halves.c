/* Long batches on several machines: see halves.h. */
#include "model/halves.h"

#ifdef TERN_MPI

#include <stdlib.h>
#include <string.h>

#include "base/relay.h"
#include "model/split.h"

enum { LEAST = 64 }; /* rows of a half that are worth it */

/* Rows of the front half, of n. A recurrent layer's rear half would begin where the front one ends. */
static size_t front_rows(const struct model *m, size_t n)
{
    return split_of(m) && !m->state_floats && n >= 2 * LEAST ? round_up(n / 2, OCTET) : 0;
}

uint64_t halves_bytes(const struct model *m, size_t n_ctx, size_t n_batch, int n_threads)
{
    size_t n = front_rows(m, n_batch);
    return n ? state_bytes(m, n_ctx, n, 0, n_threads) : 0;
}

enum tern_status halves_open(struct forward *f, struct tern_error *e)
{
    size_t n = front_rows(f->model, f->n_batch);
    if (!n)
        return TERN_OK;
    struct halves *h = f->halves = calloc(1, sizeof *h);
    if (!h)
        return error_memory(e, "half of a batch", sizeof *h);
    h->front = f;
    h->rear = calloc(1, sizeof *h->rear);
    if (!h->rear)
        return error_memory(e, "half of a batch", sizeof *h->rear);
    enum tern_status s = relay_open(&h->relay, e);
    s = s ? s : state_open(h->rear, f->model, f->kernels, f->pool, f->cache, n, 0, e);
    h->rear->half = 1;
    h->rear->halves = h;
    return s;
}

void halves_close(struct forward *f)
{
    struct halves *h = f->halves;
    if (!h || f != h->front)
        return;
    if (h->rear) {
        h->rear->halves = NULL;
        state_close(h->rear);
    }
    relay_close(h->relay);
    free(h->rear);
    free(h);
    f->halves = NULL;
}

bool halves_run(struct forward *f, void (*fn)(void *f))
{
    struct halves *h = f->halves;
    size_t n = f->n, front = h ? front_rows(f->model, n) : 0;
    if (!front || f->watch || f->attend)
        return false;
    struct forward *g = h->rear;
    void *const both[] = {f, g};
    f->n = front, g->n = n - front;
    memcpy(g->rows, f->rows + front, g->n * sizeof *g->rows);
    g->profile = f->profile, g->stopped = f->stopped;
    f->in_halves = g->in_halves = true;
    relay_run(h->relay, fn, both);
    f->in_halves = g->in_halves = false;
    f->n = n;
    f->stopped |= g->stopped;
    int bad = atomic_exchange(&g->bad, 0);
    if (!atomic_load(&f->bad))
        atomic_store(&f->bad, bad);
    for (size_t i = 0; i < g->n; i++)
        memcpy(f->x + (front + i) * f->dim_stride, g->x + i * g->dim_stride,
               f->model->dim * sizeof *f->x);
    return true;
}

void halves_gather(struct forward *f, void *all, const size_t *at)
{
    machines_gather_begin(f->half, all, at);
    relay_give(f->halves->relay, f->half);
    machines_gather_end(f->half, true);
    relay_take(f->halves->relay, f->half);
}

#endif
