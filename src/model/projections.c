/* The linear maps around attention: see projections.h. q, k and v are split over threads by whole
 * heads, the output by tiles of 16 rows.
 * ADDING A FEATURE of q, k or v: its line where its place in the equations is. */
#include "model/projections.h"

#include "base/sizes.h"
#include "model/ffn.h"
#include "model/kv_store.h"
#include "model/linear.h"
#include "model/recurrence.h"
#include "model/residual.h"
#include "model/split.h"

/* Items of one of q, k and v: heads that end on tiles, as many as that takes */
struct head_items {
    const struct matrix *m;
    struct portion heads;
    size_t first, n; /* unit, and how many */
};

struct projection { /* what the pool's items of one step share */
    struct forward *f;
    const struct layer *w;
    const struct matrix *m; /* of q, k and v, or the outputs, the one in work */
    const struct input *in;
    struct portion q, kv; /* heads that are made here */
    struct head_items items[3];
};

/* ---- q, k, v ---- */

static void rope_heads(const struct forward *f, const struct rope_set *rope, float *x, size_t i,
                       size_t n_heads, size_t head_dim)
{
    size_t at = ((size_t)(rope - f->model->ropes) * f->n_batch + i) * f->rope_stride;
    for (size_t h = 0; h < n_heads; h++)
        f->kernels->rope(x + h * head_dim, f->rope_cos + at, f->rope_sin + at, rope->half);
}

/* Norms of q or k heads h0 .. h1 - 1, one by one */
static void norm_heads(const struct forward *f, const struct layer *w, const struct norm *norm,
                       float *x, size_t h0, size_t h1)
{
    size_t d = w->head_dim;
    for (size_t h = h0; h < h1; h++, x += d)
        if (w->qk_norm == QK_HEAD_LAYER)
            f->kernels->layernorm(x, x, norm->weight + h * d, NULL, d, f->model->norm_eps);
        else if (w->qk_norm == QK_SHARED_LAYER)
            f->kernels->layernorm(x, x, norm->weight, norm->bias, d, f->model->norm_eps);
        else
            f->kernels->rmsnorm(x, x, norm->weight, d, f->model->norm_eps);
}

/* x [h1 - h0, head_dim]: heads of q, k or v of row i, projected, become what attention reads. */
static void finish_heads(struct forward *f, const struct layer *w, const struct matrix *m, float *x,
                         size_t i, size_t h0, size_t h1, struct scratch *s)
{
    bool is_q = m == &w->q, is_key = m == &w->k;
    bool norms = (is_q || is_key) && w->qk_norm != QK_NONE && w->qk_norm != QK_FULL;
    size_t d = w->head_dim;
    if (norms && !w->qk_norm_last)
        norm_heads(f, w, is_q ? &w->q_norm : &w->k_norm, x, h0, h1);
    for (size_t h = h0; !is_q && !is_key && w->v_norm && h < h1; h++)
        f->kernels->rmsnorm(x + (h - h0) * d, x + (h - h0) * d, w->v_norm, d, f->model->norm_eps);
    if (w->qkv_clip > 0 && w->clip_last)
        f->kernels->clamp(x, w->qkv_clip, (h1 - h0) * d);
    if (w->rope && (is_q || is_key))
        rope_heads(f, w->rope, x, i, h1 - h0, d);
    if (norms && w->qk_norm_last)
        norm_heads(f, w, is_q ? &w->q_norm : &w->k_norm, x, h0, h1);
    if (is_q && f->model->q_scales && w->q_scaled)
        f->kernels->scale(x, q_scale_of(f->model, w, f->rows[i].position), (h1 - h0) * d);
    for (size_t h = h0; !is_q && h < h1; h++)
        kv_store(f, w->index, &f->rows[i], h, is_key, x + (h - h0) * d, d, &s->attention);
}

