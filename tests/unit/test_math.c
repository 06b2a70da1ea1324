/* The elementary functions of kernels/math.h against libm in binary64: worst error in units of the
 * last place over a sweep of all exponents, and the values at the edges. */
#include <math.h>

#include "kernels/formats.h"
#include "kernels/math.h"
#include "suite.h"

/* |got - want| in units of the last place of want as f32 */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static float sin_of(float x)
{
    float s, c;
    math_sincos(x, &s, &c);
    return s;
}

static float cos_of(float x)
{
    float s, c;
    math_sincos(x, &s, &c);
    return c;
}

struct function {
    const char *name;
    float (*ours)(float x);
    double (*libm)(double x);
    float lo, hi;
    double worst; /* allowed, in units of the last place */
};

static const struct function functions[] = {
    {"exp", math_exp, exp, -87.33654f, 88.72283f, 0.9},
    {"log", math_log, log, 1e-45f, 3e38f, 0.9},
    {"tanh", math_tanh, tanh, -30, 30, 1.4},
    {"erf", math_erf, erf, -6, 6, 1.0},
    {"sin", sin_of, sin, -0x1p32f, 0x1p32f, 0.51},
    {"cos", cos_of, cos, -0x1p32f, 0x1p32f, 0.51},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

START_TEST(accuracy)
{
    const struct function *f = &functions[_i];
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 4093) {
        float x = f32_of_bits((uint32_t)u);
        if (!(x >= f->lo && x <= f->hi))
            continue;
        double error = ulps(f->ours(x), f->libm(x));
        if (!(error <= f->worst))
            ck_abort_msg("%s(%a) is %a, want %a: %.3f ulp", f->name, x, f->ours(x), f->libm(x),
                         error);
    }
}
END_TEST

/* Angles of long contexts: position * frequency near multiples of pi/2 */
START_TEST(angles_near_zeros)
{
    for (int n = 1; n < 1300000; n += 7) {
        float x = (float)(n * 1.5707963267948966), s, c;
        math_sincos(x, &s, &c);
        ck_assert_double_le(ulps(s, sin(x)), 0.51);
        ck_assert_double_le(ulps(c, cos(x)), 0.51);
    }
}
END_TEST

static void same(float got, float want)
{
    if (f32_bits(got) != f32_bits(want) && !(got != got && want != want))
        ck_abort_msg("got %a, want %a", got, want);
}

START_TEST(edges)
{
    float inf = INFINITY, not_a_number = NAN;
    same(math_exp(0), 1);
    same(math_exp(-0.0f), 1);
    same(math_exp(inf), inf);
    same(math_exp(-inf), 0);
    same(math_exp(not_a_number), not_a_number);
    same(math_exp(-not_a_number), not_a_number);
    same(math_exp(88.7229f), inf);
    same(math_exp(-87.3366f), 0);
    same(math_exp(-103), 0);
    ck_assert(math_exp(-0x1.5d589ep6f) >= 0x1p-126f); /* the last argument whose result is normal */
    same(math_exp(nextafterf(-0x1.5d589ep6f, -100)), 0);
    ck_assert(exp(nextafterf(-0x1.5d589ep6f, -100)) < 0x1p-126);
    ck_assert(math_exp(0x1.62e42ep6f) < inf);
    same(math_exp(nextafterf(0x1.62e42ep6f, 100)), inf);
    same(math_log(0), -inf);
    same(math_log(-0.0f), -inf);
    same(math_log(1), 0);
    same(math_log(inf), inf);
    same(math_log(-1), not_a_number);
    same(math_log(not_a_number), not_a_number);
    same(math_tanh(0), 0);
    ck_assert(math_tanh(-0.0f) == 0); /* of either sign */
    same(math_tanh(inf), 1);
    same(math_tanh(-100), -1);
    same(math_tanh(not_a_number), not_a_number);
    same(math_erf(4), 1);
    same(math_erf(-inf), -1);
    same(math_erf(not_a_number), not_a_number);
    same(sin_of(0), 0);
    same(cos_of(0), 1);
    same(sin_of(inf), not_a_number);
    same(cos_of(0x1.000002p32f), not_a_number);
    same(sin_of(not_a_number), not_a_number);
}
END_TEST

/* exp never falls as x grows: a softmax keeps the order of its scores. */
START_TEST(exp_is_monotonic)
{
    float last = 0;
    for (uint32_t u = 0xc2ae0000; u > 0x80000000; u -= 997) {
        float y = math_exp(f32_of_bits(u));
        ck_assert_float_ge(y, last);
        last = y;
    }
    ck_assert_float_le(last, 1);
}
END_TEST

SUITE("math", LOOP(accuracy, 0, N_FUNCTIONS), TEST(angles_near_zeros), TEST(edges),
      TEST(exp_is_monotonic))
