/* The dense feed-forward step: see ffn.h. 32 rows of gate and up are computed together, for they
 * become one group of the input of down. */
#include "model/ffn.h"

#include <string.h>

#include "base/sizes.h"
#include "model/linear.h"
#include "model/moments.h"
#include "model/residual.h"
#include "model/split.h"
#include "model/xielu.h"

struct ffn_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in;        /* of gate and up */
    const struct activations *act; /* of down */
};

const struct norm *ffn_norm_of(const struct layer *w)
{
    return w->parallel && !has_norm(&w->ffn_norm) ? &w->attn_norm : &w->ffn_norm;
}

/* ---- gate and up ---- */

/* y = act(gate) * up   [n]; without a gate y = act(up) */
static void activate(const struct forward *f, const struct layer *w, float *y, const float *gate,
                     const float *up, size_t n)
{
    if (w->xielu)
        xielu_apply(y, up, n, w->xielu);
    else if (w->gated && f->model->activation == ACT_SILU)
        f->kernels->swiglu(y, gate, up, n);
    else
        f->kernels->activate(y, w->gated ? gate : up, w->gated ? up : NULL, n, f->model->activation,
                             w->ffn_clamp);
}

/* What the activation reads, for who watches */
static void keep_columns(struct forward *f, const struct layer *w, const struct ffn_rows *r,
                         size_t c, size_t n, const struct scratch *s)
{
    for (size_t i = 0; i < r->n; i++) {
        size_t from = i * round_up(n, GROUP), to = (r->first + i) * r->to->stride + c;
        memcpy(f->up + to, s->up + from, n * sizeof *f->up);
        if (w->gated)
            memcpy(f->gate + to, s->gate + from, n * sizeof *f->gate);
    }
}

void ffn_columns(struct forward *f, const struct layer *w, size_t expert, const struct ffn_rows *r,
                 size_t c, size_t n, struct scratch *s)
{
    size_t stride = round_up(n, GROUP), tiles = ceil_div(n, TILE_ROWS);
    struct matrix up = matrix_rows(&w->up, expert, c, n);
    bool cut = w->ffn_cutoff > NO_CUTOFF; /* then gate waits where what is made of it will be */
    for (size_t i = 0; i < r->n && cut; i++)
        memcpy(s->gate + i * stride, r->to->x + (r->first + i) * r->to->stride + c, n * sizeof *s->gate);
    if (w->gated && !cut) {
        struct matrix gate = matrix_rows(&w->gate, expert, c, n);
        struct activations in = *r->in;
        in.next = up.data;
        linear(f, s->gate, stride, &gate, 0, tiles, &in);
    }
    linear(f, s->up, stride, &up, 0, tiles, r->in);
    if (f->up && r->to == &f->ffn)
        keep_columns(f, w, r, c, n, s);
    for (size_t i = 0; i < r->n; i++) {
        float *y = r->to->x + (r->first + i) * r->to->stride + c;
        activate(f, w, y, s->gate + i * stride, s->up + i * stride, n);
        if (type_is_quantized(w->down.type))
            quantize_row(f, w->index, r->to, r->form, w->hidden, r->first + i, c, y, n);
    }
}

static void gate_up_groups(void *arg, const struct piece *p)
{
    const struct ffn_job *job = arg;
    struct forward *f = job->f;
    size_t c = p->begin * GROUP, n = min_size(p->end * GROUP, job->w->hidden) - c;
    struct ffn_rows rows = {&p->act, &f->ffn, p->row, p->n, f->n};
    ffn_columns(f, job->w, 0, &rows, c, n, &f->scratch[p->thread]);
}

static void gate_up_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ffn_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    size_t step = job->f->gate_floats / GROUP / min_size(act.n, MOST_ROWS);
    in_pieces(&act, begin, end, min_size(step, COLUMNS / GROUP), gate_up_groups, arg, thread);
}

/* The gate of whole rows, for their mean: into the input of down */
static void gate_piece(void *arg, const struct piece *p)
{
    const struct ffn_job *job = arg;
    struct forward *f = job->f;
    linear(f, f->ffn.x + p->row * f->ffn.stride, f->ffn.stride, &job->w->gate, p->begin, p->end, &p->act);
}

static void gate_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ffn_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->w->hidden, begin, end, gate_piece, arg, thread);
}

static void cut_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ffn_job *job = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        moments_cut(job->f->ffn.x + i * job->f->ffn.stride, job->w->hidden, job->w->ffn_cutoff);
}

static bool is_integer(const struct matrix *m)
{
    return m->data && type_is_quantized(m->type);
}

