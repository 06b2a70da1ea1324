/* cflags: -O2 */
/* Gathers the inputs of a model's matrices: see calibrate.h. A *site* is the head (0) or a layer
 * (1 + its number), in the order of a file whose head is tied. The sites that are held at a time
 * are neighbours. */
#include "quantize/calibrate.h"

#include <stdlib.h>

#include "model/cache.h"
#include "base/sizes.h"
#include "model/ffn.h"
#include "model/forward.h"
#include "model/residual.h"

enum {
    MAX_SEQUENCE = 512, /* tokens that see each other, and rows of a batch */
    POINTS = 7,         /* of enum watch_point: inputs; the head has only the first */
    BUDGET = 1 << 30    /* bytes of sums held at a time, but at least one site */
};

struct calibration {
    const struct model *model;
    const struct kernels *kernels;
    struct pool *pool;
    struct calibration_text text;
    struct cache cache;
    struct forward forward;
    struct gram_scratch scratch;
    struct factor factor;
    size_t factor_site; /* that `factor` is of; SIZE_MAX: none */
    enum watch_point factor_point;
    size_t begin, end;            /* sites held */
    struct gram (*grams)[POINTS]; /* [end - begin] */
    struct arena arena;           /* owns their numbers */
};

static const struct layer *site_layer(const struct calibration *c, size_t site)
{
    return &c->model->layers[site - 1];
}

/* Columns of the matrices that read at this point; 0: none. */
static size_t point_columns(const struct calibration *c, size_t site, enum watch_point at)
{
    size_t dim = c->model->dim;
    if (site == 0)
        return at == WATCH_ATTENTION ? dim : 0;
    const struct layer *w = site_layer(c, site);
    switch (at) {
    case WATCH_ATTENTION:
        return w->mixer ? dim : 0;
    case WATCH_OUT:
        return w->mixer ? layer_out(w)->k : 0;
    case WATCH_FFN:
        return w->hidden ? dim : 0;
    case WATCH_DOWN:
        return w->hidden;
    case WATCH_LATENT:
        return w->latent.q_rank;
    case WATCH_PLE:
        return w->ple_gate.data && !c->model->n_streams ? dim : 0; /* else it reads z */
    default: /* WATCH_PLE_OUT */
        return w->ple_out.k;
    }
}

/* ---- one look ---- */

/* The input rows of the matrices, into the scratch. */
static void take_inputs(struct calibration *c, const struct forward *f, size_t site,
                        enum watch_point at, size_t k)
{
    const struct layer *w = site ? site_layer(c, site) : NULL;
    const struct norm *norm = !w                      ? &c->model->final_norm
                              : at == WATCH_ATTENTION ? &w->attn_norm
                              : at == WATCH_FFN       ? ffn_norm_of(w)
                                                      : NULL;
    for (size_t i = 0; i < f->n; i++) {
        float *x = c->scratch.x + i * c->scratch.x_stride;
        const float *from = at == WATCH_OUT                           ? f->att + i * f->q_stride
                            : at == WATCH_LATENT                      ? f->v + i * f->kv_stride
                            : at == WATCH_DOWN || at == WATCH_PLE_OUT ? f->ffn.x + i * f->ffn.stride
                                                                      : f->x + i * f->dim_stride;
        if (has_norm(norm))
            norm_row(f, x, from, norm, k);
        if (has_norm(norm) && w && w->round_inputs)
            round_row(x, k);
        else if (!has_norm(norm))
            memcpy(x, from, k * sizeof *x);
    }
}

static void watch(void *arg, struct forward *f, size_t layer, enum watch_point at)
{
    struct calibration *c = arg;
    size_t site = layer < c->model->n_layers ? layer + 1 : 0, k;
    if ((int)at < POINTS && site >= c->begin && site < c->end && (k = point_columns(c, site, at))) {
        take_inputs(c, f, site, at, k);
        gram_add(&c->grams[site - c->begin][at], &c->scratch, f->n, k, c->kernels, c->pool);
    }
    if (c->begin > 0 && layer + 1 >= c->end)
        atomic_store(&f->cancel, 1); /* no later layer is of interest */
}

/* ---- a run over the text ---- */

