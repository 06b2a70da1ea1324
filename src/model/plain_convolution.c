/* The short convolution, defined for one row (LFM2), and what every mixer with a state shares:
 *
 *   [B | C | x] = Win h [3 * dim];  y = Wout (C * conv(B * x)) */
#include <string.h>

#include "model/plain_mixer.h"

void plain_log(struct forward *f, const struct layer *w, const struct row *row, const float *in)
{
    const struct mixer *x = &w->mix;
    float *log = recurrent_log(&f->cache->recurrent, row->seq, row->position) + x->log_at;
    memcpy(log, in, x->channels * sizeof *log);
    log += x->channels;
    memcpy(log, f->plain.decay, x->decay.rows * sizeof *log);
    memcpy(log + x->decay.rows, f->plain.beta, x->beta.rows * sizeof *log);
}

void plain_convolve(struct forward *f, const struct layer *w, float *state, const float *in,
                    bool silu)
{
    const struct mixer *x = &w->mix;
    const float *rows[MAX_CONV];
    struct convolve c = {.n = x->channels, .width = x->width, .w_stride = x->channels, .x = rows};
    c.w = x->conv, c.bias = x->conv_bias, c.silu = silu;
    for (size_t j = 0; j + 1 < x->width; j++)
        rows[j] = state + j * x->channels;
    rows[x->width - 1] = in;
    f->kernels->convolve(f->plain.conv, &c);
    for (size_t j = 0; j + 1 < x->width; j++) /* the oldest goes */
        memmove(state + j * x->channels, rows[j + 1], x->channels * sizeof *state);
}

void plain_convolution(struct forward *f, const struct layer *w, const struct row *row, float *y,
                       const float *h)
{
    const struct mixer *x = &w->mix;
    struct plain *p = &f->plain;
    size_t dim = f->model->dim;
    float *state = f->cache->recurrent.seqs[row->seq].to + x->at, *u = p->mix + 2 * dim;
    plain_matmul(f, w->index, p->mix, &x->in, h);
    f->kernels->multiply(u, p->mix, dim);
    plain_log(f, w, row, u);
    plain_convolve(f, w, state, u, false);
    f->kernels->multiply(p->conv, p->mix + dim, dim);
    plain_matmul(f, w->index, y, &x->out, p->conv);
}
