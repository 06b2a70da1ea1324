/* Profiles: see profile.h. It alone knows what an operation costs. */
#include "model/profile.h"

#include <stdlib.h>
#include <string.h>

#include "model/cache.h"
#include "model/state.h"

const char *profile_name(enum operation op)
{
    static const char *const names[N_OPERATIONS] = {
        [OP_EMBED] = "embed",       [OP_NORM] = "norm+quantize",
        [OP_QKV] = "qkv",           [OP_ATTEND] = "attend",
        [OP_OUT] = "out",           [OP_GATE_UP] = "gate_up",
        [OP_DOWN] = "down",         [OP_LOGITS] = "logits",
        [OP_GUESS] = "guess",
        [OP_CONVOLVE] = "convolve", [OP_RECUR] = "recur",
        [OP_ROUTER] = "router",
    };
    return names[op];
}

/* ---- time --------------------------------------------------------------------------------- */

static void timed_span(struct profile *p, size_t begin, size_t end, int thread)
{
    struct profile_span span = {p->op, p->layer, thread, clock_ns(), 0, begin, end, {0}};
    p->threads[thread].note = span.note;
    p->fn(p->arg, begin, end, thread);
    span.end_ns = clock_ns();
    p->threads[thread].busy_ns += span.end_ns - span.begin_ns;
    span.note = p->threads[thread].note;
    if (p->watcher)
        p->watcher->span(p->watcher, &span);
}

/* Who watches sees each item of attention, because a note tells of one. */
static void timed_items(void *arg, size_t begin, size_t end, int thread)
{
    struct profile *p = arg;
    size_t step = p->watcher && p->op == OP_ATTEND ? 1 : end - begin;
    for (size_t i = begin; i < end; i += step)
        timed_span(p, i, i + step, thread);
}

static void run(struct profile *p, enum operation op, struct pool *pool, size_t n, pool_fn fn,
                void *arg)
{
    uint64_t busy = 0, inner = 0, threads = (uint64_t)p->n_threads;
    memset(p->threads, 0, threads * sizeof *p->threads);
    p->op = op, p->fn = fn, p->arg = arg;
    uint64_t start = clock_ns();
    pool_run(pool, n, timed_items, p);
    uint64_t ns = clock_ns() - start;
    if (p->watcher)
        p->watcher->run(p->watcher, n, start + ns);
    for (uint64_t t = 0; t < threads; t++)
        busy += p->threads[t].busy_ns, inner += p->threads[t].inner_ns;
    busy /= threads, inner /= threads;
    p->ops[op].calls++;
    p->ops[op].ns += ns - inner;
    p->ops[op].wait_ns += ns > busy ? ns - busy : 0;
    p->ops[OP_NORM].calls += inner > 0;
    p->ops[OP_NORM].ns += inner;
}

enum tern_status profile_open(struct profile **out, int n_threads, struct tern_error *e)
{
    struct profile *p = calloc(1, sizeof *p);
    size_t bytes = (size_t)n_threads * sizeof *p->threads;
    *out = NULL;
    if (p)
        p->threads = aligned_alloc(64, bytes);
    if (!p || !p->threads) {
        profile_close(p);
        return error_memory(e, "the profile", bytes);
    }
    p->run = run, p->count = profile_cost;
    p->n_threads = n_threads;
    *out = p;
    return TERN_OK;
}

void profile_close(struct profile *p)
{
    if (!p)
        return;
    free(p->threads);
    free(p);
}

/* ---- cost --------------------------------------------------------------------------------- */

/* `many` matrices of one size, one after another */
static void add_matrices(struct profile_cost *cost, const struct matrix *w, uint64_t rows, uint64_t many)
{
    if (!w->data)
        return;
    cost->bytes += many * ((w->rows + TILE_ROWS - 1) / TILE_ROWS *
                   (uint64_t)format_tile_bytes(format_find(w->type), w->k));
    cost->macs += many * rows * w->rows * w->k;
}

static void add_matrix(struct profile_cost *cost, const struct matrix *w, uint64_t rows)
{
    add_matrices(cost, w, rows, 1);
}

/* Positions that the row at `position` sees. */
static uint64_t visible(const struct layer *w, uint64_t position)
{
    return position + 1 - layer_sees_from(w, (size_t)position);
}

/* q k^T and p v of every row; K and V of what the rows of a sequence see together, once. */
static void add_attention(struct profile_cost *cost, const struct cache *cache, size_t l,
                          const struct layer *w, const struct row *rows, size_t n)
{
    uint64_t pair = (uint64_t)cache->layers[l].kv_bytes * layer_kv(w);
    for (size_t i = 0; i < n; i++) {
        cost->macs += visible(w, rows[i].position) * w->n_heads * (w->head_dim + layer_v_dim(w));
        uint64_t seen = visible(w, rows[i].position);
        if (i && rows[i - 1].seq == rows[i].seq)
            seen = 1; /* what the row before saw is counted */
        cost->bytes += seen * pair / BLOCK;
    }
}

