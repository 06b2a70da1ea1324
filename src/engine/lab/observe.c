/* The observer: see observe.h. */
#include "engine/lab/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "model/residual.h"

struct observer {
    struct forward *f;
    tern_observe_fn fn;
    void *arg;
    struct tern_observation now;
    struct tern_row *at; /* [n_batch] */
    float *rows;         /* [n_batch, stride] what is computed to be shown */
    size_t stride;
    struct arena arena; /* owns these, and f->gate and f->up */
};

static void show(struct observer *o, const char *operation, const float *values, size_t stride,
                 size_t columns)
{
    o->now.operation = operation;
    o->now.values = values, o->now.stride = stride, o->now.columns = columns;
    o->fn(o->arg, &o->now);
}

/* Rows of the stream, or of what is added to it */
static void show_stream(struct observer *o, const char *operation, const float *values)
{
    show(o, operation, values, o->f->dim_stride, o->f->model->dim);
}

/* norm(x), computed again; nothing where there is no such norm */
static void show_norm(struct observer *o, const char *operation, const float *x,
                      const struct norm *norm)
{
    const struct forward *f = o->f;
    if (!has_norm(norm))
        return;
    for (size_t i = 0; i < o->now.rows; i++)
        norm_row(f, o->rows + i * o->stride, x + i * f->dim_stride, norm, f->model->dim);
    show(o, operation, o->rows, o->stride, f->model->dim);
}

/* What attention adds where it waits for feed-forward, and has not been scaled yet */
static void show_waiting(struct observer *o)
{
    const struct forward *f = o->f;
    for (size_t i = 0; i < f->n; i++) {
        memcpy(o->rows + i * o->stride, f->z + i * f->dim_stride, f->model->dim * sizeof *f->z);
        if (f->model->residual_scale != 1)
            f->kernels->scale(o->rows + i * o->stride, f->model->residual_scale, f->model->dim);
    }
    show(o, "o", o->rows, o->stride, f->model->dim);
}

/* The weights of the experts, 0 for those that were not chosen */
static void show_router(struct observer *o, const struct experts *x)
{
    const struct expert_work *e = &o->f->experts;
    for (size_t i = 0; i < o->now.rows; i++) {
        float *row = o->rows + i * o->stride;
        memset(row, 0, x->n * sizeof *row);
        for (size_t j = 0; j < x->n_used; j++) {
            const struct choice *c = &e->chosen[i * e->max_used + j];
            row[c->expert] = c->weight;
        }
    }
    show(o, "router", o->rows, o->stride, x->n);
}

static void show_qkv(struct observer *o, const struct layer *w)
{
    const struct forward *f = o->f;
    size_t n_kv = w->n_kv_heads * w->head_dim;
    show(o, "q", f->q, f->q_stride, w->n_heads * w->head_dim);
    show(o, "k", f->k, f->kv_stride, n_kv);
    show(o, "v", f->v, f->kv_stride, n_kv);
}

static void show_ffn(struct observer *o, const struct layer *w)
{
    const struct forward *f = o->f;
    if (w->gated)
        show(o, "gate", f->gate, f->ffn.stride, w->hidden);
    show(o, "up", f->up, f->ffn.stride, w->hidden);
    show(o, "act", f->ffn.x, f->ffn.stride, w->hidden);
}

/* The rows of the batch with any of these flags, or all of them */
static void take_rows(struct observer *o, unsigned flags)
{
    const struct forward *f = o->f;
    o->now.rows = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct row *r = &f->rows[i];
        if (!flags || r->flags & flags)
            o->at[o->now.rows++] = (struct tern_row){r->seq, r->position, r->token, r->flags};
    }
}

/* The end of the layer before, and the beginning of this one, which the last has not */
static void show_stream_between(struct observer *o, size_t layer)
{
    const struct forward *f = o->f;
    const struct layer *w = &f->model->layers[layer];
    if (layer) {
        o->now.layer = layer - 1;
        if (has_norm(&w[-1].ffn_post_norm))
            show_stream(o, "ffn_post_norm", f->y);
        show_stream(o, "out", f->x);
        o->now.layer = layer;
    } else {
        take_rows(o, 0);
        show_stream(o, "embed", f->x);
    }
    if (layer < f->model->n_layers)
        show_norm(o, "attn_norm", f->x, &w->attn_norm);
}

static void watch(void *arg, struct forward *f, size_t layer, enum watch_point at)
{
    struct observer *o = arg;
    const struct layer *w = &f->model->layers[layer];
    o->now.layer = layer;
    switch (at) {
    case WATCH_ATTENTION:
        show_stream_between(o, layer);
        break;
    case WATCH_ATTEND:
        show_qkv(o, w);
        break;
    case WATCH_OUT:
        show(o, "attend", f->att, f->q_stride, w->n_heads * w->head_dim);
        break;
    case WATCH_ATTN_POST:
        if (w->parallel)
            show_waiting(o);
        else
            show_stream(o, "o", f->y);
        break;
    case WATCH_FFN:
        if (has_norm(&w->attn_post_norm))
            show_stream(o, "attn_post_norm", f->y);
        if (!w->parallel)
            show_stream(o, "middle", f->x);
        show_norm(o, "ffn_norm", f->x, &w->ffn_norm);
        break;
    case WATCH_DOWN:
        show_ffn(o, w);
        break;
    case WATCH_FFN_POST:
        if (w->experts.n)
            show_router(o, &w->experts);
        show_stream(o, w->experts.n ? "experts" : "down", f->y);
        break;
    case WATCH_LOGITS:
        take_rows(o, TERN_ROW_LOGITS);
        if (!o->now.rows)
            return;
        show_norm(o, "final_norm", f->y, &f->model->final_norm);
        show(o, "logits", f->logits, f->vocab_stride, f->model->vocab);
    }
}

static void layout(struct observer *o)
{
    struct forward *f = o->f;
    size_t n = f->n_batch, columns = f->model->dim;
    for (size_t l = 0; l < f->model->n_layers; l++)
        columns = max_size(columns, f->model->layers[l].experts.n);
    o->stride = round_up(columns, 16);
    o->at = arena_take(&o->arena, n, sizeof *o->at);
    o->rows = arena_take(&o->arena, n * o->stride, sizeof *o->rows);
    f->gate = arena_take(&o->arena, n * f->ffn.stride, sizeof *f->gate);
    f->up = arena_take(&o->arena, n * f->ffn.stride, sizeof *f->up);
}

enum tern_status observe_open(struct observer **out, struct forward *f, tern_observe_fn fn,
                              void *arg, struct tern_error *e)
{
    struct observer *o = *out = calloc(1, sizeof *o);
    if (!o)
        return error_memory(e, "the observer", sizeof *o);
    o->f = f, o->fn = fn, o->arg = arg;
    layout(o);
    enum tern_status s = arena_open(&o->arena, "the observer (try a smaller batch)", e);
    if (s) {
        observe_close(o);
        *out = NULL;
        return s;
    }
    layout(o);
    o->now.at = o->at;
    f->watch = watch, f->watch_arg = o;
    return TERN_OK;
}

void observe_close(struct observer *o)
{
    if (!o)
        return;
    o->f->watch = NULL;
    o->f->gate = o->f->up = NULL;
    arena_close(&o->arena);
    free(o);
}
