/* Observer and editor: see observe.h. */
#include "engine/lab/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/lab/kept_row.h"
#include "engine/lab/surgery.h"
#include "model/altup.h"
#include "model/ffn.h"
#include "model/residual.h"

static void describe(struct observer *o, const char *operation, const float *values, size_t stride,
                     size_t columns)
{
    o->now.operation = operation;
    o->now.values = values, o->now.stride = stride, o->now.columns = columns;
}

static void show(struct observer *o, const char *operation, const float *values, size_t stride,
                 size_t columns)
{
    describe(o, operation, values, stride, columns);
    if (o->fn)
        o->fn(o->fn_arg, &o->now);
}

/* Whether the editor changed values [rows, columns] */
static bool edit(struct observer *o, const char *operation, float *values, size_t stride,
                 size_t columns)
{
    describe(o, operation, values, stride, columns);
    if (!o->edit || !o->edit(o->edit_arg, &o->now, values))
        return false;
    return *o->altered = true;
}

/* To the editor, then to the observer */
static bool offer(struct observer *o, const char *operation, float *values, size_t stride,
                  size_t columns)
{
    bool changed = edit(o, operation, values, stride, columns);
    show(o, operation, values, stride, columns);
    return changed;
}

/* Rows of the stream, or of what is added to it */
static bool offer_stream(struct observer *o, const char *operation, float *values)
{
    return offer(o, operation, values, o->f->dim_stride, o->f->model->dim);
}

/* The stream as the next step finds it */
static void keep_stream(struct observer *o)
{
    const struct forward *f = o->f;
    if (o->edit)
        memcpy(o->before, f->x, f->n * f->dim_stride * sizeof *f->x);
}

/* norm(x), computed again; nothing where there is no such norm */
static void show_norm(struct observer *o, const char *operation, const float *x,
                      const struct norm *norm)
{
    const struct forward *f = o->f;
    if (!o->fn || !has_norm(norm))
        return;
    for (size_t i = 0; i < o->now.rows; i++)
        norm_row(f, o->rows + i * o->stride, x + i * f->dim_stride, norm, f->model->dim);
    show(o, operation, o->rows, o->stride, f->model->dim);
}

/* What attention adds where it waits for feed-forward, and has not been scaled yet */
static void offer_waiting(struct observer *o, const struct layer *w)
{
    const struct forward *f = o->f;
    memcpy(o->aside, waiting_of(f, w), f->n * f->dim_stride * sizeof *f->z);
    for (size_t i = 0; i < f->n && f->model->residual_scale != 1; i++)
        f->kernels->scale(o->aside + i * f->dim_stride, f->model->residual_scale, f->model->dim);
    o->aside_changed = offer_stream(o, "o", o->aside);
}

/* The weights of the experts, 0 for those that were not chosen */
static void list_weights(struct observer *o, const struct experts *x)
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
}

static void offer_router(struct observer *o, const struct experts *x)
{
    list_weights(o, x);
    if (edit(o, "router", o->rows, o->stride, x->n)) {
        for (size_t i = 0; i < o->f->n; i++)
            surgery_choose(o->f, x, i, o->rows + i * o->stride);
        list_weights(o, x);
    }
    show(o, "router", o->rows, o->stride, x->n);
}

/* The rows that chose an expert, in the order of its places */
static size_t list_rows_of(const struct observer *o, const struct experts *x, size_t expert)
{
    const struct expert_work *e = &o->f->experts;
    size_t n = 0;
    for (size_t i = 0; i < o->f->n; i++)
        for (size_t j = 0; j < x->n_used; j++)
            if (e->chosen[i * e->max_used + j].expert == expert)
                o->routed[n++] = o->at[i];
    return n;
}

static void offer_experts(struct observer *o, const struct experts *x)
{
    const struct expert_work *e = &o->f->experts;
    o->now.at = o->routed;
    for (size_t i = 0; i < e->n_active; i++) {
        o->now.expert = e->active[i];
        o->now.rows = list_rows_of(o, x, e->active[i]);
        offer_stream(o, "expert", e->y + e->first[e->active[i]] * o->f->dim_stride);
    }
    o->now.at = o->at, o->now.rows = o->f->n, o->now.expert = 0;
}

static void offer_qkv(struct observer *o, const struct layer *w)
{
    struct forward *f = o->f;
    size_t n_kv = w->n_kv_heads * w->head_dim;
    offer(o, "q", f->q, f->q_stride, w->n_heads * w->head_dim);
    if (w->kv_from)
        return;
    bool k = offer(o, "k", f->k, f->kv_stride, n_kv),
         v = offer(o, "v", w->latent.rank ? f->k : f->v, f->kv_stride, n_kv);
    if (k || v)
        surgery_store(f, w);
}

static void offer_o(struct observer *o, const struct layer *w)
{
    if (w->parallel)
        offer_waiting(o, w);
    else if (offer_stream(o, "o", o->f->y) && !has_norm(&w->attn_post_norm))
        surgery_sum(o, false, true);
}

static void offer_act(struct observer *o, const struct layer *w)
{
    struct forward *f = o->f;
    if (w->gated)
        show(o, "gate", f->gate, f->ffn.stride, w->hidden);
    show(o, "up", f->up, f->ffn.stride, w->hidden);
    if (offer(o, "act", f->ffn.x, f->ffn.stride, w->hidden))
        surgery_round(f, w);
}