/* Heads p->begin .. p->end - 1 of one of the three matrices */
static void project_heads(void *arg, const struct piece *p)
{
    const struct projection *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    const struct matrix *m = job->m;
    size_t d = w->head_dim, stride = m == &w->q ? f->q_stride : f->kv_stride;
    size_t h0 = p->begin, h1 = p->end, end = p->row + p->n;
    float *y = m == &w->q ? f->q : m == &w->k ? f->k : f->v;
    linear(f, y + p->row * stride, stride, m, h0 * d / TILE_ROWS, ceil_div(h1 * d, TILE_ROWS),
           &p->act);
    for (size_t i = p->row; i < end; i++) {
        float *x = y + i * stride + h0 * d;
        if (w->qkv_clip > 0 && !w->clip_last)
            f->kernels->clamp(x, w->qkv_clip, (h1 - h0) * d);
        if (w->qk_norm != QK_FULL || m == &w->v)
            finish_heads(f, w, m, x, i, h0, h1, &f->scratch[p->thread]);
    }
}

/* The rest of q and k of a row where a norm goes over all heads together */
static void full_norm_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct projection *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct scratch *s = &f->scratch[thread];
    for (size_t i = begin; i < end; i++) {
        float *q = f->q + i * f->q_stride, *k = f->k + i * f->kv_stride;
        f->kernels->rmsnorm(q, q, w->q_norm.weight, w->n_heads * w->head_dim, f->model->norm_eps);
        finish_heads(f, w, &w->q, q + job->q.begin * w->head_dim, i, job->q.begin, job->q.end, s);
        if (w->kv_from)
            continue;
        f->kernels->rmsnorm(k, k, w->k_norm.weight, w->n_kv_heads * w->head_dim,
                            f->model->norm_eps);
        finish_heads(f, w, &w->k, k + job->kv.begin * w->head_dim, i, job->kv.begin, job->kv.end, s);
    }
}

static struct head_items items_of(const struct layer *w, const struct matrix *m, struct portion heads)
{
    size_t whole = heads_on_tiles(w->head_dim), first = heads.begin / whole;
    return (struct head_items){m, heads, first, ceil_div(heads.end, whole) - first};
}

static void qkv_items(void *arg, size_t begin, size_t end, int thread)
{
    struct projection job = *(const struct projection *)arg;
    struct activations act = input_view(job.f, job.in, thread);
    size_t whole = heads_on_tiles(job.w->head_dim),
           step = ceil_div(COLUMNS, whole * job.w->head_dim) * whole;
    const struct head_items *of = job.items;
    for (size_t i = begin, first = 0, stop; i < end; i = stop) { /* the heads of one matrix at once */
        while (i >= first + of->n)
            first += of++->n;
        job.m = of->m;
        stop = min_size(end, first + of->n);
        in_pieces(&act, (of->first + i - first) * whole,
                  min_size((of->first + stop - first) * whole, of->heads.end), step, project_heads,
                  &job, thread);
    }
}

void step_project_qkv(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_ATTENTION);
    bool own = !w->kv_from;
    bool quantized = own && (type_is_quantized(w->k.type) || type_is_quantized(w->v.type));
    bool floats = own && (!type_is_quantized(w->k.type) || !type_is_quantized(w->v.type));
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = &w->attn_norm,
                       .round = w->round_inputs,
                       .layer = w->index,
                       .quantize = type_is_quantized(w->q.type) || quantized,
                       .floats = !type_is_quantized(w->q.type) || floats};
    struct projection job = {
        .f = f, .w = w, .in = &in, .q = own_heads(f->model, w), .kv = own_kv(f->model, w)};
    bool all = w->qk_norm == QK_FULL; /* q and k */
    job.items[0] = items_of(w, &w->q, all ? (struct portion){0, w->n_heads} : job.q);
    if (own) { /* not in a layer that reads another's */
        job.items[1] = items_of(w, &w->k, all ? (struct portion){0, w->n_kv_heads} : job.kv);
        job.items[2] = items_of(w, &w->v, job.kv);
    }
    input_prepare(f, &in);
    profile_run(f->profile, OP_QKV, f->pool, job.items[0].n + job.items[1].n + job.items[2].n, qkv_items,
                &job);
    if (all)
        profile_run(f->profile, OP_QKV, f->pool, f->n, full_norm_items, &job);
}

