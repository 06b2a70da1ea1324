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
#include "model/split.h"

struct expert_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in; /* of the experts */
    size_t columns;         /* of an item */
    struct portion own;         /* of hidden, or of dim */
};

/* First column of `own` */
static size_t first_own(const struct expert_job *job)
{
#ifdef TERN_MPI
    return job->own.begin;
#else
    (void)job;
    return 0;
#endif
}

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
    e->on = arena_take(a, n_batch * TILE_ROWS, sizeof *e->on);
    e->at = arena_take(a, places, sizeof *e->at);
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
#ifdef TERN_MPI
    e->planes = arena_take(a, split_of(m) ? 3 * n + MOST_PLANES : 0, sizeof *e->planes);
#endif
}

/* ---- the choice ---- */

static void choose_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct experts *x = &job->w->experts;
    struct expert_work *e = &f->experts;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *scores = e->scores + i * e->score_stride;
        if (!f->kernels->in_range(scores, x->n, FLT_MAX)) /* a sigmoid would hide it */
            mark_bad(f, job->w->index, BAD_ROUTER);
        router_choose(x, scores, e->taken + i * e->n, e->chosen + i * e->max_used);
    }
}

static void route(struct forward *f, const struct layer *w, const struct input *in)
{
    const struct experts *x = &w->experts;
    struct expert_work *e = &f->experts;
    const struct projected parts[] = {{&x->router, e->scores, e->score_stride},
                                      {x->shared_switch.data ? &x->shared_switch : NULL, e->on,
                                       TILE_ROWS},
                                      {NULL, NULL, 0}};
    project_rows(f, OP_ROUTER, in, parts);
    profile_run(f->profile, OP_ROUTER, f->pool, f->n, choose_items,
                &(struct expert_job){.f = f, .w = w});
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
        size_t chosen = i / x->n_used * e->max_used + i % x->n_used;
        struct choice *c = &e->chosen[chosen];
        c->place = (uint32_t)(e->first[c->expert] + e->count[c->expert]++);
        e->at[c->place] = (uint32_t)chosen;
    }
}

/* ---- rows of one expert ---- */

/* The rows at `place` and after it. A single row has the form of one in its octets' memory, which
 * are 320 bytes a group: 32 of q, and 4 each of scale and sum. */
static struct act_buffer rows_at(const struct act_buffer *b, size_t place, size_t k)
{
    size_t groups = ceil_div(k, GROUP), scales = round_up(groups, 16);
    struct act_buffer rows = *b;
    rows.x = b->x + place * b->stride;
    rows.octets = b->octets + octet_at(place, 0, k);
    rows.q = (int8_t *)rows.octets;
    rows.scale = (float *)(void *)(rows.q + round_up(groups * GROUP, 64));
    rows.sum = (int32_t *)(void *)(rows.scale + scales);
    return rows;
}

static struct activations rows_of(const struct expert_work *e, const struct act_buffer *from,
                                  size_t expert, size_t k)
{
    struct act_buffer rows = rows_at(from, e->first[expert], k);
    return act_buffer_view(&rows, e->count[expert], k, true);
}

/* A quantized row of the batch to its place */
static void copy_row(const struct act_buffer *to, size_t lane, bool alone, const struct octet *from,
                     size_t from_lane, size_t k)
{
    for (size_t g = 0; g < ceil_div(k, GROUP); g++, from++) {
        int8_t *q = alone ? to->q + g * GROUP : to->octets[g].q[0][lane];
        size_t step = alone ? 8 : 8 * OCTET;
        for (size_t i = 0; i < GROUP / 8; i++)
            memcpy(q + i * step, from->q[i][from_lane], 8);
        (alone ? to->scale : to->octets[g].scale)[alone ? g : lane] = from->scale[from_lane];
        if (alone)
            to->sum[g] = from->bias[from_lane] / -128;
        else
            to->octets[g].bias[lane] = from->bias[from_lane];
    }
}

static void gather_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    struct expert_work *e = &f->experts;
    size_t used = job->w->experts.n_used, dim = f->model->dim;
    bool weigh = job->w->experts.weigh_input;
    struct activations in = input_view(f, job->in, thread);
    for (size_t i = begin; i < end; i++) {
        const struct choice *c = &e->chosen[i / used * e->max_used + i % used];
        size_t row = i / used, lane = c->place % OCTET, rows = e->count[c->expert];
        struct act_buffer to = rows_at(&e->in, c->place - lane, dim);
        float *x = to.x + lane * to.stride;
        if (job->in->floats)
            memcpy(x, in.x + row * in.stride, dim * sizeof *x);
        if (weigh)
            f->kernels->scale(x, c->weight, dim);
        if (weigh && job->in->quantize)
            quantize_row(f, job->w->index, &to, rows, dim, lane, 0, x, dim);
        else if (job->in->quantize)
            copy_row(&to, lane, rows == 1, in.octets + octet_at(row, 0, dim), row % OCTET, dim);
    }
}

