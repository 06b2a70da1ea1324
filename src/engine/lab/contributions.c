/* cflags: -O2 */
/* Direct contributions: tern_contributions in tern_lab.h, which has the formulas. The way from the
 * stream to the logit is linear once the scales of norms are held, so a direction d [dim] in the
 * stream is all that is needed of it, and one product v = W^T d for each matrix W that adds to the
 * stream: what a part of W's input x adds to the logit is that part of v . x. */
#include <string.h>

#include "base/fpenv.h"
#include "base/sizes.h"
#include "engine/lab/kept_row.h"
#include "engine/lab/lens.h"
#include "engine/lab/stream_ways.h"
#include "model/altup.h"
#include "model/linear.h"
#include "model/residual.h"
#include "tern_lab.h"

/* ---- matrices that add to the stream -------------------------------------------------------- */

/* A norm with its scale held */
struct held {
    const struct norm *norm;
    float scale;
};

/* What is added to the stream meets `by` times d [dim] on its way to the logit. */
struct way {
    const double *d;
    double by;
};

/* W x [dim] is added to the stream through norms, times `weight`. Its input has n_parts parts of one
 * width. */
struct source {
    struct matrix w;
    struct way way;
    size_t n_parts;
    struct held inner, outer; /* of an expert, of what the layer adds; or no norm */
    float weight;
    const float *x;  /* [w.k] */
    double *parts;   /* [n_parts] out: what each adds to the logit */
    double bias;     /* and W's bias, */
    double rounding; /* and that x is rounded */
};

struct thread_room {
    double *d, *v;        /* [dim]; [widest k] */
    struct act_buffer in; /* [widest k] the input of a matrix; its x: a row of the matrix */
};

struct tally {
    const struct forward *f;
    const struct kept_row *t;
    float *row;    /* [dim] */
    float *logits; /* [vocab] */
    double *head;  /* [dim] the token's row of the head, times logit_scale: what norm(x) meets */
    double *d;     /* [dim] what x meets */
    double *factor; /* [n_layers + 1] product of the scales of this layer and all later ones */
    struct stream_ways ways; /* of several streams */
    struct source *sources;
    size_t n_sources;
    double *parts;             /* of all sources; those that are left */
    struct thread_room *rooms; /* [threads] */
    struct tern_term *out;     /* [max] */
    size_t n, max;
    double total; /* of the terms so far */
};

/* to = factor * d through norm with its scale held (no norm: factor * d)   [dim] */
static void through_norm(const struct model *m, const struct norm *norm, float scale, double factor,
                         const double *d, double *to)
{
    double mean = 0;
    for (size_t c = 0; c < m->dim; c++) {
        to[c] = factor * d[c] * (has_norm(norm) ? (double)scale * norm->weight[c] : 1);
        mean += to[c] / (double)m->dim;
    }
    for (size_t c = 0; c < m->dim && has_norm(norm) && m->layer_norm; c++)
        to[c] -= mean;
}

/* v = W^T d   W [rows, k] */
static void transpose_times(const struct forward *f, const struct source *s,
                            const struct thread_room *room)
{
    size_t k = s->w.k;
    double *v = room->v;
    memset(v, 0, k * sizeof *v);
    for (size_t r = 0; r < s->w.rows; r++) {
        double d = room->d[r];
        f->kernels->get_row[s->w.type](room->in.x, s->w.data, k, r);
        for (size_t c = 0; c < k; c++)
            v[c] += d * room->in.x[c];
    }
}

/* v . (rounded x - x), for a matrix that reads integers   [k] */
static double rounding(const struct forward *f, const struct act_buffer *in, const float *x,
                       const double *v, size_t k)
{
    double sum = 0;
    f->kernels->quantize(in->q, in->scale, in->sum, x, k);
    for (size_t c = 0; c < k; c++)
        sum += v[c] * ((double)in->q[c] * in->scale[c / GROUP] - x[c]);
    return sum;
}

