/* cflags: -O2 */
/* Directions of several streams: see stream_ways.h. */
#include "engine/lab/stream_ways.h"

#include <math.h>
#include <string.h>

#include "model/altup.h"
#include "model/linear.h"

void stream_ways_take(struct stream_ways *s, struct arena *a, const struct model *m)
{
    size_t n = m->n_streams, layers = n ? m->n_layers : 0;
    s->streams = arena_take(a, n * m->dim, sizeof *s->streams);
    s->out = arena_take(a, layers * m->dim, sizeof *s->out);
    s->own = arena_take(a, layers * m->dim, sizeof *s->own);
    s->y = arena_take(a, n * m->dim, sizeof *s->y);
    s->rounding = arena_take(a, n, sizeof *s->rounding);
    s->rows = arena_take(a, n * m->dim, sizeof *s->rows);
    s->in = arena_take(a, n, sizeof *s->in);
    for (size_t i = 0; i < n; i++) {
        struct act_buffer none;
        act_buffer_take(a, s->in ? &s->in[i] : &none, 1, m->dim);
    }
}

/* ---- the last streams ---- */

struct merge_job {
    const struct stream_ways *s;
    const struct forward *f;
    const struct kept_row *t;
    const double *d;
};

static double mean_square(const double *x, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    return sum / (double)n;
}

/* x = (s_0 + sum of r_i Wout[i] s_i) / n, r_i held   for i = begin + 1 .. end */
static void merge_items(void *arg, size_t begin, size_t end, int thread)
{
    const struct merge_job *job = arg;
    const struct forward *f = job->f;
    const struct stream_ways *s = job->s;
    const struct model *m = f->model;
    size_t dim = m->dim, n = m->n_streams;
    double of_x = 0;
    (void)thread;
    for (size_t c = 0; c < dim; c++)
        of_x += (double)job->t->streams[c] * job->t->streams[c] / (double)dim;
    for (size_t i = begin + 1; i <= end; i++) {
        struct act_buffer *in = &s->in[i];
        const struct matrix w = matrix_rows(&m->altup_out, i - 1, 0, dim);
        const float *from = job->t->streams + i * dim;
        float *row = s->rows + i * dim;
        double *y = s->y + i * dim, *to = s->streams + i * dim;
        memcpy(in->x, from, dim * sizeof *from);
        if (type_is_quantized(w.type))
            f->kernels->quantize(in->q, in->scale, in->sum, from, dim);
        for (size_t c = 0; c < dim && type_is_quantized(w.type); c++)
            in->x[c] = (float)in->q[c] * in->scale[c / GROUP];
        memset(to, 0, dim * sizeof *to);
        for (size_t r = 0; r < dim; r++) {
            f->kernels->get_row[w.type](row, w.data, dim, r);
            y[r] = 0;
            for (size_t c = 0; c < dim; c++)
                y[r] += (double)row[c] * in->x[c], to[c] += job->d[r] * row[c];
        }
        double of_y = mean_square(y, dim);
        double scale = sqrt(of_x / (of_y > 1e-5 ? of_y : 1e-5)) / (double)n;
        s->rounding[i] = 0;
        for (size_t c = 0; c < dim; c++) {
            to[c] *= scale;
            s->rounding[i] += to[c] * ((double)in->x[c] - from[c]);
        }
    }
}

/* ---- layers ---- */

/* From the streams after the layer to those before it, where
 *   s' = s + P s;  x = c (s'_0 + mixer + z) + ffn;  s'' = s' + C (x - s'_0);  s''_i += own, i > 0 */
static void pass_layer(const struct stream_ways *s, const struct model *m, const struct kept_row *t,
                       size_t l)
{
    const struct kept_layer *k = &t->layers[l];
    size_t dim = m->dim, n = m->n_streams;
    double *out = s->out + l * dim, *own = s->own + l * dim, old[MAX_STREAMS];
    double left = m->layers[l].laurel_left.data ? (double)LAUREL_SCALE - 1 : 0;
    for (size_t c = 0; c < dim; c++) {
        out[c] = own[c] = 0;
        for (size_t i = 0; i < n; i++) {
            old[i] = s->streams[i * dim + c];
            own[c] += i ? old[i] : 0;
            out[c] += (double)k->correct[i] * old[i];
        }
        old[0] += left * out[c];
        for (size_t j = 0; j < n; j++) {
            double sum = old[j];
            for (size_t i = 0; i < n; i++)
                sum += (double)k->predict[i * n + j] * old[i];
            s->streams[j * dim + c] = sum;
        }
    }
}

void stream_ways_find(const struct stream_ways *s, const struct forward *f,
                      const struct kept_row *t, const double *d, struct pool *pool)
{
    const struct model *m = f->model;
    if (!m->n_streams)
        return;
    struct merge_job job = {s, f, t, d};
    pool_run(pool, m->n_streams - 1, merge_items, &job);
    for (size_t c = 0; c < m->dim; c++)
        s->streams[c] = d[c] / (double)m->n_streams;
    for (size_t l = m->n_layers; l-- > 0;)
        pass_layer(s, m, t, l);
}
