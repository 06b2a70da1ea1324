/* tern_attention_use: every attention layer of a context by a kind of the zoo. In: the queries of a
 * batch, K and V of the cache. Out: att. One item of work is a sequence and a query head: its q, and
 * k and v of its KV head, are copied to plain arrays for the kind to run on. */
#include <stdio.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/context.h"
#include "engine/meet.h"
#include "model/kv_store.h"
#include "model/zoo.h"

struct zoo_thread {
    float *q, *k, *v, *out; /* [n_batch, d], [n_ctx, d] twice, [n_batch, d] */
    float *scratch;
};

struct zoo_use {
    const struct zoo_kind *kind;
    size_t window;              /* added to each layer's; 0: none */
    float *identity;            /* latent: [d, 2 d] twice, that select K, and V, of (K, V) */
    size_t *begin, n;           /* [n + 1] first row of each sequence of the batch */
    struct zoo_thread *threads; /* [threads] */
};

/* z of one query head of a layer, without its arrays */
static struct tern_zoo head_of(const struct zoo_use *u, const struct layer *w, size_t rows,
                               size_t keys)
{
    struct tern_zoo z = {.n_seqs = 1, .n_rows = rows, .n_keys = keys, .n_heads = 1};
    z.n_kv_heads = 1, z.head_dim = z.v_dim = w->head_dim;
    z.scale = w->attn_scale, z.cap = w->attn_cap;
    z.bidirectional = !strcmp(u->kind->name, "bidirectional");
    z.window = u->window && (!w->window || u->window < w->window) ? u->window : w->window;
    z.block = BLOCK, z.parts = 4;
    z.latent_dim = u->kind->form == ZOO_LATENT ? 2 * w->head_dim : 0;
    return z;
}

/* ---- memory ------------------------------------------------------------------------------- */

static size_t widest_head(const struct model *m)
{
    size_t d = 1;
    for (size_t l = 0; l < m->n_layers; l++)
        d = max_size(d, m->layers[l].head_dim);
    return d;
}

/* Floats that the kind needs for the largest head of a batch */
static size_t most_scratch(const struct zoo_use *u, const struct forward *f)
{
    size_t most = 1;
    for (size_t l = 0; l < f->model->n_layers; l++) {
        struct tern_zoo z =
            head_of(u, &f->model->layers[l], f->n_batch, max_size(f->cache->n_ctx, f->n_batch));
        most = max_size(most, u->kind->scratch(&z));
    }
    return most;
}

static struct zoo_use *take(struct arena *a, const struct forward *f, const struct zoo_use *as)
{
    size_t d = widest_head(f->model), scratch = most_scratch(as, f), n_ctx = f->cache->n_ctx;
    struct zoo_use measured, *made = arena_take(a, 1, sizeof *made), *u = made ? made : &measured;
    *u = *as;
    u->identity = arena_take(a, 4 * d * d, sizeof *u->identity);
    u->begin = arena_take(a, f->n_batch + 1, sizeof *u->begin);
    u->threads = arena_take(a, (size_t)pool_threads(f->pool), sizeof *u->threads);
    for (int i = 0; i < pool_threads(f->pool); i++) {
        struct zoo_thread none, *t = u->threads ? &u->threads[i] : &none;
        t->q = arena_take(a, f->n_batch * d, sizeof *t->q);
        t->out = arena_take(a, f->n_batch * d, sizeof *t->out);
        t->k = arena_take(a, 2 * n_ctx * d, sizeof *t->k); /* or (K, V) */
        t->v = arena_take(a, n_ctx * d, sizeof *t->v);
        t->scratch = arena_take(a, scratch, sizeof *t->scratch);
    }
    return made;
}

/* ---- a layer ------------------------------------------------------------------------------ */

struct use_job {
    struct forward *f;
    const struct layer *w;
};

/* K and V of a head from position `first` on; side by side for latent, which reads (K, V) */
static void load_head(const struct use_job *job, const struct zoo_thread *t, size_t seq,
                      size_t kv_head, size_t first, struct tern_zoo *z)
{
    const struct cache *c = job->f->cache;
    size_t d = job->w->head_dim, l = job->w->index, stride = z->latent_dim ? z->latent_dim : d;
    float *v = z->latent_dim ? t->k + d : t->v;
    for (size_t j = 0; j < z->n_keys; j++) {
        kv_load(t->k + j * stride, c, l, seq, first + j, kv_head, true, d);
        kv_load(v + j * stride, c, l, seq, first + j, kv_head, job->w->latent.rank != 0, d);
    }
    z->k = t->k, z->v = t->v;
}

/* U = (1, 0) and V = (0, 1) for the heads of this layer */
static void select_both(float *identity, size_t d)
{
    memset(identity, 0, 4 * d * d * sizeof *identity);
    for (size_t c = 0; c < d; c++)
        identity[c * 2 * d + c] = identity[(d + c) * 2 * d + d + c] = 1;
}

/* q = q rounded to q8, as the engine's scores over a q8 cache read it   [d] */
static void round_query(const struct use_job *job, float *q, int thread)
{
    struct forward *f = job->f;
    const struct attention_scratch *s = &f->scratch[thread].attention;
    size_t d = job->w->head_dim;
    if (f->cache->type != TERN_CACHE_Q8)
        return;
    if (!f->kernels->quantize(s->q8, s->scale, s->sum, q, d))
        mark_bad(f, job->w->index, BAD_QUERY);
    for (size_t c = 0; c < d; c++)
        q[c] = s->q8[c] * s->scale[c / GROUP];
}