static void source_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct tally *u = arg;
    const struct forward *f = u->f;
    struct thread_room *room = &u->rooms[thread];
    for (size_t i = begin; i < end; i++) {
        struct source *s = &u->sources[i];
        size_t part = s->w.k / s->n_parts;
        through_norm(f->model, s->outer.norm, s->outer.scale, s->way.by, s->way.d, room->d);
        through_norm(f->model, s->inner.norm, s->inner.scale, s->weight, room->d, room->d);
        transpose_times(f, s, room);
        for (size_t c = 0; c < s->w.k; c++)
            s->parts[c / part] += room->v[c] * s->x[c];
        for (size_t r = 0; r < s->w.rows && s->w.bias; r++)
            s->bias += room->d[r] * s->w.bias[r];
        if (type_is_quantized(s->w.type))
            s->rounding = rounding(f, &room->in, s->x, room->v, s->w.k);
    }
}

/* Of x, before the layer's feed-forward */
static double laurel_scale(const struct layer *w)
{
    return w->laurel_left.data ? (double)LAUREL_SCALE : 1;
}

/* Of a layer: what its mixer adds, its feed-forward, its own embedding, and the learned residual */
enum adder { OF_MIXER, OF_FFN, OF_OWN, OF_LAUREL };

static struct way way_of(const struct tally *u, const struct layer *w, enum adder adder)
{
    const struct model *m = u->f->model;
    bool after = adder == OF_FFN || adder == OF_OWN;
    bool scaled = adder != OF_LAUREL && (adder != OF_OWN || !m->n_streams);
    double scale = scaled ? m->residual_scale : 1;
    if (m->n_streams)
        return (struct way){(adder == OF_OWN ? u->ways.own : u->ways.out) + w->index * m->dim,
                            scale * (after ? 1 : laurel_scale(w))};
    return (struct way){u->d, scale * u->factor[w->index] / (after ? laurel_scale(w) : 1)};
}

static void add_source(struct tally *u, struct source s)
{
    s.parts = u->parts;
    u->parts += s.n_parts;
    u->sources[u->n_sources++] = s;
}

/* Parts of what a mixer adds: heads of attention or of states; a convolution has one. */
static size_t n_heads(const struct layer *w)
{
    return w->n_heads ? w->n_heads : max_size(w->mix.v_heads, 1);
}

static void list_experts(struct tally *u, const struct layer *w, struct held outer)
{
    const struct kept_layer *k = &u->t->layers[w->index];
    const struct experts *x = &w->experts;
    struct source s = {.way = way_of(u, w, OF_FFN), .n_parts = 1, .outer = outer};
    for (size_t j = 0; j < x->n_used; j++) {
        s.inner = (struct held){&x->post_norm, k->expert_post};
        s.w = matrix_rows(&w->down, k->chosen[j].expert, 0, u->f->model->dim);
        s.weight = x->weigh_input ? 1 : k->chosen[j].weight, s.x = k->act + j * w->hidden;
        add_source(u, s);
    }
    s.inner = (struct held){&x->shared_post_norm, k->shared_post};
    s.w = x->shared_down, s.weight = k->shared_weight, s.x = k->shared;
    if (x->shared_hidden)
        add_source(u, s);
}

static void list_sources(struct tally *u)
{
    const struct model *m = u->f->model;
    for (size_t l = 0; l < m->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        const struct kept_layer *k = &u->t->layers[l];
        struct source s = {.way = way_of(u, w, OF_MIXER), .n_parts = 1, .weight = 1};
        s.w = *layer_out(w), s.x = k->att, s.n_parts = n_heads(w);
        s.outer = (struct held){&w->attn_post_norm, k->attn_post};
        if (w->mixer)
            add_source(u, s);
        s.w = w->mix.out, s.x = k->mix, s.n_parts = max_size(w->mix.v_heads, 1);
        if (both_mixers(w))
            add_source(u, s);
        s.w = w->down, s.x = k->act, s.n_parts = 1, s.way = way_of(u, w, OF_FFN);
        s.outer = (struct held){&w->ffn_post_norm, k->ffn_post};
        if (w->experts.n)
            list_experts(u, w, s.outer);
        else if (w->hidden)
            add_source(u, s);
        s.w = w->ple_out, s.x = k->ple, s.way = way_of(u, w, OF_OWN);
        s.outer = (struct held){&w->ple_post_norm, k->ple_post};
        if (w->ple_out.data)
            add_source(u, s);
    }
}

