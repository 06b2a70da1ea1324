/* exp, tanh and erf of a vector: math.c step by step, lane by lane. Included after a vocabulary
 * (ops_*.h). */
#ifndef KERNELS_SIMD_MATH_H
#define KERNELS_SIMD_MATH_H

#include <math.h>

#include "kernels/math_constants.h"

/* p * r + c */
SIMD vf step(vf p, vf r, float c)
{
    return vf_fma(p, r, vf_set1(c));
}

/* x[i] = exp(x[i])   [n]: chains of operations side by side, where each would wait for itself.
 * `down`: no x is above 0, and a NaN is one that arithmetic makes: its low bits are 0. */
SIMD void vf_exps(vf *x, size_t n, bool down)
{
    static const float c[] = {EXP_5, EXP_4, EXP_3, EXP_2, 1, 1};
    vf t[4], r[4], p[4];
    UNROLL(i, n)
        t[i] = vf_fma(x[i], vf_set1(LOG2_E), vf_set1(ROUND));
    UNROLL(i, n)
        r[i] = vf_fnma(vf_sub(t[i], vf_set1(ROUND)), vf_set1(LN2_HI), x[i]);
    UNROLL(i, n)
        r[i] = vf_fnma(vf_sub(t[i], vf_set1(ROUND)), vf_set1(LN2_LO), r[i]);
    UNROLL(i, n)
        p[i] = vf_set1(EXP_6);
    UNROLL(j, 6)
        UNROLL(i, n)
            p[i] = step(p[i], r[i], c[j]);
    UNROLL(i, n) {
        vf y = vf_scale(p[i], t[i], x[i], vf_set1(EXP_MIN));
        x[i] =
            down ? y : vf_select(vf_le(x[i], vf_set1(EXP_MAX)), y, vf_add(x[i], vf_set1(INFINITY)));
    }
}

SIMD vf vf_exp(vf x)
{
    vf_exps(&x, 1, false);
    return x;
}

SIMD vf vf_tanh(vf x)
{
    vf a = vf_abs(x), z = vf_mul(x, x), one = vf_set1(1);
    vf p = step(vf_set1(TANH_11), z, TANH_9);
    p = step(p, z, TANH_7);
    p = step(p, z, TANH_5);
    p = step(p, z, TANH_3);
    vf small = vf_fma(vf_mul(x, z), p, x);
    vf large = vf_div(vf_set1(2), vf_add(vf_exp(vf_add(a, a)), one));
    large = vf_copysign(vf_sub(one, large), x);
    return vf_select(vf_lt(a, vf_set1(TANH_SMALL)), small, large);
}

SIMD vf vf_erf(vf x)
{
    vf a = vf_abs(x), z = vf_mul(x, x), one = vf_set1(1), four = vf_set1(4);
    vf p = step(vf_set1(ERF_12), z, ERF_10);
    p = step(p, z, ERF_8);
    p = step(p, z, ERF_6);
    p = step(p, z, ERF_4);
    p = step(p, z, ERF_2);
    p = step(p, z, ERF_0);
    vf small = vf_fma(x, p, x), in = vf_select(vf_lt(four, a), four, a);
    vf q = step(vf_set1(ERFC_7), in, ERFC_6);
    q = step(q, in, ERFC_5);
    q = step(q, in, ERFC_4);
    q = step(q, in, ERFC_3);
    q = step(q, in, ERFC_2);
    q = step(q, in, ERFC_1);
    q = step(q, in, ERFC_0);
    vf large = vf_sub(one, vf_exp(vf_mul(q, vf_set1(-1))));
    return vf_select(vf_lt(a, one), small, vf_copysign(large, x));
}

#endif