/* ---- gate and up ---- */

/* Columns c .. end - 1, as many at a time as the scratch holds. `next`: what is read after them */
static void gate_up_columns(const struct expert_job *job, size_t expert, struct activations act,
                            size_t c, size_t end, int thread)
{
    struct forward *f = job->f;
    struct expert_work *e = &f->experts;
    struct act_buffer to = rows_at(&e->ffn, e->first[expert], job->w->hidden);
    struct ffn_rows rows = {&act, &to, 0, e->count[expert], e->count[expert]};
    size_t room = f->gate_floats / rows.n / GROUP * GROUP;
    for (size_t n; c < end; c += n) {
        n = min_size(room, end - c);
        ffn_columns(f, job->w, expert, &rows, c, n, &f->scratch[thread]);
    }
}

static void gate_up_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct expert_work *e = &f->experts;
    size_t first = first_own(job), items = ceil_div(job->own.end - first, job->columns), stop;
    bool one = f->n == 1 && !job->w->experts.weigh_input; /* which all of them read */
    struct activations row = {0};
    if (one)
        row = input_view(f, job->in, thread);
    for (size_t i = begin; i < end; i = stop) {
        stop = min_size(end, (i / items + 1) * items);
        size_t expert = e->active[i / items], c = first + i % items * job->columns;
        gate_up_columns(job, expert, one ? row : rows_of(e, &e->in, expert, f->model->dim), c,
                        min_size(job->own.end, c + (stop - i) * job->columns), thread);
    }
}

/* What all machines made of the rows of experts, and of the shared one */
static void gather_ffn(struct forward *f, const struct layer *w)
{
#ifdef TERN_MPI
    struct expert_work *e = &f->experts;
    const struct experts *x = &w->experts;
    bool quantized = type_is_quantized(w->down.type);
    size_t n = 0;
    if (!split_of(f->model))
        return;
    for (size_t i = 0; i < e->n_active; i++) {
        size_t expert = e->active[i];
        struct act_buffer rows = rows_at(&e->ffn, e->first[expert], w->hidden);
        n += split_planes(e->planes + n, &rows, e->count[expert], quantized, cut_rows(w->hidden));
    }
    if (x->shared_hidden)
        n += split_planes(e->planes + n, &f->ffn, f->n, type_is_quantized(x->shared_down.type),
                          cut_rows(x->shared_hidden));
    split_gather(f, e->planes, n);
#else
    (void)f, (void)w;
#endif
}

/* ---- down ---- */

/* Some columns of what an expert gives its rows: added to theirs of y, or kept for who watches */
static void down_columns(const struct expert_job *job, size_t active, size_t c, size_t n,
                         struct scratch *s)
{
    struct forward *f = job->f;
    const struct expert_work *e = &f->experts;
    const struct layer *w = job->w;
    size_t expert = e->active[active], first = e->first[expert], count = e->count[expert];
    size_t stride = f->watch ? f->dim_stride : round_up(n, TILE_ROWS);
    size_t room = f->watch ? count : max_size(f->gate_floats / stride / OCTET * OCTET, 1);
    struct matrix down = matrix_rows(&w->down, expert, c, n);
    struct activations act = rows_of(e, &e->ffn, expert, w->hidden);
    if (active + 1 < e->n_active)
        act.next = matrix_rows(&w->down, e->active[active + 1], c, n).data;
    for (size_t i = 0, rows; i < count; i += rows) {
        rows = min_size(room, count - i);
        act.n = count == 1 ? 1 : max_size(rows, 2); /* in octets */
        float *y = f->watch ? e->y + (first + i) * stride + c : s->gate;
        linear(f, y, stride, &down, 0, ceil_div(n, TILE_ROWS), &act);
        for (size_t r = 0; r < rows && !f->watch; r++) {
            uint32_t chosen = e->at[first + i + r];
            f->kernels->add_scaled(f->y + chosen / e->max_used * f->dim_stride + c, y + r * stride,
                                   w->experts.weigh_input ? 1 : e->chosen[chosen].weight, n);
        }
        act.octets += octet_at(rows, 0, act.k);
        act.x += rows * act.stride;
    }
}