/* ---- terms ---------------------------------------------------------------------------------- */

static void emit(struct tally *u, enum tern_term_kind kind, size_t layer, size_t index,
                 double value)
{
    if (u->n < u->max)
        u->out[u->n] = (struct tern_term){kind, layer, index, (float)value};
    u->n++;
    u->total += value;
}

static double dot(const double *d, const float *x, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += d[c] * x[c];
    return sum;
}

static void emit_embedding(struct tally *u)
{
    const struct model *m = u->f->model;
    u->f->kernels->get_row[m->embed.type](u->row, m->embed.data, m->dim, (size_t)u->t->row.token);
    float scale = m->embed_scale;
    if (has_norm(&m->embed_norm)) {
        u->f->kernels->scale(u->row, scale, m->dim);
        norm_row(u->f, u->row, u->row, &m->embed_norm, m->dim);
        scale = 1;
    }
    if (m->n_streams) { /* it is all that the first streams are made of */
        emit(u, TERN_TERM_EMBED, 0, 0, dot(u->ways.streams, u->t->first, m->n_streams * m->dim));
        return;
    }
    emit(u, TERN_TERM_EMBED, 0, 0, u->factor[0] * scale * dot(u->d, u->row, m->dim));
    if (m->positions)
        emit(u, TERN_TERM_POSITION, 0, 0,
             u->factor[0] * dot(u->d, m->positions + u->t->row.position * m->dim, m->dim));
}

/* What the bias of a norm of what a layer adds gives */
static double norm_bias(const struct tally *u, const struct layer *w, enum adder adder,
                        const struct norm *norm)
{
    struct way way = way_of(u, w, adder);
    return way.by * dot(way.d, norm->bias, u->f->model->dim);
}

static void emit_norm(struct tally *u, enum tern_term_kind kind, const struct layer *w,
                      enum adder adder, const struct norm *norm)
{
    if (has_norm(norm) && norm->bias)
        emit(u, kind, w->index, 0, norm_bias(u, w, adder, norm));
}

static void emit_laurel(struct tally *u, const struct layer *w)
{
    struct way way = way_of(u, w, OF_LAUREL);
    if (w->laurel_left.data)
        emit(u, TERN_TERM_LAUREL, w->index, 0,
             way.by * dot(way.d, u->t->layers[w->index].laurel, u->f->model->dim));
}

/* Returns the source after the mixers'. Heads of states are numbered after those of attention. */
static const struct source *emit_mixers(struct tally *u, const struct layer *w, const struct source *s)
{
    double bias = 0, rounded = 0;
    bool is_biased = false, is_rounded = false;
    for (size_t i = 0, first = 0; i < (both_mixers(w) ? 2 : 1); i++, first += s->n_parts, s++) {
        for (size_t h = 0; h < s->n_parts; h++)
            emit(u, TERN_TERM_HEAD, w->index, first + h, s->parts[h]);
        bias += s->bias, rounded += s->rounding;
        is_biased |= s->w.bias != NULL, is_rounded |= type_is_quantized(s->w.type);
    }
    if (is_biased)
        emit(u, TERN_TERM_O_BIAS, w->index, 0, bias);
    if (is_rounded)
        emit(u, TERN_TERM_ROUND_O, w->index, 0, rounded);
    emit_norm(u, TERN_TERM_ATTN_NORM, w, OF_MIXER, &w->attn_post_norm);
    emit_laurel(u, w);
    return s;
}