/* ---- output ---- */

static bool has_both(const struct layer *w)
{
    return w->mixer == (MIX_ATTENTION | MIX_RECURRENT);
}

/* What attention adds waits, where feed-forward or another mixer (in f->z) reads the same x. */
static void project_out(void *arg, const struct piece *p)
{
    const struct projection *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t c0 = p->begin * TILE_ROWS, c1 = min_size(p->end * TILE_ROWS, f->model->dim);
    bool both = has_both(w), wait = both && job->m == &w->o;
    float *y = (w->parallel ? waiting_of(f, w) : wait ? f->z : f->y) + p->row * f->dim_stride;
    linear(f, y, f->dim_stride, job->m, p->begin, p->end, &p->act);
    for (size_t i = 0; both && !wait && i < p->n; i++)
        f->kernels->add(y + i * f->dim_stride + c0, f->z + (p->row + i) * f->dim_stride + c0,
                        c1 - c0);
    for (size_t i = 0; i < p->n && !w->parallel && !wait && !has_norm(&w->attn_post_norm); i++)
        residual_add(f, p->row + i, y + i * f->dim_stride, c0, c1);
}

static void out_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct projection *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->m->rows, begin, end, project_out, arg, thread);
}

#ifdef TERN_MPI

/* What attention made waits in q, until another mixer's heads can travel with it. */
static bool put_aside(struct forward *f, const struct layer *w)
{
    if (has_both(w) && split_of(f->model))
        state_swap_heads(f);
    return has_both(w) && split_of(f->model);
}

static void gather_both(struct forward *f, const struct layer *w)
{
    struct plane heads[] = {
        split_plane(f->q, f->n, f->q_stride, cut_heads(w, w->o.k / w->n_heads)),
        split_plane(f->att, f->n, f->q_stride, cut_states(&w->mix))};
    split_gather(f, heads, norm_is_whole(&w->mix) ? 1 : 2);
}

#endif

/* What all machines made of the heads, unless a norm has wanted all of it before */
static void gather_heads(struct forward *f, const struct layer *w, const struct matrix *m, struct input *in)
{
#ifdef TERN_MPI
    if (has_both(w)) /* see put_aside */
        return;
    if (m != &w->o && !norm_is_whole(&w->mix))
        input_gather(f, in, cut_states(&w->mix));
    if (m == &w->o && !has_norm(&w->out_norm) && !w->round_inputs)
        input_gather(f, in, cut_heads(w, m->k / w->n_heads));
#else
    (void)f, (void)w, (void)m, (void)in;
#endif
}

static void out(struct forward *f, const struct layer *w, const struct matrix *m)
{
    struct input in = {.src = f->att,
                       .stride = f->q_stride,
                       .n = f->n,
                       .k = m->k,
                       .layer = w->index,
                       .quantize = type_is_quantized(m->type)};
    gather_heads(f, w, m, &in);
    input_prepare(f, &in);
    run_own(f, OP_OUT, own_tiles(own_rows(f->model, m->rows), f->n), out_items,
            &(struct projection){.f = f, .w = w, .m = m, .in = &in});
    bool waits = w->parallel || (m == &w->o && w->mixer & MIX_RECURRENT);
    if (!waits)
        split_stream(f, !has_norm(&w->attn_post_norm), has_norm(&w->attn_post_norm), false);
}

void step_project_out(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_OUT);
#ifdef TERN_MPI
    if (put_aside(f, w))
        return;
#endif
    out(f, w, &w->o);
    if (!(w->mixer & MIX_RECURRENT))
        state_watch(f, w->index, WATCH_ATTN_POST);
}

void step_mix_out(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, w->mixer & MIX_ATTENTION ? WATCH_MIX_OUT : WATCH_OUT);
#ifdef TERN_MPI
    if (has_both(w) && split_of(f->model)) {
        gather_both(f, w);
        state_swap_heads(f);
        out(f, w, &w->o);
        state_swap_heads(f);
    }
#endif
    out(f, w, &w->mix.out);
    state_watch(f, w->index, WATCH_ATTN_POST);
}
