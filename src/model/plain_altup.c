/* Several streams and a learned residual, defined: see altup.h for the formulas, and plain.c. */
#include <string.h>

#include "model/altup.h"
#include "model/linear.h"
#include "model/plain.h"
#include "model/residual.h"

/* s_i = Win[i] x, matched to x, i > 0 */
void plain_spread(struct forward *f)
{
    const struct model *m = f->model;
    struct plain *p = &f->plain;
    for (size_t s = 1; s < m->n_streams; s++) {
        const struct matrix in = matrix_rows(&m->altup_in, s - 1, 0, m->dim);
        plain_matmul(f, m->n_layers, p->y, &in, p->x);
        altup_match(f, p->y, p->x);
        memcpy(p->streams + s * m->dim, p->y, m->dim * sizeof *p->y);
    }
}

/* z = h + norm(Wright Wleft h) */
void plain_laurel(struct forward *f, const struct layer *w, const float *h)
{
    struct plain *p = &f->plain;
    plain_matmul(f, w->index, p->gate, &w->laurel_left, h);
    plain_matmul(f, w->index, p->z, &w->laurel_right, p->gate);
    norm_row(f, p->z, p->z, &w->laurel_norm, f->model->dim);
    f->kernels->add(p->z, h, f->model->dim);
}

/* x = (x + sum over i > 0 of Wout[i] s_i, matched to x) / n */
void plain_merge(struct forward *f)
{
    const struct model *m = f->model;
    struct plain *p = &f->plain;
    memcpy(p->z, p->x, m->dim * sizeof *p->x);
    for (size_t s = 1; s < m->n_streams; s++) {
        const struct matrix out = matrix_rows(&m->altup_out, s - 1, 0, m->dim);
        plain_matmul(f, m->n_layers, p->y, &out, p->streams + s * m->dim);
        altup_match(f, p->y, p->x);
        f->kernels->add(p->z, p->y, m->dim);
    }
    f->kernels->scale(p->z, 1 / (float)m->n_streams, m->dim);
    memcpy(p->x, p->z, m->dim * sizeof *p->x);
}