enum tern_status calibrate_stopped(struct tern_error *e)
{
    return error_set(e, TERN_CANCELLED, "stopped; no file was written");
}

static enum tern_status run_text(struct calibration *c, struct tern_error *e)
{
    struct forward *f = &c->forward;
    size_t lead = c->text.bos >= 0, room = f->n_batch - lead;
    for (size_t at = 0; at < c->text.n && !pool_stopped(c->pool, 0); at += room) {
        f->n = 0;
        if (lead)
            f->rows[f->n++] = (struct row){.token = c->text.bos};
        for (size_t i = at; i < c->text.n && i < at + room; i++, f->n++)
            f->rows[f->n] = (struct row){.position = (uint32_t)f->n, .token = c->text.tokens[i]};
        (void)forward_run(f); /* cancelled by watch(), or whole */
        cache_keep(&c->cache, 0, 0);
    }
    if (pool_stopped(c->pool, 0))
        return calibrate_stopped(e);
    return atomic_load(&f->bad) ? error_set(e, TERN_LIMIT,
                                            "the calibration text makes the model compute a value "
                                            "that is not finite")
                                : TERN_OK;
}

static uint64_t site_bytes(const struct calibration *c, size_t site)
{
    uint64_t bytes = 0;
    for (int at = 0; at < POINTS; at++) {
        size_t k = point_columns(c, site, (enum watch_point)at);
        bytes += k ? gram_bytes(k) : 0;
    }
    return bytes;
}

static void layout(struct calibration *c)
{
    c->grams = arena_take(&c->arena, c->end - c->begin, sizeof *c->grams);
    for (size_t site = c->begin; site < c->end; site++)
        for (int at = 0; at < POINTS; at++) {
            size_t k = point_columns(c, site, (enum watch_point)at);
            struct gram g = gram_shape(k ? k : 1);
            g.h = k ? arena_take(&c->arena, (uint64_t)g.k * g.stride, sizeof *g.h) : NULL;
            if (c->grams)
                c->grams[site - c->begin][at] = g;
        }
}

/* Holds `site` and what fits after it. */
static enum tern_status hold(struct calibration *c, size_t site, struct tern_error *e)
{
    uint64_t bytes = site_bytes(c, site);
    arena_close(&c->arena);
    c->arena = (struct arena){0};
    c->begin = site;
    for (c->end = site + 1; c->end <= c->model->n_layers; c->end++)
        if ((bytes += site_bytes(c, c->end)) > BUDGET)
            break;
    layout(c);
    enum tern_status s = arena_open(&c->arena, "the sums over the calibration text", e);
    if (s) {
        c->end = c->begin;
        return s;
    }
    layout(c);
    return run_text(c, e);
}

/* ---- factors ---- */

/* Of the mean diagonal. An embedding that is also the head is looked up too, and there each column
 * counts alike. */
static const double DAMPING = 0.01, DAMPING_TIED = 1;

/* The site and point that a tensor reads at; false for what is no matrix of a known kind. */
static bool place_of(const struct calibration *c, const char *tensor, size_t *site,
                     enum watch_point *at)
{
    static const struct {
        const char *part;
        enum watch_point at;
    } parts[] = {{"q", WATCH_ATTENTION},
                 {"k", WATCH_ATTENTION},
                 {"v", WATCH_ATTENTION},
                 {"o", WATCH_OUT},
                 {"gate", WATCH_FFN},
                 {"up", WATCH_FFN},
                 {"down", WATCH_DOWN},
                 {"mix_out", WATCH_OUT},
                 {"mix_in", WATCH_ATTENTION},
                 {"mix_gate", WATCH_ATTENTION},
                 {"attn_gate", WATCH_ATTENTION},
                 {"q_down", WATCH_ATTENTION},
                 {"mix_gate_down", WATCH_ATTENTION},
                 {"ple_gate", WATCH_PLE},
                 {"ple_out", WATCH_PLE_OUT}};
    const char *dot = strrchr(tensor, '.');
    *site = 0, *at = WATCH_ATTENTION;
    if (!dot)
        return !strcmp(tensor, c->model->head_tied ? "embed" : "head");
    if (strncmp(tensor, "layer.", 6))
        return false;
    for (const char *p = tensor + 6; p < dot && *p >= '0' && *p <= '9'; p++)
        *site = *site * 10 + (size_t)(*p - '0');
    *site += 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(dot + 1, parts[i].part)) {
            *at = parts[i].at;
            if (*site > c->model->n_layers)
                return false;
            if (parts[i].at == WATCH_OUT &&
                site_layer(c, *site)->mixer == (MIX_ATTENTION | MIX_RECURRENT) &&
                parts[i].part[0] == 'm')
                return false; /* what it reads is not watched: attention's is */
            if (!strcmp(parts[i].part, "q") && site_layer(c, *site)->latent.q_rank)
                *at = WATCH_LATENT;
            if (!strcmp(parts[i].part, "mix_gate") && site_layer(c, *site)->mix.gate_down.data)
                return false;
            if (!point_columns(c, *site, *at))
                return false;
            return (*at != WATCH_FFN && *at != WATCH_DOWN) ||
                   !site_layer(c, *site)->experts.n; /* which see some rows each */
        }
    return false;
}

