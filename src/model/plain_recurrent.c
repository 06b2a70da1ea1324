/* The recurrent mixers, defined for one row. Delta net: Yang, Kautz, Hatamizadeh 2024 (gated);
 * Mamba2: Dao and Gu 2024. One recurrence serves both (kernels.h, struct recur):
 *
 *   [q | k | v] = silu(conv(Win h))     [k_heads, k_dim] twice, [v_heads, v_dim]; Mamba2: C, B, x
 *   delta net:  q, k = l2norm(q) / sqrt(k_dim), l2norm(k)
 *               b = sigmoid(Wbeta h) * beta_scale,  g = exp(-a * softplus(Wdecay h + bias)), or
 *               exp(floor * sigmoid(a * (Wdecay h + bias))); of a head, or of each row of S (Kimi)
 *   Mamba2:     b = softplus(Wdecay h + bias),  g = exp(-a * b)
 *   S = g S;    delta net: d = (v - k^T S) b,  Mamba2: d = v b;    S += k d^T;    o = q^T S
 *   o += d[head] * v                    where the layer has a skip
 *   norm(o) * act(z), norm(o * act(z)) or o * act(z),  z = Wgate h, act silu or sigmoid
 *   y = Wout o
 * Wdecay and Wgate may be products of two matrices, by way of a narrow row. */
#include <math.h>

#include "kernels/math.h"
#include "model/plain_mixer.h"

void recurrent_numbers(const struct mixer *x, size_t head, float *decay, float *beta)
{
    if (x->rule == RULE_MAMBA2) {
        *beta = math_softplus(*decay);
        *decay = math_exp(-(x->a[head] * *beta));
        return;
    }
    *beta = x->beta_scale / (1 + math_exp(-*beta));
    for (size_t i = 0; i < x->n_decay; i++)
        decay[i] = x->decay_floor < 0
                       ? math_exp(x->decay_floor / (1 + math_exp(-(x->a[head] * decay[i]))))
                       : math_exp(-(x->a[head] * math_softplus(decay[i])));
}

void recurrent_key(const struct kernels *k, const struct mixer *x, float *key, bool is_query)
{
    if (x->rule == RULE_DELTA)
        k->l2norm(key, x->k_dim, 1e-6f, is_query ? 1 / sqrtf((float)x->k_dim) : 1);
}

static void gate(const struct kernels *k, const struct mixer *x, float *o, float *z, size_t n)
{
    if (x->sigmoid)
        k->sigmoid(o, z, n);
    else
        k->swiglu(o, z, o, n);
}

void recurrent_finish(const struct kernels *k, const struct mixer *x, float *o, const float *v,
                      float *z, struct finish part)
{
    size_t n = x->v_heads * x->v_dim / x->norm_groups;
    size_t c = part.h0 * x->v_dim, end = part.h1 * x->v_dim;
    unsigned gated = x->norm_order == STATE_NORM_FIRST ? FINISH_NORM : FINISH_VALUES;
    for (unsigned half = FINISH_VALUES; half <= FINISH_NORM; half++) {
        if (!(part.halves & half))
            continue;
        for (size_t h = part.h0; x->d && half == FINISH_VALUES && h < part.h1; h++)
            k->add_scaled(o + h * x->v_dim, v + h * x->v_dim, x->d[h], x->v_dim);
        for (size_t i = c; x->norm && half == FINISH_NORM && i < end; i += n)
            k->rmsnorm(o + i, o + i, x->norm + (x->rule == RULE_DELTA ? 0 : i), n, x->norm_eps);
        if (half == gated)
            gate(k, x, o + c, z + c, end - c);
    }
}

/* y = W h, or W (Wdown h) */
static void plain_product(struct forward *f, size_t l, float *y, const struct matrix *down,
                          const struct matrix *w, const float *h)
{
    if (down->data)
        plain_matmul(f, l, f->plain.k, down, h);
    plain_matmul(f, l, y, w, down->data ? f->plain.k : h);
}

void plain_recurrent(struct forward *f, const struct layer *w, const struct row *row, float *y,
                     const float *h)
{
    const struct mixer *x = &w->mix;
    const struct kernels *k = f->kernels;
    struct plain *p = &f->plain;
    size_t key = x->k_heads * x->k_dim, l = w->index;
    float *q = p->conv, *v = q + 2 * key, *state = f->cache->recurrent.seqs[row->seq].to + x->at;
    plain_matmul(f, l, p->mix, &x->in, h);
    plain_product(f, l, p->z_gate, &x->gate_down, &x->gate, h);
    plain_product(f, l, p->decay, &x->decay_down, &x->decay, h);
    if (x->rule == RULE_DELTA)
        plain_matmul(f, l, p->beta, &x->beta, h);
    plain_log(f, w, row, p->mix);
    plain_convolve(f, w, state, p->mix, true);
    for (size_t i = 0; i < 2 * x->k_heads; i++)
        recurrent_key(k, x, q + i * x->k_dim, i < x->k_heads);
    for (size_t head = 0; head < x->v_heads; head++) {
        recurrent_numbers(x, head, p->decay + head * x->n_decay, &p->beta[head]);
        struct recur r = {.rows = 1, .k_dim = x->k_dim, .delta = x->rule == RULE_DELTA};
        r.q = q + head / (x->v_heads / x->k_heads) * x->k_dim, r.k = r.q + key;
        r.g = p->decay + head * x->n_decay, r.b = &p->beta[head], r.g_step = x->n_decay > 1;
        for (size_t at = 0; at * STATE_COLUMNS < x->v_dim; at++) {
            r.columns = state_columns(x, at);
            r.v = v + head * x->v_dim + at * STATE_COLUMNS;
            r.o = p->att + head * x->v_dim + at * STATE_COLUMNS;
            r.state = state + state_place(x, head, at);
            k->recur(&r);
        }
    }
    recurrent_finish(k, x, p->att, v, p->z_gate, (struct finish){0, x->v_heads, FINISH_ALL});
    plain_matmul(f, l, y, &x->out, p->att);
}
