/* tern_zoo: a kind of attention on plain arrays. In: struct tern_zoo as a program fills it. Out: its
 * arrays, and what the run took. The kinds are model/zoo.c's; "engine" is a context's own attention
 * over a cache of one layer, made for the call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "model/kv_store.h"
#include "model/zoo.h"

static const char engine[] = "engine";

const char *tern_zoo_name(size_t i)
{
    const struct zoo_kind *kind = zoo_at(i);
    return kind ? kind->name : i && zoo_at(i - 1) ? engine : NULL;
}

const char *tern_zoo_paper(size_t i)
{
    const struct zoo_kind *kind = zoo_at(i);
    return kind ? kind->paper : i && zoo_at(i - 1) ? "src/kernels/README.md" : NULL;
}

/* ---- checks ------------------------------------------------------------------------------- */

static struct tern_zoo with_defaults(const struct tern_zoo *given, const char *name)
{
    struct tern_zoo z = *given;
    z.n_seqs = z.n_seqs ? z.n_seqs : 1;
    z.n_keys = z.n_keys ? z.n_keys : z.n_rows;
    z.n_kv_heads = z.n_kv_heads && strcmp(name, "latent") ? z.n_kv_heads : z.n_heads;
    z.v_dim = z.v_dim ? z.v_dim : z.head_dim;
    z.block = z.block ? z.block : BLOCK;
    z.parts = z.parts ? z.parts : 4;
    if (z.scale == 0 && z.head_dim)
        z.scale = 1 / sqrtf((float)z.head_dim);
    if (!strcmp(name, "bidirectional"))
        z.bidirectional = 1;
    return z;
}

static enum tern_status check_sizes(const struct tern_zoo *z, struct tern_error *e)
{
    const struct {
        const char *name;
        size_t value, max;
    } sizes[] = {{"n_seqs", z->n_seqs, 1 << 20},     {"n_rows", z->n_rows, 1 << 24},
                 {"n_keys", z->n_keys, 1 << 24},     {"n_heads", z->n_heads, 1 << 12},
                 {"head_dim", z->head_dim, 1 << 12}, {"v_dim", z->v_dim, 1 << 12},
                 {"block", z->block, 1 << 24},       {"parts", z->parts, 1 << 24}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].max)
            return error_set(e, TERN_USAGE, "attention: %s is %zu, want 1 to %zu", sizes[i].name,
                             sizes[i].value, sizes[i].max);
    if (z->n_heads % z->n_kv_heads)
        return error_set(e, TERN_USAGE, "attention: %zu KV heads do not divide %zu heads",
                         z->n_kv_heads, z->n_heads);
    if (z->n_rows > z->n_keys && (!z->bidirectional || z->window))
        return error_set(e, TERN_USAGE, "attention: %zu rows have no places among %zu keys",
                         z->n_rows, z->n_keys);
    return TERN_OK;
}

/* What a kind has not. NULL kind: the engine */
static enum tern_status check_kind(const struct tern_zoo *z, const struct zoo_kind *kind,
                                   struct tern_error *e)
{
    bool is_state = kind && kind->form == ZOO_STATE,
         is_delta = is_state && !strcmp(kind->name, "delta");
    bool is_latent = kind && kind->form == ZOO_LATENT;
    if (is_state && (z->window || z->sinks || z->mask || z->cap > 0 || z->alibi))
        return error_set(e, TERN_USAGE, "%s attention has no window, sinks, mask, cap or alibi",
                         kind->name);
    if (is_delta && (z->bidirectional || z->weights))
        return error_set(e, TERN_USAGE, "the delta net is causal and has no weights to show");
    if (!kind && (z->bidirectional || z->mask || z->weights || z->first || z->v_dim != z->head_dim))
        return error_set(e, TERN_USAGE,
                         "the engine's attention is causal, shows no weights, and has no mask and "
                         "no first and v_dim of its own");
    if (is_latent && (!z->latent_dim || z->rope_dim >= z->head_dim || !z->up_k || !z->up_v))
        return error_set(e, TERN_USAGE,
                         "latent attention needs latent_dim, up_k, up_v and a rope_dim below "
                         "head_dim");
    if (!z->q || !z->k || !z->out || (!z->v && !is_latent))
        return error_set(e, TERN_USAGE, "attention: q, k, v and out are arrays, not NULL");
    return TERN_OK;
}