/* Returns the source after the layer's. */
static const struct source *emit_ffn(struct tally *u, const struct layer *w, const struct source *s)
{
    const struct experts *x = &w->experts;
    double rounded = 0;
    bool is_rounded = false;
    size_t n = w->hidden ? max_size(x->n_used, 1) + (x->shared_hidden > 0) : 0;
    for (size_t j = 0; j < n + (w->ple_out.data != NULL); j++, s++) {
        double value = s->parts[0] + s->bias;
        if (j == n)
            emit(u, TERN_TERM_PLE, w->index, 0,
                 value + (w->ple_post_norm.bias ? norm_bias(u, w, OF_OWN, &w->ple_post_norm) : 0));
        else if (!x->n)
            emit(u, TERN_TERM_FFN, w->index, 0, value);
        else if (j < x->n_used)
            emit(u, TERN_TERM_EXPERT, w->index, u->t->layers[w->index].chosen[j].expert, value);
        else
            emit(u, TERN_TERM_SHARED, w->index, 0, value);
        rounded += s->rounding;
        is_rounded |= type_is_quantized(s->w.type);
    }
    if (is_rounded)
        emit(u, TERN_TERM_ROUND_DOWN, w->index, 0, rounded);
    emit_norm(u, TERN_TERM_FFN_NORM, w, OF_FFN, &w->ffn_post_norm);
    return s;
}

/* What the streams' rounding before they are joined gives */
static double merge_rounding(const struct tally *u)
{
    double sum = 0;
    for (size_t i = 1; i < u->f->model->n_streams; i++)
        sum += u->ways.rounding[i];
    return sum;
}

/* What the last steps add by themselves */
static void emit_head(struct tally *u, tern_token token)
{
    const struct forward *f = u->f;
    const struct model *m = f->model;
    const struct norm *norm = &m->final_norm;
    const float *x = u->t->x;
    if (has_norm(norm) && norm->bias)
        emit(u, TERN_TERM_FINAL_NORM, 0, 0, dot(u->head, norm->bias, m->dim));
    if (m->head.bias)
        emit(u, TERN_TERM_BIAS, 0, 0, (double)m->logit_scale * m->head.bias[token]);
    bool rounds = type_is_quantized(m->head.type);
    if (rounds && has_norm(norm))
        norm_row(f, u->row, x, norm, m->dim);
    else if (rounds)
        memcpy(u->row, x, m->dim * sizeof *x);
    double rounded = rounds ? rounding(f, &u->rooms->in, u->row, u->head, m->dim) : 0;
    if (rounds || (m->n_streams && type_is_quantized(m->altup_out.type)))
        emit(u, TERN_TERM_ROUND_HEAD, 0, 0, rounded + merge_rounding(u));
}

static void emit_terms(struct tally *u, tern_token token, bool altered)
{
    const struct model *m = u->f->model;
    const struct source *s = u->sources;
    emit_embedding(u);
    for (size_t l = 0; l < m->n_layers; l++) {
        if (m->layers[l].mixer)
            s = emit_mixers(u, &m->layers[l], s);
        if (m->layers[l].hidden || m->ple_dim)
            s = emit_ffn(u, &m->layers[l], s);
    }
    if (altered)
        emit(u, TERN_TERM_EDITS, 0, 0, dot(u->d, u->t->x, m->dim) - u->total - merge_rounding(u));
    emit_head(u, token);
}

/* ---- the call ------------------------------------------------------------------------------- */

