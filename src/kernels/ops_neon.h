/* The vector vocabulary of simd_*.h in AArch64's NEON, and with sdot where the compiler is told so:
 * 4 lanes. Every operation is the IEEE one of a lane; loads need no alignment. */
#ifndef KERNELS_OPS_NEON_H
#define KERNELS_OPS_NEON_H

#include <arm_neon.h>

#include "kernels/dot_form.h"
#include "kernels/kernels.h"
#include "kernels/unroll.h"

#define SIMD static inline __attribute__((always_inline))

enum {
    WIDTH = 4,
    TILES = 1,        /* tiles of a matmul that run together for several rows of x, */
    TOKENS = 4,       /* rows of x that do, */
    PARTS = 4,        /* and vectors of a row of V that do */
    FLOAT_DECODE = 4, /* tiles in flight for one row of x of float weights */
    PACK_PARTS = 4,   /* vectors of packed K or V that run together, */
    PACK_ROWS = 4,    /* and queries that do */
};

typedef float32x4_t vf;
typedef uint32x4_t vm;

SIMD vf vf_load(const float *p)
{
    return vld1q_f32(p);
}

/* n < WIDTH elements, then +0; nothing beyond is read */
SIMD vf vf_load_n(const float *p, size_t n)
{
    float x[4] = {0};
    memcpy(x, p, n * sizeof *x);
    return vld1q_f32(x);
}

SIMD void vf_store(float *p, vf x)
{
    vst1q_f32(p, x);
}

SIMD void vf_store_n(float *p, vf x, size_t n)
{
    float y[4];
    vst1q_f32(y, x);
    memcpy(p, y, n * sizeof *y);
}

SIMD vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

SIMD vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t h[4] = {0};
    memcpy(h, p, n * sizeof *h);
    return vf_load_f16(h);
}

SIMD vf vf_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

SIMD void vf_store_f16(uint16_t *p, vf x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

SIMD void vf_store_f16_n(uint16_t *p, vf x, size_t n)
{
    uint16_t h[4];
    vf_store_f16(h, x);
    memcpy(p, h, n * sizeof *h);
}

/* Whole numbers in [-128, 127] */
SIMD void vf_store_int8(int8_t *p, vf x)
{
    int16x4_t h = vqmovn_s32(vcvtnq_s32_f32(x));
    int8x8_t b = vqmovn_s16(vcombine_s16(h, h));
    int8_t all[8];
    vst1_s8(all, b);
    memcpy(p, all, 4);
}

SIMD vf vf_load_int8(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    int8x8_t q = vreinterpret_s8_s32(vdup_n_s32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(q))));
}

/* Byte j of each of WIDTH groups of 4 */
SIMD vf vf_load_fourth(const int8_t *p, size_t j)
{
    int32x4_t q = vshlq_s32(vreinterpretq_s32_s8(vld1q_s8(p)), vdupq_n_s32(24 - 8 * (int)j));
    return vcvtq_f32_s32(vshrq_n_s32(q, 24));
}

/* The lanes of a and b by turns */
SIMD void vf_zip(vf *a, vf *b)
{
    vf low = vzip1q_f32(*a, *b);
    *b = vzip2q_f32(*a, *b);
    *a = low;
}

SIMD vf vf_set1(float x)
{
    return vdupq_n_f32(x);
}

/* 0, 1, 2 ... */
SIMD vf vf_count(void)
{
    static const float count[4] = {0, 1, 2, 3};
    return vld1q_f32(count);
}

SIMD vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

SIMD vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

SIMD vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

SIMD vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

/* a * b + c */
SIMD vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* c - a * b */
SIMD vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

/* a > b ? a : b */
SIMD vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

SIMD vf vf_abs(vf a)
{
    return vabsq_f32(a);
}

/* |a| with the sign of b */
SIMD vf vf_copysign(vf a, vf b)
{
    return vbslq_f32(vdupq_n_u32(0x80000000), b, a);
}

SIMD vm vf_lt(vf a, vf b)
{
    return vcltq_f32(a, b);
}

SIMD vm vf_le(vf a, vf b)
{
    return vcleq_f32(a, b);
}

/* m ? a : b */
SIMD vf vf_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

/* x < min ? +0 : p * 2^n, for t = ROUND + n */
SIMD vf vf_scale(vf p, vf t, vf x, vf min)
{
    int32x4_t n = vshlq_n_s32(vreinterpretq_s32_f32(t), 23);
    n = vaddq_s32(vreinterpretq_s32_f32(p), n);
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(n), vf_lt(x, min)));
}

/* Largest lane of values that are not NaN; sum of whole numbers: any order */
SIMD float vf_top(vf a)
{
    return vmaxvq_f32(a);
}

SIMD float vf_total(vf a)
{
    return vaddvq_f32(a);
}