enum tern_status calibrate_find(struct calibration *c, const char *tensor, const struct factor **f,
                                struct tern_error *e)
{
    size_t site;
    enum watch_point at;
    *f = NULL;
    if (!place_of(c, tensor, &site, &at))
        return TERN_OK;
    enum tern_status s = TERN_OK;
    if (site < c->begin || site >= c->end)
        s = hold(c, site, e);
    if (!s && (site != c->factor_site || at != c->factor_point)) {
        c->factor_site = SIZE_MAX;
        double damping = site == 0 && c->model->head_tied ? DAMPING_TIED : DAMPING;
        bool good = factor_make(&c->factor, &c->grams[site - c->begin][at], damping, c->pool);
        if (pool_stopped(c->pool, 0))
            return calibrate_stopped(e);
        if (!good)
            return error_set(e, TERN_LIMIT,
                             "the inputs of tensor '%s' over the calibration text are too large to "
                             "be summed",
                             tensor);
        c->factor_site = site, c->factor_point = at;
    }
    *f = s ? NULL : &c->factor;
    return s;
}

const struct kernels *calibrate_kernels(const struct calibration *c)
{
    return c->kernels;
}

/* ---- open and close ---- */

static enum tern_status open_parts(struct calibration *c, struct tern_error *e)
{
    const struct model *m = c->model;
    size_t n = m->max_seq < MAX_SEQUENCE ? m->max_seq : MAX_SEQUENCE, k = m->dim;
    for (size_t l = 0; l < m->n_layers; l++)
        k = max_size(max_size(k, m->layers[l].latent.q_rank),
                     max_size(layer_out(&m->layers[l])->k, m->layers[l].hidden));
    k = max_size(k, m->ple_dim);
    if (n < 2)
        return error_set(e, TERN_USAGE, "the model holds %zu position: it cannot be calibrated", n);
    enum tern_status s = cache_open(&c->cache, m, TERN_CACHE_F32, n, n, 1, e);
    if (!s)
        s = state_open(&c->forward, m, c->kernels, c->pool, &c->cache, n, e);
    if (!s)
        s = gram_scratch_open(&c->scratch, n, k, pool_threads(c->pool), e);
    if (!s)
        s = factor_open(&c->factor, k, e);
    c->forward.watch = watch;
    c->forward.watch_arg = c;
    return s;
}

enum tern_status calibrate_open(struct calibration **out, const struct model *m,
                                const struct kernels *kernels, struct pool *pool,
                                const struct calibration_text *text, struct tern_error *e)
{
    struct calibration *c = *out = calloc(1, sizeof *c);
    if (!c)
        return error_memory(e, "the calibration", sizeof *c);
    c->model = m, c->kernels = kernels, c->pool = pool, c->text = *text;
    c->factor_site = SIZE_MAX;
    return open_parts(c, e);
}

void calibrate_close(struct calibration *c)
{
    if (!c)
        return;
    arena_close(&c->arena);
    factor_close(&c->factor);
    gram_scratch_close(&c->scratch);
    state_close(&c->forward);
    cache_close(&c->cache);
    free(c);
}
