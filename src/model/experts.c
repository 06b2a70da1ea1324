/* Feed-forward by experts: see experts.h. A router scores them for each row and chooses some; the
 * rows of an expert are gathered so that they lie together, and each expert meets its rows as a
 * dense step does. What a row's experts give is added in the order of their ids
 * (src/kernels/README.md). */
#include "model/experts.h"

#include <float.h>
#include <string.h>

#include "kernels/math.h"
#include "base/sizes.h"
#include "model/ffn.h"
#include "model/linear.h"
#include "model/residual.h"
#include "model/router.h"

struct expert_job {
    struct forward *f;
    const struct layer *w;
};

/* ---- memory ---- */

static size_t places_of(const struct layer *w, size_t n_batch)
{
    size_t rows = n_batch * w->experts.n_used;
    return round_up(rows + min_size(w->experts.n, rows) * (OCTET - 1), OCTET);
}

void experts_take(struct expert_work *e, struct arena *a, const struct model *m, size_t n_batch,
                  size_t dim_stride)
{
    size_t places = 0, used = 0, n = 0, hidden = 1;
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct layer *w = &m->layers[l];
        if (!w->experts.n)
            continue;
        places = max_size(places, places_of(w, n_batch));
        used = max_size(used, w->experts.n_used);
        n = max_size(n, w->experts.n);
        hidden = max_size(hidden, w->hidden);
    }
    e->max_used = used;
    if (!n)
        return;
    e->chosen = arena_take(a, n_batch * used, sizeof *e->chosen);
    e->first = arena_take(a, n + 1, sizeof *e->first);
    e->count = arena_take(a, n, sizeof *e->count);
    e->active = arena_take(a, n, sizeof *e->active);
    e->scores = arena_take(a, n_batch * round_up(n, 16), sizeof *e->scores);
    e->score_stride = round_up(n, 16);
    e->taken = arena_take(a, n_batch * n, sizeof *e->taken);
    e->n = n;
    act_buffer_take(a, &e->in, places, m->dim);
    act_buffer_take(a, &e->ffn, places, hidden);
    e->y = arena_take(a, places * dim_stride, sizeof *e->y);
}

/* ---- the choice ---- */

static void route_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t dim = f->model->dim, stride = f->in.stride;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = f->in.x + i * stride, *scores = f->experts.scores + i * f->experts.score_stride;
        bool own = has_norm(&w->experts.router_norm);
        const struct norm *norm = own ? &w->experts.router_norm : ffn_norm_of(w);
        if (has_norm(norm))
            norm_row(f, x, f->x + i * f->dim_stride, norm, dim);
        else
            memcpy(x, f->x + i * f->dim_stride, dim * sizeof *x);
        linear(f, scores, f->experts.score_stride, &w->experts.router, 0,
               ceil_div(w->experts.n, TILE_ROWS),
               &(struct activations){.n = 1, .k = dim, .stride = stride, .x = x});
        if (!f->kernels->in_range(scores, w->experts.n, FLT_MAX)) /* a sigmoid would hide it */
            mark_bad(f, w->index, BAD_ROUTER);
        if (own)
            norm_row(f, x, f->x + i * f->dim_stride, &w->experts.in_norm, dim);
        router_choose(&w->experts, scores, f->experts.taken + i * f->experts.n,
                      f->experts.chosen + i * f->experts.max_used);
    }
}

/* Gives the rows of each expert neighbouring places, which begin at an octet. */
static void place_rows(struct forward *f, const struct experts *x)
{
    struct expert_work *e = &f->experts;
    memset(e->count, 0, x->n * sizeof *e->count);
    for (size_t i = 0; i < f->n * x->n_used; i++)
        e->count[e->chosen[i / x->n_used * e->max_used + i % x->n_used].expert]++;
    size_t at = 0;
    e->n_active = 0;
    for (size_t i = 0; i < x->n; i++) {
        e->first[i] = at;
        at += round_up(e->count[i], OCTET);
        if (e->count[i])
            e->active[e->n_active++] = (uint32_t)i;
        e->count[i] = 0;
    }
    for (size_t i = 0; i < f->n * x->n_used; i++) {
        struct choice *c = &e->chosen[i / x->n_used * e->max_used + i % x->n_used];
        c->place = (uint32_t)(e->first[c->expert] + e->count[c->expert]++);
    }
}

static void gather_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct expert_work *e = &f->experts;
    size_t used = w->experts.n_used, dim = f->model->dim;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float *x = f->in.x + i / used * f->in.stride;
        const struct choice *c = &e->chosen[i / used * e->max_used + i % used];
        float *in = e->in.x + c->place * e->in.stride;
        memcpy(in, x, dim * sizeof *x);
        if (w->experts.weigh_input)
            f->kernels->scale(in, c->weight, dim);
        if (type_is_quantized(w->up.type))
            quantize_row(f, w->index, &e->in, 2, dim, c->place, 0, in, dim);
    }
}

