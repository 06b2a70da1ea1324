/* A row that is kept: see kept_row.h. */
#include "engine/lab/kept_row.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "model/altup.h"
#include "model/residual.h"

static void layout(struct observer *o, struct arena *a)
{
    const struct model *m = o->f->model;
    struct kept_layer none, *layers;
    struct kept_row *t = o->kept = arena_take(a, 1, sizeof *t);
    layers = arena_take(a, m->n_layers, sizeof *layers);
    float *x = arena_take(a, m->dim, sizeof *x);
    float *first = arena_take(a, m->n_streams * m->dim, sizeof *x);
    float *last = arena_take(a, m->n_streams * m->dim, sizeof *x);
    if (t)
        t->layers = layers, t->x = x, t->first = first, t->streams = last;
    for (size_t l = 0; l < m->n_layers; l++) {
        const struct layer *w = &m->layers[l];
        struct kept_layer *k = layers ? &layers[l] : &none;
        k->att = arena_take(a, layer_out(w)->k, sizeof *k->att);
        k->act = arena_take(a, max_size(w->experts.n_used, 1) * w->hidden, sizeof *k->act);
        k->shared = arena_take(a, w->experts.shared_hidden, sizeof *k->shared);
        k->mix = arena_take(a, both_mixers(w) ? w->mix.out.k : 0, sizeof *k->mix);
        k->ple = arena_take(a, m->ple_dim, sizeof *k->ple);
        k->laurel = arena_take(a, w->laurel_left.data ? m->dim : 0, sizeof *k->laurel);
        k->predict = arena_take(a, m->n_streams * m->n_streams, sizeof *k->predict);
        k->correct = arena_take(a, m->n_streams, sizeof *k->correct);
        k->chosen = arena_take(a, w->experts.n_used, sizeof *k->chosen);
    }
}

enum tern_status kept_row_open(struct observer *o, struct tern_error *e)
{
    if (o->kept)
        return TERN_OK;
    layout(o, &o->kept_arena);
    enum tern_status s = arena_open(&o->kept_arena, "the row that is kept", e);
    if (s)
        kept_row_close(o);
    else
        layout(o, &o->kept_arena);
    return s;
}

void kept_row_close(struct observer *o)
{
    arena_close(&o->kept_arena);
    o->kept = NULL;
}

/* The last row that asks for logits; without one, the row of an earlier batch stays. */
static void choose_row(struct kept_row *t, const struct forward *f)
{
    t->is_on = false;
    for (size_t i = 0; i < f->n; i++)
        if (f->rows[i].flags & TERN_ROW_LOGITS)
            t->i = i, t->is_on = true;
    if (t->is_on)
        t->row = f->rows[t->i], t->is_complete = false;
}

/* 1 / sqrt(mean(x^2) + eps), for LayerNorm of x - mean(x)   x [n] */
static float norm_scale(const struct model *m, const float *x)
{
    double mean = 0, sum = 0;
    for (size_t c = 0; c < m->dim && m->layer_norm; c++)
        mean += (double)x[c] / (double)m->dim;
    for (size_t c = 0; c < m->dim; c++)
        sum += (x[c] - mean) * (x[c] - mean);
    return 1 / sqrtf((float)(sum / (double)m->dim + m->norm_eps));
}

static void keep_experts(struct kept_row *t, const struct forward *f, const struct layer *w)
{
    const struct expert_work *e = &f->experts;
    const struct experts *x = &w->experts;
    struct kept_layer *k = &t->layers[w->index];
    memcpy(k->chosen, e->chosen + t->i * e->max_used, x->n_used * sizeof *k->chosen);
    for (size_t j = 0; j < x->n_used; j++)
        memcpy(k->act + j * w->hidden, e->ffn.x + k->chosen[j].place * e->ffn.stride,
               w->hidden * sizeof *k->act);
    if (!x->shared_hidden)
        return;
    k->shared_weight = experts_shared_weight(f, x, t->i);
    memcpy(k->shared, f->ffn.x + t->i * f->ffn.stride, x->shared_hidden * sizeof *k->shared);
}

