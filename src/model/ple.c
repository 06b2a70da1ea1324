/* Embeddings per layer: see ple.h. */
#include "model/ple.h"

#include "base/sizes.h"
#include "model/ffn.h"
#include "model/linear.h"
#include "model/residual.h"

struct ple_job {
    struct forward *f;
    const struct layer *w;
    const struct input *in;        /* of the projection, or of the gate */
    const struct activations *act; /* of the output */
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
    in_pieces(&act, begin, end, COLUMNS / TILE_ROWS, project_piece, arg, thread);
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
        k->get_row[m->ple_embed.type](row, m->ple_embed.data, n, (size_t)f->rows[i].token);
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
    profile_run(f->profile, OP_EMBED, f->pool, ceil_div(w->rows, TILE_ROWS), project_items,
                &(struct ple_job){.f = f, .in = &in});
    profile_run(f->profile, OP_EMBED, f->pool, f->n, mix_items, f);
}

/* ---- at a layer's end ---- */

/* 32 columns of the gate are computed together, for they become one group of the output's input. */
static void gate_groups(void *arg, const struct piece *p)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    float *gate = f->scratch[p->thread].gate;
    size_t d = f->model->ple_dim, c = p->begin * GROUP, n = min_size(p->end * GROUP, d) - c;
    size_t stride = round_up(n, GROUP);
    struct matrix columns = matrix_rows(&w->ple_gate, 0, c, n);
    linear(f, gate, stride, &columns, 0, ceil_div(n, TILE_ROWS), &p->act);
    for (size_t i = 0; i < p->n; i++) {
        size_t row = p->row + i;
        float *y = f->ffn.x + row * f->ffn.stride + c;
        f->kernels->activate(y, gate + i * stride, f->ple + row * f->ple_stride + w->index * d + c,
                             n, f->model->activation, w->ffn_clamp);
        if (type_is_quantized(w->ple_out.type))
            quantize_row(f, w->index, &f->ffn, f->n, d, row, c, y, n);
    }
}

static void gate_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    struct activations act = input_view(job->f, job->in, thread);
    size_t step = job->f->gate_floats / GROUP / min_size(act.n, MOST_ROWS);
    in_pieces(&act, begin, end, min_size(step, COLUMNS / GROUP), gate_groups, arg, thread);
}

static void out_piece(void *arg, const struct piece *p)
{
    const struct ple_job *job = arg;
    struct forward *f = job->f;
    linear(f, f->y + p->row * f->dim_stride, f->dim_stride, &job->w->ple_out, p->begin, p->end,
           &p->act);
}

static void out_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct ple_job *job = arg;
    in_pieces(job->act, begin, end, COLUMNS / TILE_ROWS, out_piece, arg, thread);
}

void step_ple(struct forward *f, const struct layer *w)
{
    if (w->ple_gate.data || w->scale)
        state_watch(f, w->index, WATCH_PLE);
    if (!w->ple_gate.data)
        return;
    struct input in = {.src = f->x,
                       .stride = f->dim_stride,
                       .n = f->n,
                       .k = f->model->dim,
                       .layer = w->index,
                       .quantize = type_is_quantized(w->ple_gate.type)};
    input_prepare(f, &in);
    profile_run(f->profile, OP_GATE_UP, f->pool, ceil_div(f->model->ple_dim, GROUP), gate_items,
                &(struct ple_job){.f = f, .w = w, .in = &in});
    struct activations act =
        act_buffer_view(&f->ffn, f->n, f->model->ple_dim, type_is_quantized(w->ple_out.type));
    profile_run(f->profile, OP_DOWN, f->pool, ceil_div(w->ple_out.rows, TILE_ROWS), out_items,
                &(struct ple_job){.f = f, .w = w, .act = &act});
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