static void offer_middle(struct observer *o, const struct layer *w)
{
    const struct forward *f = o->f;
    if (has_norm(&w->attn_post_norm) && offer_stream(o, "attn_post_norm", f->y)) {
        surgery_sum(o, false, true);
        for (size_t i = 0; i < f->n && w->laurel_left.data; i++)
            laurel_add(f, f->x + i * f->dim_stride, f->z + i * f->dim_stride);
    }
    if (!w->parallel) {
        offer_stream(o, "middle", f->x);
        keep_stream(o);
    }
    show_norm(o, "ffn_norm", f->x, &w->ffn_norm);
}

static void offer_ffn(struct observer *o, const struct layer *w)
{
    bool changed = offer_stream(o, w->experts.n ? "experts" : "down", o->f->y);
    bool is_added = !has_norm(&w->ffn_post_norm);
    if ((changed && is_added) || (w->parallel && o->aside_changed))
        surgery_sum(o, w->parallel, is_added);
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

static void offer_ffn_norm(struct observer *o, const struct layer *w)
{
    if (has_norm(&w->ffn_post_norm) && offer_stream(o, "ffn_post_norm", o->f->y))
        surgery_sum(o, w->parallel, true);
}

/* The end of the layer before, and the beginning of this one, which the last has not */
static void offer_stream_between(struct observer *o, size_t layer)
{
    const struct forward *f = o->f;
    const struct layer *w = &f->model->layers[layer];
    if (layer) {
        o->now.layer = layer - 1;
        if (w[-1].ple_gate.data)
            show(o, "ple", f->y, f->dim_stride, f->model->dim);
        else if (!w[-1].scale && !f->model->n_streams)
            offer_ffn_norm(o, &w[-1]);
        offer_stream(o, "out", f->x);
        o->now.layer = layer;
    } else {
        take_rows(o, 0);
        offer_stream(o, "embed", f->x);
    }
    keep_stream(o);
    if (layer < f->model->n_layers)
        show_norm(o, "attn_norm", f->x, &w->attn_norm);
}

static void offer_logits(struct observer *o)
{
    const struct forward *f = o->f;
    take_rows(o, TERN_ROW_LOGITS);
    if (!o->now.rows)
        return;
    show_norm(o, "final_norm", f->y, &f->model->final_norm);
    offer(o, "logits", f->logits, f->vocab_stride, f->model->vocab);
}

static void watch(void *arg, struct forward *f, size_t layer, enum watch_point at)
{
    struct observer *o = arg;
    const struct layer *w = &f->model->layers[layer];
    o->now.layer = layer;
    switch (at) {
    case WATCH_ATTENTION:
        offer_stream_between(o, layer);
        break;
    case WATCH_ATTEND:
        offer_qkv(o, w);
        break;
    case WATCH_OUT:
        offer(o, "attend", f->att, f->q_stride, layer_out(w)->k);
        break;
    case WATCH_ATTN_POST:
        offer_o(o, w);
        break;
    case WATCH_FFN:
        offer_middle(o, w);
        break;
    case WATCH_DOWN:
        offer_act(o, w);
        break;
    case WATCH_EXPERTS:
        offer_router(o, &w->experts);
        break;
    case WATCH_EXPERT:
        offer_experts(o, &w->experts);
        break;
    case WATCH_FFN_POST:
        offer_ffn(o, w);
        break;
    case WATCH_PLE:
        offer_ffn_norm(o, w);
        break;
    case WATCH_PLE_POST:
        break;
    case WATCH_LOGITS:
        offer_logits(o);
        break;
    case WATCH_LATENT: /* for calibration, or a row that is kept */
    case WATCH_PLE_OUT:
    case WATCH_PLE_IN:
    case WATCH_MIX_OUT:
    case WATCH_HEADS:
    case WATCH_LAUREL:
    case WATCH_EMBED:
    case WATCH_STREAMS:
        break;
    }
    if (o->kept)
        kept_row_watch(o->kept, f, layer, at);
}

static void layout(struct observer *o)
{
    struct forward *f = o->f;
    size_t n = f->n_batch, columns = f->model->dim;
    for (size_t l = 0; l < f->model->n_layers; l++)
        columns = max_size(columns, f->model->layers[l].experts.n);
    o->stride = round_up(columns, 16);
    o->at = arena_take(&o->arena, n, sizeof *o->at);
    o->routed = arena_take(&o->arena, n, sizeof *o->routed);
    o->rows = arena_take(&o->arena, n * o->stride, sizeof *o->rows);
    o->before = arena_take(&o->arena, n * f->dim_stride, sizeof *o->before);
    o->aside = arena_take(&o->arena, n * f->dim_stride, sizeof *o->aside);
    f->gate = arena_take(&o->arena, n * f->ffn.stride, sizeof *f->gate);
    f->up = arena_take(&o->arena, n * f->ffn.stride, sizeof *f->up);
}

enum tern_status observe_open(struct observer **out, struct forward *f, bool *altered,
                              struct tern_error *e)
{
    struct observer *o = *out = calloc(1, sizeof *o);
    if (!o)
        return error_memory(e, "the observer", sizeof *o);
    o->f = f, o->altered = altered;
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
    arena_close(&o->kept_arena);
    free(o);
}