/* Some columns of y = sum over the experts, by ascending id */
static void down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    size_t first = first_own(job), n;
    size_t dim = min_size(job->own.end, first + end * job->columns);
    size_t room = f->n == 1 ? f->gate_floats / TILE_ROWS * TILE_ROWS : job->columns;
    for (size_t c = first + begin * job->columns; c < dim; c += n) {
        n = min_size(room, dim - c);
        for (size_t i = 0; i < f->n; i++) {
            float *y = f->y + i * f->dim_stride;
            if (job->w->parallel) /* what attention adds has waited there */
                residual_add(f, i, y, c, c + n);
            memset(y + c, 0, n * sizeof *y);
        }
        for (size_t i = 0; i < f->experts.n_active; i++)
            down_columns(job, i, c, n, &f->scratch[thread]);
    }
}

/* ---- the sum ---- */

float experts_shared_weight(const struct forward *f, const struct experts *x, size_t i)
{
    if (!x->shared_switch.data)
        return 1; /* y = fma(z, 1, y) is y + z */
    return 1 / (1 + math_exp(-f->experts.on[i * TILE_ROWS]));
}

/* What is left to do with y: the shared expert, norms, and the stream */
static void sum_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct expert_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct expert_work *e = &f->experts;
    size_t c = first_own(job), n = job->own.end - c;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = f->y + i * f->dim_stride;
        for (size_t j = 0; j < w->experts.n_used && f->watch; j++) {
            const struct choice *one = &e->chosen[i * e->max_used + j];
            f->kernels->add_scaled(y, e->y + one->place * f->dim_stride,
                                   w->experts.weigh_input ? 1 : one->weight, f->model->dim);
        }
        if (has_norm(&w->experts.post_norm)) {
            float *z = f->z + i * f->dim_stride;
            norm_row(f, y, y, &w->experts.post_norm, f->model->dim);
            norm_row(f, z, z, &w->experts.shared_post_norm, f->model->dim);
        }
        if (w->experts.shared_hidden)
            f->kernels->add_scaled(y + c, f->z + i * f->dim_stride + c,
                                   experts_shared_weight(f, &w->experts, i), n);
        if (!has_norm(&w->ffn_post_norm))
            residual_add(f, i, y, c, c + n);
    }
}

/* y and ffn from the choice */
static void run_experts(struct forward *f, const struct layer *w, const struct input *in)
{
    struct expert_job job = {.f = f, .w = w, .in = in, .own = own_rows(f->model, w->hidden)};
    size_t items = 4 * (size_t)pool_threads(f->pool);
    bool normed = has_norm(&w->experts.post_norm) || has_norm(&w->ffn_post_norm);
    place_rows(f, &w->experts);
    if (f->n > 1 || w->experts.weigh_input)
        profile_run(f->profile, OP_NORM, f->pool, f->n * w->experts.n_used, gather_items, &job);
    job.columns = f->n == 1 ? GROUP : COLUMNS;
    profile_run(f->profile, OP_GATE_UP, f->pool,
                f->experts.n_active * ceil_div(job.own.end - first_own(&job), job.columns), gate_up_items,
                &job);
    gather_ffn(f, w);
    if (w->experts.shared_hidden)
        ffn_shared_down(f, w);
    job.own = own_rows(f->model, f->model->dim);
    size_t dim = job.own.end - first_own(&job);
    job.columns = f->n == 1 ? TILE_ROWS : COLUMNS;
    while (job.columns > 2 * TILE_ROWS && ceil_div(dim, job.columns) < items)
        job.columns /= 2;
    profile_run(f->profile, OP_DOWN, f->pool, ceil_div(dim, job.columns), down_items, &job);
    state_watch(f, w->index, WATCH_EXPERT);
    if (normed) { /* of whole rows, which all machines then make */
        split_stream(f, w->parallel, true, w->experts.shared_hidden);
        job.own = (struct portion){0, f->model->dim};
    }
    profile_run(f->profile, OP_DOWN, f->pool, f->n, sum_items, &job);
    if (!normed)
        split_stream(f, true, false, false);
}

void step_experts(struct forward *f, const struct layer *w)
{
    const struct experts *x = &w->experts;
    bool own = has_norm(&x->router_norm);
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .norm = own ? &x->router_norm : ffn_norm_of(w),
                       .layer = w->index,
                       .floats = true,
                       .quantize = !own && ffn_reads_integers(w)};
    state_watch(f, w->index, WATCH_FFN);
    if (own)
        ffn_shared_gate_up(f, w, NULL);
    input_prepare(f, &in);
    if (!own && x->shared_hidden)
        ffn_shared_gate_up(f, w, &in);
    route(f, w, &in);
    state_watch(f, w->index, WATCH_EXPERTS);
    in.floats = ffn_reads_floats(w) || x->weigh_input;
    if (own) {
        in.norm = &x->in_norm, in.quantize = ffn_reads_integers(w);
        input_prepare(f, &in);
    }
    run_experts(f, w, &in);
    state_watch(f, w->index, WATCH_FFN_POST);
}
