/* The memory of the forward pass: see state.h. */
#include "model/state.h"

#include "base/sizes.h"
#include "model/halves.h"
#include "model/linear.h"
#include "model/split.h"

struct widths { /* the widest layer's */
    size_t q, kv, hidden, half, mix, conv, decays, numbers;
    size_t in; /* of what is projected, but for hidden */
    bool aside; /* some layer is parallel or has a shared expert */
};

static struct widths widths_of(const struct model *m)
{
    struct widths max = {.q = 1, .kv = 1, .hidden = 1, .half = 1};
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct layer *w = &m->layers[l];
        max.q = max_size(max.q, w->n_heads * w->head_dim);
        max.q = max_size(max.q, max_size(max_size(w->n_heads * layer_q_dim(w), layer_out_dim(w)),
                                         w->latent.q_rank));
        max.kv = max_size(max.kv, max_size(w->n_kv_heads * w->head_dim, w->latent.q_rank));
        max.hidden = max_size(max.hidden, w->experts.n ? w->experts.shared_hidden : w->hidden);
        max.hidden = max_size(max.hidden, max_size(m->ple_dim, w->laurel_left.rows));
        max.half = max_size(max.half, w->rope ? w->rope->half : 1);
        max.mix = max_size(max.mix, max_size(w->mix.in.rows, w->attn_gate.rows));
        max.conv = max_size(max.conv, w->mix.channels);
        max.kv = max_size(max.kv, max_size(w->mix.gate_down.rows, w->mix.decay_down.rows));
        max.decays = max_size(max.decays, w->mix.decay.rows);
        max.numbers = max_size(max.numbers, w->mix.v_heads);
        max.q = max_size(max.q, w->mix.out.k);
        max.aside |=
            w->parallel || w->laurel_left.data || m->n_streams || w->experts.shared_hidden || w->mixer == (MIX_ATTENTION | MIX_RECURRENT);
    }
    max.in = max_size(max_size(max.q, max.kv), m->dim + m->n_mtp * m->dim);
    return max;
}

static void take_scratch(struct arena *a, struct scratch *s, const struct forward *f,
                         const struct widths *max)
{
    struct scratch none;
    s = s ? s : &none; /* measuring: there is no scratch yet */
    act_buffer_take(a, &s->in, 1, max->in);
    s->gate = arena_take(a, f->gate_floats, sizeof(float));
    s->up = arena_take(a, f->gate_floats, sizeof(float));
    s->ple_row = arena_take(a, f->ple_stride, sizeof(float));
    attention_take_scratch(&f->attention, a, &s->attention);
    latent_take(&s->latent, a, f->model);
}

