/* The kernels over one row of activations, in the vocabulary of ops_*.h. `rows_init` sets them. */
#ifndef KERNELS_SIMD_ROWS_H
#define KERNELS_SIMD_ROWS_H

#include "kernels/math.h"
#include "kernels/simd_math.h"

enum {
    PER_16 = 16 / WIDTH,
    QUANTIZED = 4 /* groups that are quantized side by side */
};

/* A loop over [0, n) in steps of whole vectors; the last, shorter one has `tail` elements. */
#define VECTORS(i, n) for (; (i) + WIDTH <= (n); (i) += WIDTH)

/* `rest` elements of x at most, and +0 */
SIMD vf load_some(const float *x, size_t rest)
{
    return rest >= WIDTH ? vf_load(x) : vf_load_n(x, rest);
}

SIMD void store_some(float *y, vf v, size_t rest)
{
    if (rest >= WIDTH)
        vf_store(y, v);
    else
        vf_store_n(y, v, rest);
}

/* The canonical sum of 16 lanes, s [PER_16] */
SIMD float sum_16(const vf *s)
{
    typedef float quad __attribute__((vector_size(16)));
    quad lane[4];
    for (size_t v = 0; v < PER_16; v++)
        vf_store((float *)lane + v * WIDTH, s[v]);
    quad sum = (lane[0] + lane[2]) + (lane[1] + lane[3]);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* The 16 elements at x, or the first n of them and +0 */
SIMD void load_16(vf *v, const float *x, size_t n)
{
    for (size_t j = 0; j < PER_16; j++) {
        size_t at = j * WIDTH;
        v[j] = at < n ? load_some(x + at, n - at) : vf_set1(0);
    }
}

/* `groups` of them, 1 or QUANTIZED, side by side; of the last the values up to x + n are there.
 * A lane of *bad becomes 1 where a value is not finite. (127 / m) * m rounds to 127 at most. */
SIMD void quantize_groups(int8_t *q, float *scale, int32_t *sum, const float *x, size_t groups,
                          size_t n, vf *bad)
{
    vf v[QUANTIZED][GROUP / WIDTH], top[QUANTIZED], total[QUANTIZED];
    float m[QUANTIZED], inverse[QUANTIZED];
    UNROLL(g, groups) {
        size_t left = n - g * GROUP;
        load_16(v[g], x + g * GROUP, left < 16 ? left : 16);
        load_16(v[g] + PER_16, left > 16 ? x + g * GROUP + 16 : x, left > 16 ? left - 16 : 0);
        top[g] = total[g] = vf_set1(0);
        for (size_t j = 0; j < GROUP / WIDTH; j++)
            top[g] = vf_max(vf_abs(v[g][j]), top[g]);
    }
    vf_tops(m, top, groups);
    for (size_t g = 0; g < groups; g++) {
        bool zero = m[g] < 0x1p-100f;
        inverse[g] = zero ? 0 : 127 / m[g];
        scale[g] = zero ? 0 : m[g] / 127;
    }
    UNROLL(g, groups)
        for (size_t j = 0; j < GROUP / WIDTH; j++) {
            vf y = vf_mul(v[g][j], vf_set1(inverse[g]));
            vm number = vf_le(y, y);
            *bad = vf_select(number, *bad, vf_set1(1));
            y = vf_select(number, y, vf_set1(0));
            y = vf_sub(vf_add(y, vf_set1(ROUND)), vf_set1(ROUND));
            total[g] = vf_add(total[g], y);
            vf_store_int8(q + g * GROUP + j * WIDTH, y);
        }
    vf_totals(sum, total, groups);
}

static bool quantize(int8_t *q, float *scale, int32_t *sum, const float *x, size_t k)
{
    vf bad = vf_set1(0);
    size_t g = 0;
    for (; (g + QUANTIZED) * GROUP <= k; g += QUANTIZED)
        quantize_groups(q + g * GROUP, scale + g, sum + g, x + g * GROUP, QUANTIZED,
                        QUANTIZED * GROUP, &bad);
    for (; g * GROUP < k; g++)
        quantize_groups(q + g * GROUP, scale + g, sum + g, x + g * GROUP, 1,
                        k - g * GROUP < GROUP ? k - g * GROUP : GROUP, &bad);
    return vf_top(bad) == 0;
}

SIMD void to_octets(struct octet *to, size_t row, const int8_t *q, const float *scale,
                    const int32_t *sum, size_t groups)
{
    for (size_t g = 0; g < groups; g++, q += GROUP) {
        to[g].scale[row] = scale[g];
        to[g].bias[row] = -128 * sum[g];
        UNROLL(i, GROUP / 8)
            memcpy(to[g].q[i][row], q + 8 * i, 8);
    }
}

static bool quantize_octets(struct octet *to, size_t row, const float *x, size_t k)
{
    int8_t q[QUANTIZED * GROUP];
    float scale[QUANTIZED];
    int32_t sum[QUANTIZED];
    vf bad = vf_set1(0);
    size_t n = QUANTIZED * GROUP;
    for (; k >= n; k -= n, x += n, to += QUANTIZED) {
        quantize_groups(q, scale, sum, x, QUANTIZED, n, &bad);
        to_octets(to, row, q, scale, sum, QUANTIZED);
    }
    for (; k > 0; k -= n, x += n, to++) {
        n = k < GROUP ? k : GROUP;
        quantize_groups(q, scale, sum, x, 1, n, &bad);
        to_octets(to, row, q, scale, sum, 1);
    }
    return vf_top(bad) == 0;
}

static void rmsnorm(float *y, const float *x, const float *w, size_t n, float eps)
{
    vf s[PER_16], v[PER_16];
    size_t i = 0;
    load_16(s, x, 0);
    for (; i < n; i += 16) {
        load_16(v, x + i, n - i < 16 ? n - i : 16);
        for (size_t j = 0; j < PER_16; j++)
            s[j] = vf_fma(v[j], v[j], s[j]);
    }
    vf r = vf_set1(1 / sqrtf(sum_16(s) / (float)n + eps));
    for (i = 0; i < n; i += WIDTH) {
        vf scaled = vf_mul(load_some(x + i, n - i), r);
        store_some(y + i, vf_mul(scaled, load_some(w + i, n - i)), n - i);
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(y + i, vf_add(load_some(y + i, n - i), load_some(x + i, n - i)), n - i);
}

SIMD vf swiglu_v(vf gate, vf up)
{
    vf e = vf_exp(vf_mul(gate, vf_set1(-1)));
    return vf_mul(vf_div(gate, vf_add(vf_set1(1), e)), up);
}

static void swiglu(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(y + i, swiglu_v(load_some(gate + i, n - i), load_some(up + i, n - i)), n - i);
}

static void rope(float *x, const float *c, const float *s, size_t half)
{
    for (size_t i = 0; i < half; i += WIDTH) {
        size_t n = half - i;
        vf a = load_some(x + i, n), b = load_some(x + half + i, n);
        vf cos = load_some(c + i, n), sin = load_some(s + i, n);
        store_some(x + i, vf_fnma(b, sin, vf_mul(a, cos)), n);
        store_some(x + half + i, vf_fma(a, sin, vf_mul(b, cos)), n);
    }
}

static void to_f16(uint16_t *y, const float *x, size_t n)
{
    size_t i = 0;
    VECTORS(i, n)
    vf_store_f16(y + i, vf_load(x + i));
    if (i < n)
        vf_store_f16_n(y + i, vf_load_n(x + i, n - i), n - i);
}

static bool in_range(const float *x, size_t n, float limit)
{
    vf outside = vf_set1(0), one = vf_set1(1), max = vf_set1(limit);
    for (size_t i = 0; i < n; i += WIDTH)
        outside = vf_select(vf_le(vf_abs(load_some(x + i, n - i)), max), outside, one);
    return vf_top(outside) == 0;
}

/* y[i] = fma(a[i], c, b[i]); y may be a or b; all lanes of c are the same */
SIMD void scale_add(float *y, const float *a, vf c, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(y + i, vf_fma(load_some(a + i, n - i), c, load_some(b + i, n - i)), n - i);
}

static void merge(float *M, float *L, float *A, float m, float l, const float *a, size_t n)
{
    bool below = m <= *M;
    vf c = vf_exp(vf_set1(below ? m - *M : *M - m));
    float lane[WIDTH];
    vf_store(lane, c);
    if (below) {
        *L = fmaf(l, *lane, *L);
        scale_add(A, a, c, A, n);
    } else {
        *L = fmaf(*L, *lane, l);
        scale_add(A, A, c, a, n);
        *M = m;
    }
}

static void divide(float *y, const float *x, float d, size_t n)
{
    vf by = vf_set1(d);
    for (size_t i = 0; i < n; i += WIDTH)
        store_some(y + i, vf_div(load_some(x + i, n - i), by), n - i);
}

static float log_sum_exp(const float *x, size_t n)
{
    vf s[PER_16], top = vf_set1(x[0]), count = vf_count();
    size_t i = 0;
    VECTORS(i, n)
    top = vf_max(vf_load(x + i), top);
    float m = vf_top(top);
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    vf max = vf_set1(m);
    load_16(s, x, 0);
    for (i = 0; i < n; i += 16) {
        vf v[PER_16];
        load_16(v, x + i, n - i < 16 ? n - i : 16);
        for (size_t j = 0; j < PER_16; j++) {
            vf left = vf_set1(n - i < 16 ? (float)(n - i) - (float)(j * WIDTH) : 16);
            vf e = vf_select(vf_lt(count, left), vf_exp(vf_sub(v[j], max)), vf_set1(0));
            s[j] = vf_add(s[j], e);
        }
    }
    return m + math_log(sum_16(s));
}

SIMD void rows_init(struct kernels *k)
{
    k->quantize = quantize;
    k->quantize_octets = quantize_octets;
    k->rmsnorm = rmsnorm;
    k->add = add;
    k->swiglu = swiglu;
    k->rope = rope;
    k->to_f16 = to_f16;
    k->in_range = in_range;
    k->merge = merge;
    k->divide = divide;
    k->log_sum_exp = log_sum_exp;
}

#endif