/* ---- costs -------------------------------------------------------------------------------- */

/* Pairs of a row and a key that it sees */
static uint64_t pairs(const struct tern_zoo *z)
{
    uint64_t n = 0;
    for (size_t i = 0; i < z->n_rows; i++)
        for (size_t j = 0; j < z->n_keys; j++)
            n += zoo_sees(z, i, j);
    return n;
}

/* Multiply-adds of dots and sums; floats of q, k, v and out that pass: k and v once for each pair
 * and query head, and the state of the relatives, read and written, once for each key */
static void count(const struct tern_zoo *z, enum zoo_form form, struct tern_zoo_cost *cost)
{
    uint64_t H = z->n_heads, d = z->head_dim, e = z->v_dim, own = H * z->n_rows * (d + e);
    uint64_t n = form == ZOO_STATE ? z->n_keys : pairs(z), r = z->latent_dim, rope = z->rope_dim;
    uint64_t macs = H * n * (d + e), floats = own + macs;
    if (form == ZOO_LATENT) {
        macs = H * (n * (2 * r + rope) + z->n_rows * (d - rope + e) * r);
        floats = own + H * n * (2 * r + rope);
    }
    if (form == ZOO_STATE) {
        macs = H * d * e * (2 * n + z->n_rows);
        floats = own + H * n * (d + e + 2 * d * e);
    }
    cost->macs = z->n_seqs * macs;
    cost->bytes = z->n_seqs * floats * sizeof(float);
}

/* ---- a kind of the zoo --------------------------------------------------------------------- */

/* z of sequence i alone */
static struct tern_zoo sequence(const struct tern_zoo *z, size_t i, enum zoo_form form)
{
    struct tern_zoo one = *z;
    size_t key = form == ZOO_LATENT ? z->latent_dim + z->rope_dim : z->n_kv_heads * z->head_dim;
    one.q += i * z->n_rows * z->n_heads * z->head_dim;
    one.k += i * z->n_keys * key;
    one.v += z->v ? i * z->n_keys * z->n_kv_heads * z->v_dim : 0;
    one.out += i * z->n_rows * z->n_heads * z->v_dim;
    one.weights += z->weights ? i * z->n_heads * z->n_rows * z->n_keys : 0;
    one.beta += z->beta ? i * z->n_keys * z->n_kv_heads : 0;
    return one;
}

static enum tern_status run_kind(const struct tern_zoo *z, const struct zoo_kind *kind,
                                 struct tern_zoo_cost *cost, struct tern_error *e)
{
    size_t floats = kind->scratch(z);
    float *scratch = calloc(floats + 1, sizeof *scratch);
    if (!scratch)
        return error_memory(e, "attention", floats * sizeof *scratch);
    uint64_t start = clock_ns();
    for (size_t i = 0; i < z->n_seqs; i++) {
        struct tern_zoo one = sequence(z, i, kind->form);
        kind->run(&one, scratch);
    }
    cost->seconds = (double)(clock_ns() - start) * 1e-9;
    free(scratch);
    cost->scratch_bytes = floats * sizeof *scratch;
    count(z, kind->form, cost);
    return TERN_OK;
}

/* ---- the engine's own ---------------------------------------------------------------------- */

struct own { /* a model of one layer that only attends, and its cache */
    struct layer layer;
    struct model model;
    struct kernels kernels;
    struct pool *pool;
    struct cache cache;
    struct forward forward;
};

static enum tern_status open_own(struct own *o, const struct tern_zoo *z, struct tern_error *e)
{
    enum tern_status s;
    o->layer = (struct layer){.n_heads = z->n_heads,
                              .n_kv_heads = z->n_kv_heads,
                              .head_dim = z->head_dim,
                              .window = z->window,
                              .attn_scale = z->scale,
                              .attn_cap = z->cap,
                              .sinks = z->sinks,
                              .alibi = z->alibi};
    o->model = (struct model){.n_layers = 1, .dim = 1, .vocab = 1, .layers = &o->layer};
    o->model.embed = (struct matrix){.rows = 1, .k = 1}; /* for what counts bytes */
    struct cache_request request = {TERN_CACHE_F32, z->n_keys, z->n_keys, 1, 0};
    (void)((s = kernels_init(&o->kernels, NULL, e)) || (s = pool_open(&o->pool, 1, e)) ||
           (s = cache_open(&o->cache, &o->model, &request, e)) ||
           (s = state_open(&o->forward, &o->model, &o->kernels, o->pool, &o->cache, z->n_rows, 0,
                           e)));
    return s;
}