static bool is_float(const struct matrix *m)
{
    return m->data && !type_is_quantized(m->type);
}

bool ffn_reads_integers(const struct layer *w)
{
    return is_integer(&w->gate) || is_integer(&w->up) || is_integer(&w->experts.shared_gate) ||
           is_integer(&w->experts.shared_up);
}

bool ffn_reads_floats(const struct layer *w)
{
    return is_float(&w->gate) || is_float(&w->up) || is_float(&w->experts.shared_gate) ||
           is_float(&w->experts.shared_up);
}

/* in: as it was prepared; NULL: not yet */
static void gate_up(struct forward *f, const struct layer *w, const struct input *in)
{
    struct input own = {.src = f->x,
                        .stride = f->dim_stride,
                        .n = f->n,
                        .k = f->model->dim,
                        .norm = ffn_norm_of(w),
                        .layer = w->index,
                        .round = w->round_inputs,
                        .quantize = ffn_reads_integers(w),
                        .floats = ffn_reads_floats(w)};
    if (!in)
        input_prepare(f, &own);
    if (w->ffn_cutoff > NO_CUTOFF) {
        struct ffn_job job = {.f = f, .w = w, .in = in ? in : &own};
        profile_run(f->profile, OP_GATE_UP, f->pool, tile_items(w->hidden, f->n), gate_items, &job);
        profile_run(f->profile, OP_NORM, f->pool, f->n, cut_items, &job);
    }
    struct portion columns = own_rows(f->model, w->hidden);
    struct portion groups = {columns.begin / GROUP, ceil_div(columns.end, GROUP)};
    run_own(f, OP_GATE_UP, groups, gate_up_items,
            &(struct ffn_job){.f = f, .w = w, .in = in ? in : &own});
}

void step_gate_up(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_FFN);
    gate_up(f, w, NULL);
}

/* ---- down ---- */

static void project_down(void *arg, const struct piece *p)
{
    const struct ffn_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t c0 = p->begin * TILE_ROWS, c1 = min_size(p->end * TILE_ROWS, w->down.rows);
    linear(f, f->y + p->row * f->dim_stride, f->dim_stride, &w->down, p->begin, p->end, &p->act);
    for (size_t i = p->row; i < p->row + p->n; i++) {
        if (w->parallel)
            residual_add(f, i, f->z + i * f->dim_stride, c0, c1);
        if (!has_norm(&w->ffn_post_norm))
            residual_add(f, i, f->y + i * f->dim_stride, c0, c1);
    }
}

static void down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ffn_job *job = arg;
    in_tiles(job->act, job->w->down.rows, begin, end, project_down, arg, thread);
}

void step_project_down(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_DOWN);
    bool quantized = type_is_quantized(w->down.type), normed = has_norm(&w->ffn_post_norm);
    struct activations act = act_buffer_view(&f->ffn, f->n, w->hidden, quantized);
    if (!has_norm(&w->down_norm) && !w->round_inputs) /* else step_inner_norm has it */
        split_rows(f, &f->ffn, quantized, cut_rows(w->hidden));
    run_own(f, OP_DOWN, own_tiles(own_rows(f->model, w->down.rows), f->n), down_items,
            &(struct ffn_job){.f = f, .w = w, .act = &act});
    split_stream(f, !normed || w->parallel, normed, false);
    state_watch(f, w->index, WATCH_FFN_POST);
}

/* ---- the shared expert: a dense step whose output waits in f->z ---- */

static void shared_down_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ffn_job *job = arg;
    (void)thread;
    size_t n = job->act->n;
    linear(job->f, job->f->z, job->f->dim_stride, &job->w->down, tile_first(begin, n),
           tile_end(end, job->w->down.rows, n), job->act);
}

/* The layer as if the shared expert were its feed-forward step */
static struct layer shared_layer(const struct layer *w)
{
    struct layer dense = *w;
    dense.gate = w->experts.shared_gate, dense.up = w->experts.shared_up;
    dense.down = w->experts.shared_down, dense.hidden = w->experts.shared_hidden;
    return dense;
}

void ffn_shared_gate_up(struct forward *f, const struct layer *w, const struct input *in)
{
    struct layer dense = shared_layer(w);
    gate_up(f, &dense, in);
}

void ffn_shared_down(struct forward *f, const struct layer *w)
{
    struct layer dense = shared_layer(w);
    struct activations act =
        act_buffer_view(&f->ffn, f->n, dense.hidden, type_is_quantized(dense.down.type));
    run_own(f, OP_DOWN, own_tiles(own_rows(f->model, dense.down.rows), f->n), shared_down_items,
            &(struct ffn_job){.f = f, .w = &dense, .act = &act});
}