static void layout(struct tally *u, struct arena *a, int n_threads)
{
    const struct model *m = u->f->model;
    size_t sources = 0, parts = 0, k = m->dim;
    for (size_t l = 0; l < m->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        size_t ffn = max_size(w->experts.n_used, 1) + (w->experts.shared_hidden > 0) + 1; /* ple */
        sources += 2 + ffn, parts += n_heads(w) + max_size(w->mix.v_heads, 1) + ffn;
        k = max_size(k, max_size(layer_out(w)->k, max_size(w->hidden, w->experts.shared_hidden)));
        k = max_size(k, max_size(m->ple_dim, w->mix.out.k));
    }
    u->head = arena_take(a, m->dim, sizeof *u->head);
    u->d = arena_take(a, m->dim, sizeof *u->d);
    u->factor = arena_take(a, m->n_layers + 1, sizeof *u->factor);
    stream_ways_take(&u->ways, a, m);
    u->row = arena_take(a, round_up(m->dim, 64), sizeof *u->row);
    u->logits = arena_take(a, m->vocab, sizeof *u->logits);
    u->sources = arena_take(a, sources, sizeof *u->sources);
    u->parts = arena_take(a, parts, sizeof *u->parts);
    u->rooms = arena_take(a, (size_t)n_threads, sizeof *u->rooms);
    for (int i = 0; i < n_threads; i++) {
        struct thread_room none, *room = u->rooms ? &u->rooms[i] : &none;
        room->d = arena_take(a, m->dim, sizeof *room->d);
        room->v = arena_take(a, k, sizeof *room->v);
        act_buffer_take(a, &room->in, 1, k);
    }
}

static void compute(struct tally *u, struct pool *pool, tern_token token, bool altered)
{
    const struct model *m = u->f->model;
    u->f->kernels->get_row[m->head.type](u->row, m->head.data, m->dim, (size_t)token);
    for (size_t c = 0; c < m->dim; c++)
        u->head[c] = (double)m->logit_scale * u->row[c];
    through_norm(m, &m->final_norm, u->t->final_norm, 1, u->head, u->d);
    u->factor[m->n_layers] = 1;
    for (size_t l = m->n_layers; l-- > 0;)
        u->factor[l] = u->factor[l + 1] * (m->layers[l].scale ? *m->layers[l].scale : 1) *
                       laurel_scale(&m->layers[l]);
    stream_ways_find(&u->ways, u->f, u->t, u->d, pool);
    list_sources(u);
    pool_run(pool, u->n_sources, source_items, u);
    emit_terms(u, token, altered);
}

static enum tern_status check(const struct tern_context *c, tern_token token, struct tern_error *e)
{
    const struct kept_row *t = c->observer ? c->observer->kept : NULL;
    if (!t || !t->is_complete)
        return error_set(e, TERN_USAGE,
                         "no row was kept: call tern_keep_terms, then evaluate a "
                         "row that asks for logits");
    if (token < 0 || (size_t)token >= c->model->model->vocab)
        return error_set(e, TERN_USAGE, "token %d is outside the vocabulary of %zu", token,
                         c->model->model->vocab);
    for (size_t l = 0; l < c->model->model->n_layers; l++) {
        const struct layer *w = &c->model->model->layers[l];
        if (w->experts.post_norm.bias)
            return error_set(e, TERN_USAGE,
                             "layer %zu has biases in norms of experts: its contributions are not "
                             "known",
                             l);
    }
    return TERN_OK;
}

enum tern_status tern_contributions(tern_context *c, tern_token token, struct tern_term *terms,
                                    size_t max, size_t *n, float *logit, struct tern_error *e)
{
    struct tally u = {.f = &c->forward, .out = terms, .max = max};
    struct arena arena = {0};
    int threads = pool_threads(c->model->pool);
    enum tern_status s = check(c, token, e);
    *n = 0;
    if (s)
        return s;
    u.t = c->observer->kept;
    layout(&u, &arena, threads);
    if ((s = arena_open(&arena, "the terms of a logit", e)))
        return s;
    layout(&u, &arena, threads);
    if (!(s = lens_run(c, u.t->x, 1, 0, u.logits, false, e))) {
        struct fpenv saved = fpenv_enter();
        pool_lock(c->model->pool);
        compute(&u, c->model->pool, token, c->altered);
        pool_unlock(c->model->pool);
        fpenv_leave(saved);
        *n = u.n;
        if (logit)
            *logit = u.logits[token];
    }
    arena_close(&arena);
    return s;
}