static void close_own(struct own *o)
{
    state_close(&o->forward);
    cache_close(&o->cache);
    pool_close(o->pool);
}

/* K, V and the queries of a sequence to where the engine keeps them */
static void fill_own(struct own *o, const struct tern_zoo *z)
{
    struct forward *f = &o->forward;
    size_t kv = z->n_kv_heads * z->head_dim, q = z->n_heads * z->head_dim;
    cache_keep(&o->cache, 0, 0);
    cache_extend(&o->cache, 0, z->n_keys);
    for (size_t j = 0; j < z->n_keys; j++)
        for (size_t g = 0; g < z->n_kv_heads; g++)
            for (int is_key = 0; is_key < 2; is_key++)
                kv_store(f, 0, &(struct row){.position = (uint32_t)j}, g, is_key,
                         (is_key ? z->k : z->v) + j * kv + g * z->head_dim, z->head_dim,
                         &f->scratch->attention);
    f->n = z->n_rows;
    for (size_t i = 0; i < z->n_rows; i++) {
        f->rows[i] = (struct row){.position = (uint32_t)(z->n_keys - z->n_rows + i)};
        memcpy(f->q + i * f->q_stride, z->q + i * q, q * sizeof *f->q);
    }
}

/* Bytes that attention has for itself and one thread */
static uint64_t own_scratch(const struct own *o, const struct tern_zoo *z)
{
    struct attention shared;
    struct attention_scratch s;
    struct arena a = {0};
    attention_take(&shared, &a, &o->model, z->n_keys, z->n_rows);
    attention_take_scratch(&shared, &a, &s);
    return a.used;
}

static enum tern_status run_own(const struct tern_zoo *z, struct tern_zoo_cost *cost,
                                struct tern_error *e)
{
    struct own o = {.pool = NULL};
    struct forward *f = &o.forward;
    struct profile_cost ops[N_OPERATIONS] = {{0}};
    enum tern_status s = open_own(&o, z, e);
    for (size_t i = 0; !s && i < z->n_seqs; i++) {
        struct tern_zoo one = sequence(z, i, ZOO_PAIRS);
        size_t q = z->n_heads * z->head_dim;
        fill_own(&o, &one);
        uint64_t start = clock_ns();
        step_attend(f, &o.layer);
        cost->seconds += (double)(clock_ns() - start) * 1e-9;
        for (size_t row = 0; row < z->n_rows; row++)
            memcpy(one.out + row * q, f->att + row * f->q_stride, q * sizeof *f->att);
        profile_cost(&o.model, &o.cache, f->rows, f->n, ops);
    }
    if (!s) {
        cost->macs = ops[OP_ATTEND].macs;
        cost->bytes = ops[OP_ATTEND].bytes +
                      2 * z->n_seqs * z->n_rows * z->n_heads * z->head_dim * sizeof(float);
        cost->scratch_bytes = own_scratch(&o, z);
    }
    close_own(&o);
    return s;
}

enum tern_status tern_zoo(const struct tern_zoo *given, const char *name,
                          struct tern_zoo_cost *cost, struct tern_error *e)
{
    struct tern_zoo_cost none;
    const struct zoo_kind *kind = name ? zoo_find(name) : NULL;
    if (!kind && (!name || strcmp(name, engine)))
        return error_set(e, TERN_USAGE, "'%.40s' is no kind of attention (naive, online, ...)",
                         name ? name : "");
    struct tern_zoo z = with_defaults(given, name);
    cost = cost ? cost : &none;
    *cost = (struct tern_zoo_cost){0};
    enum tern_status s = check_sizes(&z, e);
    if (s || (s = check_kind(&z, kind, e)))
        return s;
    struct fpenv saved = fpenv_enter();
    s = kind ? run_kind(&z, kind, cost, e) : run_own(&z, cost, e);
    fpenv_leave(saved);
    return s;
}