/* States are read and written; the three products of a row with a state count as in kernels.h. */
static void add_mixer(struct profile_cost *cost, const struct mixer *x, const struct row *rows,
                      size_t n)
{
    uint64_t state = x->v_heads * x->k_dim * x->v_dim, seqs = 0;
    for (size_t i = 0; i < n; i++)
        seqs += i == 0 || rows[i - 1].seq != rows[i].seq;
    add_matrix(&cost[OP_QKV], &x->in, n);
    add_matrix(&cost[OP_QKV], &x->gate, n);
    add_matrix(&cost[OP_QKV], &x->gate_down, n);
    add_matrix(&cost[OP_QKV], &x->decay_down, n);
    add_matrix(&cost[OP_QKV], &x->decay, n);
    add_matrix(&cost[OP_QKV], &x->beta, n);
    cost[OP_CONVOLVE].macs += n * x->width * x->channels;
    cost[OP_CONVOLVE].bytes += x->width * x->channels * sizeof(float);
    cost[OP_RECUR].macs += 3 * n * state;
    cost[OP_RECUR].bytes += 2 * seqs * state * sizeof(float);
    add_matrix(&cost[OP_OUT], &x->out, n);
}

void profile_layer_cost(const struct model *m, const struct cache *cache, size_t l,
                        const struct row *rows, size_t n, struct profile_cost *cost)
{
    const struct layer *w = &m->layers[l];
    cost[OP_NORM].bytes += 2 * m->dim * sizeof(float);
    add_matrix(&cost[OP_QKV], &w->q, n);
    add_matrix(&cost[OP_QKV], &w->k, n);
    add_matrix(&cost[OP_QKV], &w->v, n);
    add_attention(&cost[OP_ATTEND], cache, l, w, rows, n);
    add_matrix(&cost[OP_QKV], &w->attn_gate, n);
    add_matrix(&cost[OP_OUT], &w->o, n);
    add_matrix(&cost[OP_QKV], &w->latent.q_down, n);
    add_matrices(&cost[OP_QKV], &w->latent.k_up, n, w->n_heads);
    add_matrices(&cost[OP_OUT], &w->latent.v_up, n, w->n_heads);
    add_mixer(cost, &w->mix, rows, n);
    for (size_t i = 0; i < (w->experts.n ? w->experts.n_used : 1); i++) {
        add_matrix(&cost[OP_GATE_UP], &w->gate, n);
        add_matrix(&cost[OP_GATE_UP], &w->up, n);
        add_matrix(&cost[OP_DOWN], &w->down, n);
    }
    add_matrix(&cost[OP_ROUTER], &w->experts.router, n);
    add_matrix(&cost[OP_ROUTER], &w->experts.shared_switch, n);
    add_matrix(&cost[OP_GATE_UP], &w->experts.shared_gate, n);
    add_matrix(&cost[OP_GATE_UP], &w->experts.shared_up, n);
    add_matrix(&cost[OP_DOWN], &w->experts.shared_down, n);
    add_matrix(&cost[OP_GATE_UP], &w->ple_gate, n);
    add_matrix(&cost[OP_DOWN], &w->ple_out, n);
    add_matrix(&cost[OP_GATE_UP], &w->laurel_left, n);
    add_matrix(&cost[OP_DOWN], &w->laurel_right, n);
    add_matrix(&cost[OP_NORM], &w->altup.router, 2 * n);
}

void profile_cost(const struct model *m, const struct cache *cache, const struct row *rows,
                  size_t n, struct profile_cost *cost)
{
    uint64_t logits = 0;
    for (size_t i = 0; i < n; i++)
        logits += (rows[i].flags & TERN_ROW_LOGITS) != 0;
    cost[OP_EMBED].bytes +=
        n * ((uint64_t)format_tile_bytes(format_find(m->embed.type), m->embed.k) / TILE_ROWS);
    add_matrix(&cost[OP_EMBED], &m->ple_in, n);
    if (m->n_streams) {
        add_matrices(&cost[OP_EMBED], &m->altup_in, n, m->n_streams - 1);
        add_matrices(&cost[OP_LOGITS], &m->altup_out, n, m->n_streams - 1);
    }
    for (size_t l = 0; l < m->n_layers; l++)
        profile_layer_cost(m, cache, l, rows, n, cost);
    if (logits) {
        cost[OP_NORM].bytes += m->dim * sizeof(float);
        add_matrix(&cost[OP_LOGITS], &m->head, logits);
    }
}
