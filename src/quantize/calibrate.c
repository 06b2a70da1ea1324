/* cflags: -O2 */
/* Gathers the inputs of a model's matrices: see calibrate.h. A *site* is a layer (1 + its number), or
 * what is in no layer (0), in the order of a file whose head is tied. The sites that are held at a time
 * are neighbours. Matrices of one tensor that read rows of one space (the streams, or what heads of
 * latent attention made of the compressed rows) share a sum over all these rows. */
#include "quantize/calibrate.h"

#include <stdlib.h>

#include "model/cache.h"
#include "base/sizes.h"
#include "model/ffn.h"
#include "model/forward.h"
#include "model/residual.h"

enum {
    MAX_SEQUENCE = 512,         /* tokens that see each other, and rows of a batch */
    POINTS = WATCH_STREAMS + 1, /* of enum watch_point: inputs */
    BUDGET = 1 << 30            /* bytes of sums held at a time, but at least one site */
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
        return at == WATCH_ATTENTION ||
                       (at == WATCH_EMBED && (c->model->ple_dim || c->model->n_streams)) ||
                       (at == WATCH_STREAMS && c->model->n_streams)
                   ? dim
                   : 0;
    const struct layer *w = site_layer(c, site);
    bool beside = w->mixer == (MIX_ATTENTION | MIX_RECURRENT);
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
        return w->ple_gate.data && !c->model->n_streams ? dim : 0;
    case WATCH_PLE_IN:
        return w->ple_gate.data && c->model->n_streams ? dim : 0;
    case WATCH_PLE_OUT:
        return w->ple_out.k;
    case WATCH_MIX_OUT:
        return beside ? w->mix.out.k : 0;
    case WATCH_HEADS:
        return w->latent.rank;
    case WATCH_LAUREL:
        return w->laurel_right.k;
    default: /* of no layer */
        return 0;
    }
}

/* ---- one look ---- */

/* How many rows of a token are read at a point, */
static size_t parts_at(const struct calibration *c, size_t site, enum watch_point at)
{
    return at == WATCH_HEADS     ? site_layer(c, site)->n_heads
           : at == WATCH_STREAMS ? c->model->n_streams - 1
                                 : 1;
}

/* and the first of a part of them [k], each `*stride` after the last. */
static const float *rows_at(const struct forward *f, enum watch_point at, size_t part, size_t k,
                            size_t *stride)
{
    switch (at) {
    case WATCH_OUT:
    case WATCH_MIX_OUT:
    case WATCH_HEADS:
        *stride = f->q_stride;
        return f->att + part * k;
    case WATCH_LATENT:
        *stride = f->kv_stride;
        return f->v;
    case WATCH_DOWN:
    case WATCH_PLE_OUT:
    case WATCH_LAUREL:
        *stride = f->ffn.stride;
        return f->ffn.x;
    case WATCH_STREAMS:
        *stride = f->model->n_streams * f->dim_stride;
        return f->streams + (part + 1) * f->dim_stride;
    default:
        *stride = f->dim_stride;
        return at == WATCH_PLE_IN ? f->z : f->x;
    }
}

/* The input rows of the matrices, into the scratch. */
static void take_inputs(struct calibration *c, const struct forward *f, size_t site,
                        enum watch_point at, size_t part, size_t k)
{
    const struct layer *w = site ? site_layer(c, site) : NULL;
    const struct norm *norm = at == WATCH_ATTENTION ? (w ? &w->attn_norm : &c->model->final_norm)
                              : at == WATCH_FFN     ? ffn_norm_of(w)
                                                    : NULL;
    size_t stride;
    const float *from = rows_at(f, at, part, k, &stride);
    for (size_t i = 0; i < f->n; i++, from += stride) {
        float *x = c->scratch.x + i * c->scratch.x_stride;
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
        for (size_t part = 0; part < parts_at(c, site, at); part++) {
            take_inputs(c, f, site, at, part, k);
            gram_add(&c->grams[site - c->begin][at], &c->scratch, f->n, k, c->kernels, c->pool);
        }
    }
    if (c->begin > 0 && layer + 1 >= c->end && at != WATCH_EMBED)
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

/* Parts of tensors' names, and where they read. Not in the list: what is looked up, matrices of heads that
 * read rows of a space each (k_up), and what reads rows that are not watched. */
static const struct reads_at {
    const char *part;
    enum watch_point at;
} of_layer[] = {{"q", WATCH_ATTENTION},
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
                {"v_up", WATCH_HEADS},
                {"mix_gate_down", WATCH_ATTENTION},
                {"ple_gate", WATCH_PLE},
                {"ple_out", WATCH_PLE_OUT},
                {"laurel_left", WATCH_ATTENTION},
                {"laurel_right", WATCH_LAUREL}},
  of_model[] = {{"head", WATCH_ATTENTION},
                {"ple_in", WATCH_EMBED},
                {"altup_in", WATCH_EMBED},
                {"altup_out", WATCH_STREAMS}};

static bool find_reader(const struct reads_at *list, size_t n, const char *part,
                        enum watch_point *at)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(part, list[i].part)) {
            *at = list[i].at;
            return true;
        }
    return false;
}

/* The point of a layer's tensor where the layer is not like most */
static enum watch_point point_of(const struct calibration *c, const struct layer *w,
                                 const char *part, enum watch_point at)
{
    if (!strcmp(part, "q") && w->latent.q_rank)
        return WATCH_LATENT;
    if (!strcmp(part, "mix_out") && w->mixer & MIX_ATTENTION)
        return WATCH_MIX_OUT;
    return at == WATCH_PLE && c->model->n_streams ? WATCH_PLE_IN : at;
}

/* The site and point that a tensor reads at; false for what is no matrix of a known kind. */
static bool place_of(const struct calibration *c, const char *tensor, size_t *site,
                     enum watch_point *at)
{
    const char *dot = strrchr(tensor, '.');
    *site = 0;
    if (!dot)
        return find_reader(of_model, sizeof of_model / sizeof *of_model,
                           c->model->head_tied && !strcmp(tensor, "embed") ? "head" : tensor, at);
    if (strncmp(tensor, "layer.", 6))
        return false;
    for (const char *p = tensor + 6; p < dot && *p >= '0' && *p <= '9'; p++)
        *site = *site * 10 + (size_t)(*p - '0');
    *site += 1;
    if (*site > c->model->n_layers ||
        !find_reader(of_layer, sizeof of_layer / sizeof *of_layer, dot + 1, at))
        return false;
    const struct layer *w = site_layer(c, *site);
    *at = point_of(c, w, dot + 1, *at);
    if (!point_columns(c, *site, *at) || (!strcmp(dot + 1, "mix_gate") && w->mix.gate_down.data))
        return false;
    return (*at != WATCH_FFN && *at != WATCH_DOWN) || !w->experts.n; /* which see some rows each */
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
        bool tied = site == 0 && at == WATCH_ATTENTION && c->model->head_tied;
        double damping = tied ? DAMPING_TIED : DAMPING;
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
    for (size_t site = 0; site <= m->n_layers; site++)
        for (int at = 0; at < POINTS; at++)
            k = max_size(k, point_columns(c, site, (enum watch_point)at));
    if (n < 2)
        return error_set(e, TERN_USAGE, "the model holds %zu position: it cannot be calibrated", n);
    struct cache_request request = {TERN_CACHE_F32, n, n, 1, 0};
    enum tern_status s = cache_open(&c->cache, m, &request, e);
    if (!s)
        s = state_open(&c->forward, m, c->kernels, c->pool, &c->cache, n, 0, e);
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
