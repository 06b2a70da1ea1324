/* cflags: -O2 */
/* Elementary functions (math.h). Polynomials are minimax fits made for this file in 40 digits and
 * rounded to f32 one coefficient after the other, lowest power first. Every step is one IEEE
 * operation, so the vector twins in simd_math.h, which repeat exp and tanh step by step, give equal
 * bits. Worst errors (tests/unit/test_math.c holds them): exp 0.9 ulp, log 0.9, tanh 1.4, erf 1.0,
 * sin and cos 0.51 for |x| <= 2^32. */
#include "kernels/math.h"

#include <math.h>

#include "kernels/formats.h" /* f32_bits */
#include "kernels/math_constants.h"

/* exp(x) = 2^n * e^r,  n = rne(x / ln 2),  r = x - n * ln 2 in [-0.347, 0.347]
 * Adding ROUND leaves n in the low bits of t: shifted, they are n in the exponent. */
float math_exp(float x)
{
    float t = fmaf(x, LOG2_E, ROUND);
    float n = t - ROUND;
    float r = fmaf(n, -LN2_HI, x);
    r = fmaf(n, -LN2_LO, r);
    float p = EXP_6;
    p = fmaf(p, r, EXP_5);
    p = fmaf(p, r, EXP_4);
    p = fmaf(p, r, EXP_3);
    p = fmaf(p, r, EXP_2);
    p = fmaf(p, r, 1);
    p = fmaf(p, r, 1);
    float y = f32_of_bits(f32_bits(p) + (f32_bits(t) << 23));
    y = x < EXP_MIN ? 0 : y;
    return x <= EXP_MAX ? y : x + INFINITY; /* a NaN stays one */
}

/* log(x) = e * ln 2 + log(m),  m in [sqrt(1/2), sqrt(2)),  log(1 + f) = f - f^2/2 + f^3 P(f) */
float math_log(float x)
{
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (x > 0x1.fffffep127f)
        return x;
    float bias = 0;
    if (x < 0x1p-126f)
        x *= 0x1p23f, bias = -23;
    uint32_t from_root = f32_bits(x) - f32_bits(ROOT_HALF);
    int exponent = (int)(from_root + (127u << 23)) / (1 << 23) - 127; /* floor, by the bias */
    float e = (float)exponent + bias;
    float f = f32_of_bits((from_root & 0x7fffff) + f32_bits(ROOT_HALF)) - 1;
    float z = f * f;
    float p = LOG_10;
    p = fmaf(p, f, LOG_9);
    p = fmaf(p, f, LOG_8);
    p = fmaf(p, f, LOG_7);
    p = fmaf(p, f, LOG_6);
    p = fmaf(p, f, LOG_5);
    p = fmaf(p, f, LOG_4);
    p = fmaf(p, f, LOG_3);
    p = f * z * p;
    p = fmaf(e, LOG_LN2_LO, p);
    p = fmaf(z, -0.5f, p);
    return fmaf(e, LOG_LN2_HI, f + p);
}

/* e = exp(x), u = 1 + e: log(u) * e / (u - 1), whose errors of rounding u cancel (Kahan) */
float math_softplus(float x)
{
    if (!(x <= 20)) /* a NaN stays one */
        return x;
    float e = math_exp(x), u = 1 + e;
    return u == 1 ? e : math_log(u) * e / (u - 1);
}

/* |x| < 0.625: x + x^3 P(x^2);  else sign(x) * (1 - 2 / (exp(2 |x|) + 1)) */
float math_tanh(float x)
{
    float a = fabsf(x), z = x * x;
    float p = TANH_11;
    p = fmaf(p, z, TANH_9);
    p = fmaf(p, z, TANH_7);
    p = fmaf(p, z, TANH_5);
    p = fmaf(p, z, TANH_3);
    float small = fmaf(x * z, p, x);
    float large = 1 - 2 / (math_exp(a + a) + 1);
    return a < TANH_SMALL ? small : copysignf(large, x);
}

/* |x| < 1: x + x P(x^2);  else sign(x) * (1 - exp(-Q(|x|))), which is 1 from |x| = 4 on */
float math_erf(float x)
{
    float a = fabsf(x), z = x * x;
    if (a < 1) {
        float p = ERF_12;
        p = fmaf(p, z, ERF_10);
        p = fmaf(p, z, ERF_8);
        p = fmaf(p, z, ERF_6);
        p = fmaf(p, z, ERF_4);
        p = fmaf(p, z, ERF_2);
        p = fmaf(p, z, ERF_0);
        return fmaf(x, p, x);
    }
    a = a > 4 ? 4 : a;
    float q = ERFC_7;
    q = fmaf(q, a, ERFC_6);
    q = fmaf(q, a, ERFC_5);
    q = fmaf(q, a, ERFC_4);
    q = fmaf(q, a, ERFC_3);
    q = fmaf(q, a, ERFC_2);
    q = fmaf(q, a, ERFC_1);
    q = fmaf(q, a, ERFC_0);
    return copysignf(1 - math_exp(-q), x);
}

/* x = n * pi/2 + r, in binary64: n * HALF_PI_1 and n * HALF_PI_2 are exact for |x| <= 2^32, so r
 * is good to 2^-60 there. Beyond, and for a NaN, both results are NaN. */
void math_sincos(float x, float *sin, float *cos)
{
    if (!(fabsf(x) <= 0x1p32f)) {
        *sin = *cos = NAN;
        return;
    }
    double t = (double)x * TWO_OVER_PI + ROUND_64;
    double n = t - ROUND_64;
    double r = ((double)x - n * HALF_PI_1) - n * HALF_PI_2;
    r = r - n * HALF_PI_3;
    double z = r * r;
    double s = ((SIN_9 * z + SIN_7) * z + SIN_5) * z + SIN_3;
    double c = ((COS_10 * z + COS_8) * z + COS_6) * z + COS_4;
    s = r + r * z * s;
    c = (1 - z * 0.5) + z * z * c;
    uint64_t bits;
    memcpy(&bits, &t, sizeof bits); /* its last two bits are n mod 4: the quadrant */
    double y = bits & 1 ? c : s, w = bits & 1 ? s : c;
    *sin = (float)(bits & 2 ? -y : y);
    *cos = (float)((bits + 1) & 2 ? -w : w);
}