/* Scales of the norms of what experts give, before these are added up */
static void keep_expert_norms(struct kept_row *t, const struct forward *f, const struct layer *w)
{
    const struct expert_work *e = &f->experts;
    struct kept_layer *k = &t->layers[w->index];
    float *sum = t->x; /* not needed yet */
    memset(sum, 0, f->model->dim * sizeof *sum);
    for (size_t j = 0; j < w->experts.n_used; j++) {
        const struct choice *c = &e->chosen[t->i * e->max_used + j];
        f->kernels->add_scaled(sum, e->y + c->place * f->dim_stride, c->weight, f->model->dim);
    }
    k->expert_post = norm_scale(f->model, sum);
    k->shared_post = norm_scale(f->model, f->z + t->i * f->dim_stride);
}

/* How the layer mixes the streams, before it and after it */
static void keep_mixing(struct kept_row *t, const struct forward *f, const struct layer *w,
                        enum watch_point at)
{
    struct kept_layer *k = &t->layers[w->index];
    const float *x = f->x + t->i * f->dim_stride;
    float *room = t->x; /* not needed yet */
    if (at == WATCH_STREAMS)
        altup_predict_by(f, w, x, room, k->predict);
    if (at == WATCH_PLE && f->model->n_streams)
        altup_correct_by(f, w, x, room, k->correct);
}

static void keep_streams(const struct kept_row *t, const struct forward *f, float *to)
{
    size_t dim = f->model->dim, n = f->model->n_streams;
    const float *streams = f->streams + t->i * n * f->dim_stride;
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * dim, i ? streams + i * f->dim_stride : f->x + t->i * f->dim_stride,
               dim * sizeof *to);
}

static void keep_step(struct kept_row *t, const struct forward *f, const struct layer *w,
                      enum watch_point at)
{
    struct kept_layer *k = &t->layers[w->index];
    const float *y = f->y + t->i * f->dim_stride;
    if (at == WATCH_OUT)
        memcpy(k->att, f->att + t->i * f->q_stride, layer_out(w)->k * sizeof *k->att);
    if (at == WATCH_MIX_OUT)
        memcpy(k->mix, f->att + t->i * f->q_stride, w->mix.out.k * sizeof *k->mix);
    if (at == WATCH_ATTN_POST && has_norm(&w->attn_post_norm))
        k->attn_post = norm_scale(f->model, y);
    if (at == WATCH_ATTN_POST && w->laurel_left.data)
        memcpy(k->laurel, f->z + t->i * f->dim_stride, f->model->dim * sizeof *k->laurel);
    if (at == WATCH_DOWN)
        memcpy(k->act, f->ffn.x + t->i * f->ffn.stride, w->hidden * sizeof *k->act);
    if (at == WATCH_EXPERT && has_norm(&w->experts.post_norm))
        keep_expert_norms(t, f, w);
    if (at == WATCH_PLE_POST) {
        memcpy(k->ple, f->ffn.x + t->i * f->ffn.stride, f->model->ple_dim * sizeof *k->ple);
        k->ple_post = norm_scale(f->model, y);
    }
    if (at == WATCH_FFN_POST && w->experts.n)
        keep_experts(t, f, w);
    if (at == WATCH_FFN_POST && has_norm(&w->ffn_post_norm))
        k->ffn_post = norm_scale(f->model, y);
}

void kept_row_watch(struct kept_row *t, const struct forward *f, size_t layer, enum watch_point at)
{
    const struct model *m = f->model;
    if (layer == 0 && at == (m->n_streams ? WATCH_STREAMS : WATCH_ATTENTION))
        choose_row(t, f);
    if (!t->is_on)
        return;
    if (layer % m->n_layers == 0 && at == WATCH_STREAMS)
        keep_streams(t, f, layer ? t->streams : t->first);
    if (layer < m->n_layers) {
        keep_mixing(t, f, &m->layers[layer], at);
        keep_step(t, f, &m->layers[layer], at);
    } else if (at == WATCH_ATTENTION) {
        memcpy(t->x, f->x + t->i * f->dim_stride, m->dim * sizeof *t->x);
        t->final_norm = norm_scale(m, t->x);
    } else if (at == WATCH_LOGITS) {
        t->is_complete = true, t->is_on = false;
    }
}
