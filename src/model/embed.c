/* Tokens to rows: see embed.h. */
#include "model/embed.h"

#include "model/residual.h"

static void embed_items(void *arg, size_t begin, size_t end, int thread)
{
    struct forward *f = arg;
    const struct model *m = f->model;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float *x = f->x + i * f->dim_stride;
        f->kernels->get_row[m->embed.type](x, m->embed.data, m->dim, (size_t)f->rows[i].token);
        if (m->embed_scale != 1)
            f->kernels->scale(x, m->embed_scale, m->dim);
        if (has_norm(&m->embed_norm))
            norm_row(f, x, x, &m->embed_norm, m->dim);
        if (m->positions)
            f->kernels->add(x, m->positions + f->rows[i].position * m->dim, m->dim);
        for (size_t r = 0; r < m->n_ropes; r++) {
            size_t at = (r * f->n_batch + i) * f->rope_stride;
            const struct rope_set *set = &m->ropes[r];
            bool far = set->far && f->cache->far[f->rows[i].seq];
            f->kernels->rope_angles(f->rope_cos + at, f->rope_sin + at,
                                    far ? set->far : set->inv_freq, set->half, f->rows[i].position,
                                    set->factor);
        }
    }
}

void step_embed(struct forward *f)
{
    profile_run(f->profile, OP_EMBED, f->pool, f->n, embed_items, f);
}
