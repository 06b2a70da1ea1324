/* The kernels of features that not every family has, over one row, in the vocabulary of ops_*.h.
 * `features_init` sets them. */
#ifndef KERNELS_SIMD_FEATURES_H
#define KERNELS_SIMD_FEATURES_H

#include "kernels/simd_math.h"
#include "kernels/simd_rows.h"

static void layernorm(float *y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    vf sum[PER_16], square[PER_16], v[PER_16], count = vf_count();
    load_16(sum, x, 0);
    load_16(square, x, 0);
    for (size_t i = 0; i < n; i += 16) {
        load_16(v, x + i, n - i < 16 ? n - i : 16);
        for (size_t j = 0; j < PER_16; j++)
            sum[j] = vf_add(sum[j], v[j]);
    }
    vf mean = vf_set1(sum_16(sum) / (float)n);
    for (size_t i = 0; i < n; i += 16) {
        load_16(v, x + i, n - i < 16 ? n - i : 16);
        for (size_t j = 0; j < PER_16; j++) {
            vf left = vf_set1(n - i < 16 ? (float)(n - i) - (float)(j * WIDTH) : 16);
            vf d = vf_select(vf_lt(count, left), vf_sub(v[j], mean), vf_set1(0));
            square[j] = vf_fma(d, d, square[j]);
        }
    }
    vf r = vf_set1(1 / sqrtf(sum_16(square) / (float)n + eps));
    for (size_t i = 0; i < n; i += WIDTH) {
        vf d = vf_sub(load_some(x + i, n - i), mean);
        d = vf_mul(vf_mul(d, r), load_some(w + i, n - i));
        store_some(y + i, b ? vf_add(d, load_some(b + i, n - i)) : d, n - i);
    }
}

SIMD vf activation(vf g, enum activation kind)
{
    vf one = vf_set1(1), half = vf_mul(g, vf_set1(0.5f));
    vf positive = vf_select(vf_lt(g, vf_set1(0)), vf_set1(0), g);
    vf square = vf_mul(vf_mul(vf_set1(GELU_CUBE), g), g), alpha;
    switch (kind) {
    case ACT_GELU:
        return vf_mul(half, vf_add(one, vf_erf(vf_mul(g, vf_set1(ROOT_HALF)))));
    case ACT_GELU_TANH:
        return vf_mul(half,
                      vf_add(one, vf_tanh(vf_mul(vf_set1(GELU_SCALE), vf_fma(square, g, g)))));
    case ACT_RELU2:
        return vf_mul(positive, positive);
    case ACT_RELU:
        return positive;
    default: /* g * sigmoid(alpha * g) */
        alpha = vf_set1(kind == ACT_SWIGLU_OAI ? -SWIGLU_ALPHA : -1);
        return vf_div(g, vf_add(one, vf_exp(vf_mul(g, alpha))));
    }
}

SIMD vf at_most(vf x, vf limit)
{
    return vf_select(vf_lt(limit, x), limit, x);
}

SIMD vf clamped(vf x, float limit)
{
    vf low = vf_set1(-limit);
    x = at_most(x, vf_set1(limit));
    return vf_select(vf_lt(x, low), low, x);
}

static void activate(float *y, const float *gate, const float *up, size_t n, enum activation kind,
                     float limit)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        vf g = load_some(gate + i, n - i), u = vf_set1(1);
        if (up)
            u = load_some(up + i, n - i);
        if (kind == ACT_SWIGLU_OAI) {
            g = at_most(g, vf_set1(limit));
            u = vf_add(clamped(u, limit), vf_set1(1));
        }
        store_some(y + i, vf_mul(activation(g, kind), u), n - i);
    }
}

static void add_scaled(float *y, const float *x, float c, size_t n)
{
    scale_add(y, x, vf_set1(c), y, n);
}

static void scale(float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(x + i, vf_mul(load_some(x + i, n - i), vf_set1(c)), n - i);
}

static void softcap(float *x, float cap, size_t n)
{
    vf c = vf_set1(cap);
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(x + i, vf_mul(c, vf_tanh(vf_div(load_some(x + i, n - i), c))), n - i);
}

static void clamp(float *x, float limit, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(x + i, clamped(load_some(x + i, n - i), limit), n - i);
}

static void sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        vf e = vf_exp(vf_mul(load_some(x + i, n - i), vf_set1(-1)));
        store_some(y + i, vf_div(load_some(y + i, n - i), vf_add(vf_set1(1), e)), n - i);
    }
}

static void multiply(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(y + i, vf_mul(load_some(y + i, n - i), load_some(x + i, n - i)), n - i);
}

static void l2norm(float *x, size_t n, float eps, float c)
{
    vf s[PER_16], v[PER_16];
    load_16(s, x, 0);
    for (size_t i = 0; i < n; i += 16) {
        load_16(v, x + i, n - i < 16 ? n - i : 16);
        for (size_t j = 0; j < PER_16; j++)
            s[j] = vf_fma(v[j], v[j], s[j]);
    }
    vf r = vf_set1(1 / sqrtf(sum_16(s) + eps)), by = vf_set1(c);
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(x + i, vf_mul(vf_mul(load_some(x + i, n - i), r), by), n - i);
}

static void convolve(float *y, const struct convolve *c)
{
    for (size_t i = 0; i < c->n; i += WIDTH) {
        size_t left = c->n - i;
        vf acc = c->bias ? load_some(c->bias + i, left) : vf_set1(0);
        for (size_t j = 0; j < c->width; j++)
            acc = vf_fma(load_some(c->w + j * c->w_stride + i, left), load_some(c->x[j] + i, left),
                         acc);
        store_some(y + i, c->silu ? swiglu_v(acc, vf_set1(1)) : acc, left);
    }
}

SIMD void features_init(struct kernels *k)
{
    k->layernorm = layernorm;
    k->activate = activate;
    k->add_scaled = add_scaled;
    k->scale = scale;
    k->softcap = softcap;
    k->clamp = clamp;
    k->sigmoid = sigmoid;
    k->multiply = multiply;
    k->l2norm = l2norm;
    k->convolve = convolve;
}

#endif