/* ---- one expert ---- */

/* Its rows among the lines: at least two, as the form of a batch wants it. */
static struct activations rows_of(const struct expert_work *e, const struct act_buffer *from,
                                  size_t expert, size_t k)
{
    size_t first = e->first[expert];
    return (struct activations){.n = max_size(e->count[expert], 2),
                                .k = k,
                                .stride = from->stride,
                                .x = from->x + first * from->stride,
                                .octets = from->octets + octet_at(first, 0, k)};
}

static void gate_up_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct expert_work *e = &job->f->experts;
    size_t hidden = job->w->hidden, groups = ceil_div(hidden, GROUP);
    for (size_t i = begin; i < end; i++) {
        size_t expert = e->active[i / groups], c = i % groups * GROUP;
        struct activations act = rows_of(e, &e->in, expert, job->f->model->dim);
        struct ffn_rows rows = {&act, &e->ffn, e->first[expert], e->count[expert], 2};
        ffn_columns(job->f, job->w, expert, &rows, c, min_size(GROUP, hidden - c),
                    &job->f->scratch[thread]);
    }
}

static void down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct expert_work *e = &f->experts;
    size_t tiles = ceil_div(f->model->dim, TILE_ROWS), pairs = ceil_div(tiles, 2);
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t expert = e->active[i / pairs], tile = i % pairs * 2;
        struct activations act = rows_of(e, &e->ffn, expert, w->hidden);
        struct matrix down = matrix_rows(&w->down, expert, 0, w->down.rows);
        linear(f, e->y + e->first[expert] * f->dim_stride, f->dim_stride, &down, tile,
               min_size(tile + 2, tiles), &act);
    }
}

/* ---- the sum ---- */

float experts_shared_weight(const struct forward *f, const struct experts *x, size_t i)
{
    _Alignas(64) float on[TILE_ROWS];
    if (!x->shared_switch.data)
        return 1; /* y = fma(z, 1, y) is y + z */
    linear(
        f, on, TILE_ROWS, &x->shared_switch, 0, 1,
        &(struct activations){
            .n = 1, .k = f->model->dim, .stride = f->in.stride, .x = f->in.x + i * f->in.stride});
    return 1 / (1 + math_exp(-on[0]));
}

static void sum_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct expert_work *e = &f->experts;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = f->y + i * f->dim_stride;
        if (w->parallel)
            residual_add(f, i, y, 0, f->model->dim);
        memset(y, 0, f->model->dim * sizeof *y);
        for (size_t j = 0; j < w->experts.n_used; j++) {
            const struct choice *c = &e->chosen[i * e->max_used + j];
            f->kernels->add_scaled(y, e->y + c->place * f->dim_stride,
                                   w->experts.weigh_input ? 1 : c->weight, f->model->dim);
        }
        if (has_norm(&w->experts.post_norm)) {
            float *z = f->z + i * f->dim_stride;
            norm_row(f, y, y, &w->experts.post_norm, f->model->dim);
            norm_row(f, z, z, &w->experts.shared_post_norm, f->model->dim);
        }
        if (w->experts.shared_hidden)
            f->kernels->add_scaled(y, f->z + i * f->dim_stride,
                                   experts_shared_weight(f, &w->experts, i), f->model->dim);
        if (!has_norm(&w->ffn_post_norm))
            residual_add(f, i, y, 0, f->model->dim);
    }
}

void step_experts(struct forward *f, const struct layer *w)
{
    struct expert_job job = {.f = f, .w = w};
    state_watch(f, w->index, WATCH_FFN);
    if (w->experts.shared_hidden)
        ffn_shared_expert(f, w);
    profile_run(f->profile, OP_NORM, f->pool, f->n, route_items, &job);
    state_watch(f, w->index, WATCH_EXPERTS);
    place_rows(f, &w->experts);
    profile_run(f->profile, OP_NORM, f->pool, f->n * w->experts.n_used, gather_items, &job);
    profile_run(f->profile, OP_GATE_UP, f->pool, f->experts.n_active * ceil_div(w->hidden, GROUP),
                gate_up_items, &job);
    profile_run(f->profile, OP_DOWN, f->pool,
                f->experts.n_active * ceil_div(f->model->dim, 2 * TILE_ROWS), down_items, &job);
    state_watch(f, w->index, WATCH_EXPERT);
    profile_run(f->profile, OP_DOWN, f->pool, f->n, sum_items, &job);
    state_watch(f, w->index, WATCH_FFN_POST);
}
