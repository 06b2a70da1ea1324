/* Latent attention: see latent.h; FORMAT.md has the shapes. The matrices of a head are many and
 * small, so heads and rows are shared out over threads. */
#include "model/latent.h"

#include <string.h>

#include "base/sizes.h"
#include "model/kv_store.h"
#include "model/linear.h"
#include "model/split.h"

void latent_take(struct latent_scratch *s, struct arena *a, const struct model *m)
{
    size_t in = 0, out = 0;
    for (size_t l = 0; l < m->n_layers + m->n_mtp; l++) {
        const struct latent *t = &m->layers[l].latent;
        in = max_size(in, max_size(t->nope, t->rank));
        out = max_size(out, max_size(t->rank, t->value));
    }
    s->out_stride = round_up(out, TILE_ROWS);
    if (!in)
        return;
    act_buffer_take(a, &s->in, LATENT_ROWS, in);
    s->out = arena_take(a, LATENT_ROWS * s->out_stride, sizeof *s->out);
}

/* ---- whole rows ---- */

struct latent_job { /* what the pool's items of one step share */
    struct forward *f;
    const struct layer *w;
    const struct matrix *m; /* of heads */
    float *y;
    const float *x;       /* [n, heads, step]: of each head the first k, */
    size_t step, to_step; /* to y [n, heads, to_step] */
    struct portion own;   /* heads */
};

static void turn(const struct forward *f, const struct layer *w, float *x, size_t i)
{
    if (!w->rope)
        return;
    size_t at = ((size_t)(w->rope - f->model->ropes) * f->n_batch + i) * f->rope_stride;
    f->kernels->rope(x, f->rope_cos + at, f->rope_sin + at, w->rope->half);
}

/* Norms of the compressed rows; the cached one is finished. */
static void finish_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct latent_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    const struct latent *t = &w->latent;
    for (size_t i = begin; i < end; i++) {
        float *c = f->v + i * f->kv_stride, *k = f->k + i * f->kv_stride;
        if (t->q_rank)
            f->kernels->rmsnorm(c, c, t->q_norm, t->q_rank, t->eps);
        f->kernels->rmsnorm(k, k, t->k_norm, t->rank, t->eps);
        turn(f, w, k + t->rank, i);
        kv_store(f, w->index, &f->rows[i], 0, true, k, w->head_dim, &f->scratch[thread].attention);
    }
}

/* ---- heads ---- */

/* Some rows of one head through its matrix: out [n, out_stride] */
static void head_rows(const struct latent_job *job, size_t head, size_t row, size_t n,
                      struct latent_scratch *s)
{
    struct forward *f = job->f;
    struct matrix m = matrix_rows(job->m, head, 0, job->m->rows);
    bool quantized = type_is_quantized(m.type);
    for (size_t i = 0; i < n; i++) {
        const float *x = job->x + (row + i) * f->q_stride + head * job->step;
        if (quantized)
            quantize_row(f, job->w->index, &s->in, n, m.k, i, 0, x, m.k);
        else
            memcpy(s->in.x + i * s->in.stride, x, m.k * sizeof *x);
    }
    struct activations act = act_buffer_view(&s->in, n, m.k, quantized && n > 1);
    linear(f, s->out, s->out_stride, &m, 0, ceil_div(m.rows, TILE_ROWS), &act);
}

/* Items are heads of some rows. The query's rest follows it, where it has one (absorb, not values). */
static void head_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct latent_job *job = arg;
    struct forward *f = job->f;
    const struct layer *w = job->w;
    struct latent_scratch *s = &f->scratch[thread].latent;
    size_t rotary = w->head_dim - w->latent.rank, rows = job->m->rows;
    for (size_t u = begin; u < end; u++) {
        size_t heads = job->own.end - job->own.begin;
        size_t head = job->own.begin + u % heads, row = u / heads * LATENT_ROWS;
        size_t n = min_size(LATENT_ROWS, f->n - row);
        head_rows(job, head, row, n, s);
        for (size_t i = 0; i < n; i++) {
            float *y = job->y + (row + i) * f->q_stride + head * job->to_step;
            memcpy(y, s->out + i * s->out_stride, rows * sizeof *y);
            if (job->m != &w->latent.k_up)
                continue;
            memcpy(y + rows, job->x + (row + i) * f->q_stride + head * job->step + w->latent.nope,
                   rotary * sizeof *y);
            turn(f, w, y + rows, row + i);
            if (f->model->q_scales && w->q_scaled)
                f->kernels->scale(y, q_scale_of(f->model, w, f->rows[row + i].position), w->head_dim);
        }
    }
}

static void heads(struct forward *f, enum operation op, struct latent_job *job)
{
    job->own = own_heads(f->model, job->w);
    size_t heads = job->own.end - job->own.begin;
    profile_run(f->profile, op, f->pool, heads * ceil_div(f->n, LATENT_ROWS), head_items, job);
}

/* ---- the steps ---- */

void step_project_latent(struct forward *f, const struct layer *w)
{
    const struct latent *t = &w->latent;
    const struct matrix *first = t->q_rank ? &t->q_down : &w->q;
    bool q_int = type_is_quantized(first->type), k_int = type_is_quantized(w->k.type);
    state_watch(f, w->index, WATCH_ATTENTION);
    struct input in = {.src = f->x, .stride = f->dim_stride, .n = f->n, .k = f->model->dim,
                       .norm = &w->attn_norm, .layer = w->index,
                       .quantize = q_int || k_int, .floats = !q_int || !k_int};
    input_prepare(f, &in);
    struct portion rows = portion_times(own_heads(f->model, w), layer_q_dim(w), 0);
    struct matrix own_q = w->q; /* those rows of it */
    struct projected q = project_own(&(struct projected){&w->q, f->att, f->q_stride}, rows, &own_q);
    const struct projected parts[] = {{&w->k, f->k, f->kv_stride},
                                      t->q_rank ? (struct projected){first, f->v, f->kv_stride} : q,
                                      {NULL, NULL, 0}};
    project_rows(f, OP_QKV, &in, parts);
    struct latent_job job = {.f = f, .w = w};
    profile_run(f->profile, OP_QKV, f->pool, f->n, finish_items, &job);
    if (t->q_rank) {
        state_watch(f, w->index, WATCH_LATENT);
        struct input c = {.src = f->v, .stride = f->kv_stride, .n = f->n, .k = t->q_rank,
                          .layer = w->index, .quantize = type_is_quantized(w->q.type)};
        input_prepare(f, &c);
        project_rows(f, OP_QKV, &c, (const struct projected[]){q, {NULL, NULL, 0}});
    }
    job = (struct latent_job){.f = f, .w = w, .m = &t->k_up, .x = f->att, .y = f->q,
                              .step = layer_q_dim(w), .to_step = w->head_dim};
    heads(f, OP_QKV, &job);
}

void step_latent_values(struct forward *f, const struct layer *w)
{
    state_watch(f, w->index, WATCH_HEADS);
    struct latent_job job = {.f = f, .w = w, .m = &w->latent.v_up, .x = f->att, .y = f->q,
                             .step = w->latent.rank, .to_step = w->latent.value};
    heads(f, OP_OUT, &job);
    state_swap_heads(f);
}