/* Rows begin .. end - 1, of a sequence, and of one chunk where attention stays within it */
static void attend_rows(const struct use_job *job, size_t begin, size_t end, size_t head, int thread)
{
    struct forward *f = job->f;
    const struct layer *w = job->w;
    const struct zoo_use *u = f->attend_with;
    const struct zoo_thread *t = &u->threads[thread];
    size_t rows = end - begin, d = w->head_dim, seq = f->rows[begin].seq;
    size_t first = w->chunked ? layer_sees_from(w, f->rows[begin].position)
                              : cache_first(f->cache, w->index, seq) * BLOCK;
    struct tern_zoo z = head_of(u, w, rows, f->rows[begin + rows - 1].position + 1 - first);
    load_head(job, t, seq, head / (w->n_heads / w->n_kv_heads), first, &z);
    for (size_t i = 0; i < rows; i++) {
        memcpy(t->q + i * d, f->q + (begin + i) * f->q_stride + head * d, d * sizeof *t->q);
        round_query(job, t->q + i * d, thread);
    }
    z.alibi = w->alibi ? w->alibi + head : NULL, z.first = first;
    z.q = t->q, z.out = t->out, z.sinks = w->sinks ? w->sinks + head : NULL;
    z.up_k = u->identity, z.up_v = u->identity + 2 * d * d;
    u->kind->run(&z, t->scratch);
    for (size_t i = 0; i < rows; i++)
        memcpy(f->att + (begin + i) * f->q_stride + head * layer_v_dim(w), t->out + i * d,
               layer_v_dim(w) * sizeof *t->out);
}

/* First row after `row` that is not of its chunk, or `end` */
static size_t chunk_end(const struct use_job *job, size_t row, size_t end)
{
    const struct layer *w = job->w;
    const struct row *rows = job->f->rows;
    for (size_t i = row + 1; i < end && w->chunked; i++)
        if (layer_sees_from(w, rows[i].position) != layer_sees_from(w, rows[row].position))
            return i;
    return end;
}

static void attend_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct use_job *job = arg;
    for (size_t i = begin; i < end; i++) {
        const size_t *rows = &job->f->attend_with->begin[i / job->w->n_heads];
        for (size_t row = rows[0], stop; row < rows[1]; row = stop) {
            stop = chunk_end(job, row, rows[1]);
            attend_rows(job, row, stop, i % job->w->n_heads, thread);
        }
    }
}

static void attend(struct forward *f, const struct layer *w)
{
    struct zoo_use *u = f->attend_with;
    struct use_job job = {f, w};
    state_watch(f, w->index, WATCH_ATTEND);
    u->n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (!i || f->rows[i].seq != f->rows[i - 1].seq)
            u->begin[u->n++] = i;
    u->begin[u->n] = f->n;
    if (u->kind->form == ZOO_LATENT)
        select_both(u->identity, w->head_dim);
    profile_run(f->profile, OP_ATTEND, f->pool, u->n * w->n_heads, attend_items, &job);
}

/* ---- the call ----------------------------------------------------------------------------- */

/* "window=N" or the name of a kind */
static enum tern_status read_name(struct zoo_use *u, const char *name, struct tern_error *e)
{
    static const char window[] = "window=";
    const char *digits = name + sizeof window - 1;
    if (!strncmp(name, window, sizeof window - 1)) {
        name = "window";
        for (; *digits >= '0' && *digits <= '9' && u->window < 1 << 24; digits++)
            u->window = 10 * u->window + (size_t)(*digits - '0');
    }
    u->kind = zoo_find(name);
    if (u->kind && strcmp(name, "window"))
        return TERN_OK;
    if (u->kind && u->window && !*digits)
        return TERN_OK;
    if (u->kind)
        return error_set(e, TERN_USAGE, "attention: a window needs its size, as in window=64");
    return error_set(e, TERN_USAGE,
                     "'%.40s' is no kind of attention: naive, online, blocked, split, window=N, "
                     "sinks, bidirectional, latent, linear, delta",
                     name);
}

static enum tern_status check_model(const struct zoo_use *u, const struct cache *c,
                                    const struct model *m, struct tern_error *e)
{
    for (size_t l = 0; l < m->n_layers && u->kind->form == ZOO_STATE; l++) {
        if (m->layers[l].window && m->layers[l].window < c->n_ctx)
            return error_set(e, TERN_USAGE, "layer %zu has a window, %s attention has none", l,
                             u->kind->name);
    }
    return TERN_OK;
}

enum tern_status tern_attention_use(tern_context *c, const char *name, struct tern_error *e)
{
    struct forward *f = &c->forward;
    struct zoo_use as = {.kind = NULL};
    struct arena a = {0};
    enum tern_status s = meet_alone(c->model, "another attention", e);
    if (s)
        return s;
    if (name && ((s = read_name(&as, name, e)) || (s = check_model(&as, &c->cache, f->model, e))))
        return s;
    if (name) {
        (void)take(&a, f, &as);
        s = arena_open(&a, "another attention (try a smaller context or batch)", e);
        if (s)
            return s;
    }
    arena_close(&f->attend_arena);
    f->attend_arena = a;
    f->attend_with = name ? take(&f->attend_arena, f, &as) : NULL;
    f->attend = name ? attend : NULL;
    c->altered |= name != NULL;
    return TERN_OK;
}