/* One row of everything, for plain.c */
static void plain_take(struct plain *p, struct arena *a, const struct model *m)
{
    struct widths max = widths_of(m);
    size_t q = max.q, kv = max.kv, d = 1, half = 1, hidden = 1, n_experts = 0, n_used = 0;
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct layer *w = &m->layers[l];
        d = max_size(d, max_size(w->head_dim, w->latent.value));
        half = max_size(half, w->rope ? w->rope->half : 1);
        hidden = max_size(hidden, max_size(w->hidden, w->experts.shared_hidden));
        hidden = max_size(hidden, max_size(m->ple_dim, w->laurel_left.rows));
        n_experts = max_size(n_experts, w->experts.n);
        n_used = max_size(n_used, w->experts.n_used);
    }
    struct {
        float **to;
        size_t n;
    } floats[] = {
        {&p->x, m->dim},
        {&p->h, m->dim},
        {&p->y, m->dim},
        {&p->z, m->dim},
        {&p->e, n_experts ? m->dim : 0},
        {&p->join, m->n_mtp * 2 * m->dim},
        {&p->streams, m->n_streams * m->dim},
        {&p->ple, m->n_layers * m->ple_dim},
        {&p->ple_row, m->n_layers * m->ple_dim},
        {&p->q, q},
        {&p->k, kv},
        {&p->v, kv},
        {&p->att, q},
        {&p->gate, hidden},
        {&p->up, hidden},
        {&p->a, d},
        {&p->A, d},
        {&p->cos, m->n_ropes * half},
        {&p->sin, m->n_ropes * half},
        {&p->scores, max_size(BLOCK, n_experts)},
        {&p->mix, max.mix},
        {&p->conv, max.conv},
        {&p->z_gate, q},
        {&p->decay, max.decays},
        {&p->beta, max.numbers},
    };
    p->rope_stride = half;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) /* matmul writes whole tiles */
        *floats[i].to = arena_take(a, round_up(floats[i].n, TILE_ROWS), sizeof(float));
    p->taken = arena_take(a, n_experts, sizeof *p->taken);
    p->chosen = arena_take(a, n_used, sizeof *p->chosen);
    act_buffer_take(a, &p->in, 1, max_size(max.in, hidden));
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
    f->gate_floats = max_size(min_size(round_up(n, OCTET), MOST_ROWS) * COLUMNS,
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
    f->mix_stride = round_up(max.mix, 64);
    f->conv_stride = round_up(max.conv, 64);
    f->decay_stride = round_up(max.decays, 16);
    f->number_stride = round_up(max.numbers, 16);
    f->mix = arena_take(a, n * f->mix_stride, size);
    f->conv = arena_take(a, n * f->conv_stride, size);
    f->mix_gate = arena_take(a, n * (max.numbers ? f->q_stride : 0), size);
    f->decay = arena_take(a, n * f->decay_stride, size);
    f->beta = arena_take(a, n * f->number_stride, size);
    f->again_rows = arena_take(a, m->state_floats ? n : 0, sizeof *f->again_rows);
    f->streams = arena_take(a, n * m->n_streams * f->dim_stride, size);
    f->ple_stride = round_up(m->n_layers * m->ple_dim, 64);
    f->ple = arena_take(a, n * f->ple_stride, size);
    act_buffer_take(a, &f->in, n, max.in);
    act_buffer_take(a, &f->ffn, n, max.hidden);
    f->join_stride = round_up(2 * m->dim, 64);
    f->guess_rows = arena_take(a, m->n_mtp * n, sizeof *f->guess_rows);
    f->join = arena_take(a, m->n_mtp * n * f->join_stride, size);
    f->rope_cos = arena_take(a, m->n_ropes * n * f->rope_stride, size);
    f->rope_sin = arena_take(a, m->n_ropes * n * f->rope_stride, size);
    f->logits = arena_take(a, f->most_logits * f->vocab_stride, size);
    attention_take(&f->attention, a, m, n_ctx, n);
    experts_take(&f->experts, a, m, n, f->dim_stride);
    plain_take(&f->plain, a, m);
#ifdef TERN_MPI
    f->travel = arena_take(a, (size_t)split_bytes(m, n, f->most_logits), 1);
#endif
    f->scratch = arena_take(a, (size_t)n_threads, sizeof *f->scratch);
    for (int t = 0; t < n_threads; t++)
        take_scratch(a, f->scratch ? &f->scratch[t] : NULL, f, &max);
}

uint64_t state_bytes(const struct model *m, size_t n_ctx, size_t n_batch, size_t n_logits,
                     int n_threads)
{
    struct forward f = {.model = m, .n_batch = n_batch, .most_logits = n_logits};
    struct arena a = {0};
    layout(&f, &a, n_ctx, n_threads);
#ifdef TERN_MPI
    if (n_logits) /* a rear half has none */
        a.used += halves_bytes(m, n_ctx, n_batch, n_threads);
#endif
    return a.bad ? UINT64_MAX : a.used;
}

enum tern_status state_open(struct forward *f, const struct model *m, const struct kernels *k,
                            struct pool *pool, struct cache *cache, size_t n_batch,
                            size_t n_logits, struct tern_error *e)
{
    *f = (struct forward){.model = m,
                          .kernels = k,
                          .pool = pool,
                          .cache = cache,
                          .n_batch = n_batch,
                          .most_logits = n_logits};
    layout(f, &f->arena, cache->n_ctx, pool_threads(pool));
    enum tern_status s = arena_open(&f->arena, "the batch (try a smaller batch)", e);
    if (!s)
        layout(f, &f->arena, cache->n_ctx, pool_threads(pool));
#ifdef TERN_MPI
    if (!s && n_logits) /* a rear half has none */
        s = halves_open(f, e);
#endif
    return s;
}

void state_close(struct forward *f)
{
#ifdef TERN_MPI
    halves_close(f);
#endif
    arena_close(&f->attend_arena);
    arena_close(&f->arena);
}

void state_watch(struct forward *f, size_t layer, enum watch_point at)
{
    if (f->watch)
        f->watch(f->watch_arg, f, layer, at);
}
