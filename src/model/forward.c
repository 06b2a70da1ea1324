/* The transformer on one page (layer and forward_run), and below it the memory it runs in. */
#include "model/state.h"

#include <stdbool.h>

#include "model/step_tools.h"
#include "model/steps.h"

static void watch(struct forward *f, const struct layer *w, enum watch_point at)
{
    if (f->watch)
        f->watch(f->watch_arg, f, (size_t)(w - f->model->layers), at);
}

static void layer(struct forward *f, const struct layer *w)
{
    watch(f, w, WATCH_ATTENTION);
    step_project_qkv(f, w); /* q, k, v = norm(x) Wq, Wk, Wv; RoPE; K, V into the cache */
    watch(f, w, WATCH_ATTEND);
    step_attend(f, w); /* att = softmax(q K^T * scale) V, head by head */
    watch(f, w, WATCH_OUT);
    step_project_out(f, w); /* x += y = att Wo; or, where y has a norm, */
    watch(f, w, WATCH_ATTN_POST);
    step_post_norm(f, &w->attn_post_norm); /* x += norm(y) */
    watch(f, w, WATCH_FFN);
    if (w->experts.n) {
        step_experts(f, w); /* x += y = weighted sum of what the chosen experts give */
    } else {
        step_gate_up(f, w); /* ffn = silu(norm(x) Wgate) * (norm(x) Wup) */
        watch(f, w, WATCH_DOWN);
        step_project_down(f, w); /* x += y = ffn Wdown */
    }
    watch(f, w, WATCH_FFN_POST);
    step_post_norm(f, &w->ffn_post_norm); /* x += norm(y) */
}

/* First row after `i` that belongs to another sequence. */
static size_t sequence_end(const struct forward *f, size_t i)
{
    size_t end = i + 1;
    while (end < f->n && f->rows[end].seq == f->rows[i].seq)
        end++;
    return end;
}

static void extend_sequences(struct forward *f)
{
    for (size_t i = 0, end; i < f->n; i = end) {
        end = sequence_end(f, i);
        cache_extend(f->cache, f->rows[i].seq, end - i);
    }
}

static void commit_sequences(struct forward *f, bool done)
{
    for (size_t i = 0, end; i < f->n; i = end) {
        end = sequence_end(f, i);
        cache_commit(f->cache, f->rows[i].seq, done ? end - i : 0);
    }
}

enum tern_status forward_run(struct forward *f)
{
    size_t l = 0;
    f->n_logits = 0;
    extend_sequences(f);
    step_embed(f);
    while (l < f->model->n_layers && !forward_is_cancelled(f))
        layer(f, &f->model->layers[l++]);
    if (l == f->model->n_layers)
        watch(f, f->model->layers + l, WATCH_ATTENTION);
    bool done = !forward_is_cancelled(f);
    if (done) {
        step_logits(f);
        watch(f, f->model->layers + l, WATCH_LOGITS);
    } else {
        atomic_store(&f->cancel, 0);
    }
    commit_sequences(f, done);
    return done ? TERN_OK : TERN_CANCELLED;
}

/* ---- memory ------------------------------------------------------------------------------- */

struct widths { /* the widest layer's */
    size_t q, kv, hidden, half;
    bool aside; /* some layer is parallel or has a shared expert */
};

static struct widths widths_of(const struct model *m)
{
    struct widths max = {1, 1, 1, 1, false};
    for (size_t l = 0; l < m->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        max.q = max_size(max.q, w->n_heads * w->head_dim);
        max.kv = max_size(max.kv, w->n_kv_heads * w->head_dim);
        max.hidden = max_size(max.hidden, w->experts.n ? w->experts.shared_hidden : w->hidden);
        max.half = max_size(max.half, w->rope ? w->rope->half : 1);
        max.aside |= w->parallel || w->experts.shared_hidden;
    }
    return max;
}

static void take_scratch(struct arena *a, struct scratch *s, size_t gate_floats, size_t dim,
                         const struct widths *max, const struct attention *attention)
{
    struct scratch none;
    s = s ? s : &none; /* measuring: there is no scratch yet */
    lines_take(a, &s->in, 1, max_size(dim, max->q));
    s->gate = arena_take(a, gate_floats, sizeof(float));
    s->up = arena_take(a, gate_floats, sizeof(float));
    attention_take_scratch(attention, a, &s->attention);
}

/* Cuts everything from the arena; with an empty arena it only measures. */
static void layout(struct forward *f, struct arena *a, size_t n_ctx, int n_threads)
{
    const struct model *m = f->model;
    struct widths max = widths_of(m);
    size_t n = f->n_batch, size = sizeof(float);
    f->dim_stride = round_up(m->dim, 64);
    f->q_stride = round_up(max.q, 64);
    f->kv_stride = round_up(max.kv, 64);
    f->rope_stride = round_up(max.half, 16);
    f->gate_floats = max_size(min_size(max_size(n, 2), MOST_ROWS) * COLUMNS,
                              max_size(n * GROUP, round_up(max.hidden, GROUP)));
    f->vocab_stride = round_up(m->vocab, 64);
    f->rows = arena_take(a, n, sizeof *f->rows);
    f->x = arena_take(a, n * f->dim_stride, size);
    f->y = arena_take(a, n * f->dim_stride, size);
    f->z = max.aside ? arena_take(a, n * f->dim_stride, size) : NULL;
    f->q = arena_take(a, n * f->q_stride, size);
    f->k = arena_take(a, n * f->kv_stride, size);
    f->v = arena_take(a, n * f->kv_stride, size);
    f->att = arena_take(a, n * f->q_stride, size);
    lines_take(a, &f->in, n, max_size(m->dim, max.q));
    lines_take(a, &f->ffn, n, max.hidden);
    f->rope_cos = arena_take(a, m->n_ropes * n * f->rope_stride, size);
    f->rope_sin = arena_take(a, m->n_ropes * n * f->rope_stride, size);
    f->logits = arena_take(a, TERN_MAX_LOGITS * f->vocab_stride, size);
    attention_take(&f->attention, a, m, n_ctx, n);
    experts_take(&f->experts, a, m, n, f->dim_stride);
    f->scratch = arena_take(a, (size_t)n_threads, sizeof *f->scratch);
    for (int t = 0; t < n_threads; t++)
        take_scratch(a, f->scratch ? &f->scratch[t] : NULL, f->gate_floats, m->dim, &max,
                     &f->attention);
}

uint64_t forward_bytes(const struct model *m, size_t n_ctx, size_t n_batch, int n_threads)
{
    struct forward f = {.model = m, .n_batch = n_batch};
    struct arena a = {0};
    layout(&f, &a, n_ctx, n_threads);
    return a.bad ? UINT64_MAX : a.used;
}

enum tern_status forward_open(struct forward *f, const struct model *m, const struct kernels *k,
                              struct pool *pool, struct cache *cache, size_t n_batch,
                              struct tern_error *e)
{
    *f = (struct forward){
        .model = m, .kernels = k, .pool = pool, .cache = cache, .n_batch = n_batch};
    layout(f, &f->arena, cache->n_ctx, pool_threads(pool));
    enum tern_status s = arena_open(&f->arena, "the batch (try a smaller batch)", e);
    if (!s)
        layout(f, &f->arena, cache->n_ctx, pool_threads(pool));
    return s;
}

void forward_close(struct forward *f)
{
    arena_close(&f->arena);
}
