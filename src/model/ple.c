/* Embeddings per layer: see ple.h. */
#include "model/ple.h"

#include <string.h>

#include "base/sizes.h"
#include "model/altup.h"
#include "model/ffn.h"
#include "model/linear.h"
#include "model/residual.h"

struct ple_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in;        /* of the projection, or of the gate */
    const struct activations *act; /* of the output */
    const struct ple_pair *pair;
};

/* ---- all layers at once, from x before the first ---- */

static void project_piece(void *arg, const struct piece *p)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    linear(f, f->ple + p->row * f->ple_stride, f->ple_stride, &f->model->ple_in, p->begin, p->end,
           &p->act);
}

static void project_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    in_tiles(&act, job->f->model->ple_in.rows, begin, end, project_piece, arg, thread);
}

static void mix_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = arg;
    const struct model *m = f->model;
    const struct kernels *k = f->kernels;
    float *row = f->scratch[thread].ple_row;
    size_t d = m->ple_dim, n = m->n_layers * d;
    for (size_t i = begin; i < end; i++) {
        float *ple = f->ple + i * f->ple_stride;
        k->scale(ple, m->ple_in_scale, n);
        for (size_t l = 0; l < m->n_layers; l++)
            norm_row(f, ple + l * d, ple + l * d, &m->ple_norm, d);
        k->get_row[m->ple_embed.type](row, m->ple_embed.data, n, ple_row_of(m, f->rows[i].token));
        k->scale(row, m->ple_embed_scale, n);
        k->add(ple, row, n);
        k->scale(ple, m->ple_scale, n);
    }
}

void step_embed_layers(struct forward *f)
{
    const struct matrix *w = &f->model->ple_in;
    if (!w->data)
        return;
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .quantize = type_is_quantized(w->type)};
    input_prepare(f, &in);
    profile_run(f->profile, OP_EMBED, f->pool, tile_items(w->rows, f->n), project_items,
                &(struct ple_job){.f = f, .in = &in});
    profile_run(f->profile, OP_EMBED, f->pool, f->n, mix_items, f);
}

/* ---- two matrices, one after the other ---- */

/* y = act(gate) * ple [n], in columns c .. c + n - 1 of the pair's middle; or the gate itself */
static void finish(const struct ple_job *job, float *y, const float *gate, size_t row, size_t c, size_t n)
{
    const struct forward *f = job->f;
    const struct layer *w = job->w;
    size_t d = f->model->ple_dim;
    if (job->pair->gated)
        f->kernels->activate(y, gate, f->ple + row * f->ple_stride + w->index * d + c, n,
                             f->model->activation, w->ffn_clamp);
    else
        memcpy(y, gate, n * sizeof *y);
}

/* 32 columns of the first are computed together, for they become one group of the second's input. */
static void first_groups(void *arg, const struct piece *p)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    const struct ple_pair *pair = job->pair;
    float *gate = f->scratch[p->thread].gate;
    size_t d = pair->first->rows, c = p->begin * GROUP, n = min_size(p->end * GROUP, d) - c;
    size_t stride = round_up(n, GROUP);
    struct matrix columns = matrix_rows(pair->first, 0, c, n);
    linear(f, gate, stride, &columns, 0, ceil_div(n, TILE_ROWS), &p->act);
    for (size_t i = 0; i < p->n; i++) {
        size_t row = p->row + i;
        float *y = f->ffn.x + row * f->ffn.stride + c;
        finish(job, y, gate + i * stride, row, c, n);
        if (type_is_quantized(pair->second->type))
            quantize_row(f, job->w->index, &f->ffn, f->n, d, row, c, y, n);
    }
}

static void first_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    size_t step = job->f->gate_floats / GROUP / min_size(act.n, MOST_ROWS);
    in_pieces(&act, begin, end, min_size(step, COLUMNS / GROUP), first_groups, arg, thread);
}

static void second_piece(void *arg, const struct piece *p)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    linear(f, job->pair->to + p->row * f->dim_stride, f->dim_stride, job->pair->second, p->begin,
           p->end, &p->act);
}

static void second_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    in_tiles(job->act, job->pair->second->rows, begin, end, second_piece, arg, thread);
}

void ple_pass(struct forward *f, const struct layer *w, struct input *in, const struct ple_pair *pair)
{
    size_t rank = pair->first->rows;
    in->quantize = type_is_quantized(pair->first->type), in->floats = !in->quantize;
    input_prepare(f, in);
    profile_run(f->profile, OP_GATE_UP, f->pool, ceil_div(rank, GROUP), first_items,
                &(struct ple_job){.f = f, .w = w, .in = in, .pair = pair});
    state_watch(f, w->index, pair->gated ? WATCH_PLE_OUT : WATCH_LAUREL);
    struct activations act =
        act_buffer_view(&f->ffn, f->n, rank, type_is_quantized(pair->second->type));
    profile_run(f->profile, OP_DOWN, f->pool, tile_items(pair->second->rows, f->n), second_items,
                &(struct ple_job){.f = f, .w = w, .act = &act, .pair = pair});
}

/* ---- at a layer's end ---- */

/* Of several streams, all but the first get what an embedding adds. */
static void add_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    size_t dim = f->model->dim, n = f->model->n_streams;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *y = f->y + i * f->dim_stride;
        norm_row(f, y, y, &job->w->ple_post_norm, dim);
        altup_add(f, f->streams + i * n * f->dim_stride, f->dim_stride, y);
    }
}

void step_ple(struct forward *f, const struct layer *w)
{
    if (!w->ple_gate.data)
        return;
    if (f->model->n_streams)
        state_watch(f, w->index, WATCH_PLE_IN);
    struct input in = {.src = f->model->n_streams ? f->z : f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .layer = w->index};
    ple_pass(f, w, &in, &(struct ple_pair){&w->ple_gate, &w->ple_out, f->y, true});
    state_watch(f, w->index, WATCH_PLE_POST);
    if (f->model->n_streams)
        profile_run(f->profile, OP_NORM, f->pool, f->n, add_items, &(struct ple_job){.f = f, .w = w});
    else
        step_post_norm(f, &w->ple_post_norm);
}

static void scale_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        f->kernels->scale(f->x + i * f->dim_stride, *job->w->scale, f->model->dim);
}

void step_scale(struct forward *f, const struct layer *w)
{
    if (w->scale)
        profile_run(f->profile, OP_NORM, f->pool, f->n, scale_items,
                    &(struct ple_job){.f = f, .w = w});
}
