/* Consequences of a change: see surgery.h. */
#include "engine/lab/surgery.h"

#include <string.h>

#include "model/kv_store.h"
#include "model/linear.h"

void surgery_sum(struct observer *o, bool aside, bool y)
{
    const struct forward *f = o->f;
    for (size_t i = 0; i < f->n; i++) {
        size_t at = i * f->dim_stride, dim = f->model->dim;
        memcpy(f->x + at, o->before + at, dim * sizeof *f->x);
        if (aside)
            f->kernels->add(f->x + at, o->aside + at, dim);
        if (y)
            f->kernels->add(f->x + at, f->y + at, dim);
    }
}

void surgery_store(struct forward *f, const struct layer *w)
{
    struct attention_scratch *s = &f->scratch->attention;
    size_t d = w->head_dim;
    for (size_t i = 0; i < f->n; i++)
        for (size_t h = 0; h < w->n_kv_heads; h++) {
            size_t at = i * f->kv_stride + h * d;
            kv_store(f, w->index, &f->rows[i], h, true, f->k + at, d, s);
            if (!w->latent.rank) /* else k holds the values */
                kv_store(f, w->index, &f->rows[i], h, false, f->v + at, d, s);
        }
}

void surgery_round(struct forward *f, const struct layer *w)
{
    for (size_t i = 0; i < f->n && type_is_quantized(w->down.type); i++)
        quantize_row(f, w->index, &f->ffn, f->n, w->hidden, i, 0, f->ffn.x + i * f->ffn.stride,
                     w->hidden);
}

void surgery_choose(struct forward *f, const struct experts *x, size_t i, const float *weights)
{
    const struct expert_work *e = &f->experts;
    struct choice *chosen = e->chosen + i * e->max_used;
    bool *taken = e->taken + i * e->n;
    size_t n = 0, out = 0;
    memset(taken, 0, x->n * sizeof *taken);
    for (size_t id = 0; id < x->n && n < x->n_used; id++)
        if (weights[id] != 0)
            taken[id] = true, n++;
    for (size_t j = 0; n < x->n_used; j++) {
        bool *place = &taken[chosen[j].expert];
        n += !*place;
        *place = true;
    }
    for (size_t id = 0; id < x->n; id++)
        if (taken[id])
            chosen[out++] = (struct choice){(uint32_t)id, 0, weights[id]};
}