/* m[i] = vf_top(v[i]), sum[i] = vf_total(v[i])   for i < n */
SIMD void vf_tops(float *m, const vf *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        m[i] = vf_top(v[i]);
}

SIMD void vf_totals(int32_t *sum, const vf *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = (int32_t)vf_total(v[i]);
}

/* ---- integer dots: 4 rows x 4 k of weights against 4 k of one x, all signed ---- */

enum {
    BIAS_Q8 = 0,
    BIAS_Q4 = 0,
    HALVES = 0,
    INT_TILES = 1,
    INT_TOKENS = 4,
    DIRECT_TOKENS = 4, /* for q8 and q4c as they are */
    INT_PAIR = 1,
    INT_UNROLL = 2,
    FEW_Q8 = ANY,
    FEW_Q4 = ANY,
    FEW_Q4C = 8,
    SPREAD_LINES = Q8_LINES
};

typedef int8x16_t vx;
typedef int8x16_t vw;
typedef int8x16_t vt; /* a table of 16 bytes */

SIMD vx vx_load(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

SIMD vw vw_q8(const unsigned char *p)
{
    return vreinterpretq_s8_u8(vld1q_u8(p));
}

/* Low nibbles, high nibbles */
SIMD void split(uint8x16_t *n, const unsigned char *p)
{
    uint8x16_t pair = vld1q_u8(p);
    n[0] = vandq_u8(pair, vdupq_n_u8(15));
    n[1] = vshrq_n_u8(pair, 4);
}

SIMD void vw_q4(vw *w, const unsigned char *p)
{
    uint8x16_t n[2];
    split(n, p);
    w[0] = vsubq_s8(vreinterpretq_s8_u8(n[0]), vdupq_n_s8(8));
    w[1] = vsubq_s8(vreinterpretq_s8_u8(n[1]), vdupq_n_s8(8));
}

SIMD vt vt_load(const unsigned char *p)
{
    return vw_q8(p);
}

SIMD void vw_q4c(vw *w, const unsigned char *p, vt table)
{
    uint8x16_t n[2];
    split(n, p);
    w[0] = vqtbl1q_s8(table, n[0]);
    w[1] = vqtbl1q_s8(table, n[1]);
}

SIMD vw vw_spread(const unsigned char *p)
{
    return vw_q8(p);
}

#ifdef __ARM_FEATURE_DOTPROD

/* Sums begin with the bits of 1.5 * 2^23 and stay below 2^22, so that they are the bits of that plus
 * the sum: a subtraction makes a float of it. A conversion takes a unit as long as two to four. */
typedef int32x4_t va;

SIMD va va_zero(void)
{
    return vreinterpretq_s32_f32(vdupq_n_f32(0x1.8p23f));
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    (void)form;
    return vdotq_s32(a, w, x);
}

SIMD vf va_result(va a, enum dot_form form)
{
    (void)form;
    return vsubq_f32(vreinterpretq_f32_s32(a), vdupq_n_f32(0x1.8p23f));
}

#else

/* Rows 0 and 1, rows 2 and 3. q4 sums a group in int16, two lanes a row in va_result (at most
 * 8 * 8 * 127 a lane); q8 goes to int32 at once. */
typedef struct {
    int32x4_t low, high;
} va;

SIMD va va_zero(void)
{
    return (va){vdupq_n_s32(0), vdupq_n_s32(0)};
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    if (form == DOT_Q4) {
        int16x8_t low = vreinterpretq_s16_s32(a.low), high = vreinterpretq_s16_s32(a.high);
        low = vmlal_s8(low, vget_low_s8(w), vget_low_s8(x));
        high = vmlal_high_s8(high, w, x);
        return (va){vreinterpretq_s32_s16(low), vreinterpretq_s32_s16(high)};
    }
    a.low = vpadalq_s16(a.low, vmull_s8(vget_low_s8(w), vget_low_s8(x)));
    a.high = vpadalq_s16(a.high, vmull_high_s8(w, x));
    return a;
}

SIMD vf va_result(va a, enum dot_form form)
{
    if (form == DOT_Q4) {
        a.low = vpaddlq_s16(vreinterpretq_s16_s32(a.low));
        a.high = vpaddlq_s16(vreinterpretq_s16_s32(a.high));
    }
    return vcvtq_f32_s32(vpaddq_s32(a.low, a.high));
}

#endif

SIMD va va_begin(const int32_t *begin, const unsigned char *lines, enum dot_form form)
{
    (void)begin, (void)lines, (void)form;
    return va_zero();
}

/* Puts weights at p into lines of a spread group */
SIMD va vw_store(unsigned char *p, vw w, va sum, enum dot_form form)
{
    (void)form;
    vst1q_s8((int8_t *)p, w);
    return sum;
}

SIMD void va_store(unsigned char *lines, va sum)
{
    (void)lines, (void)sum;
}

#endif
