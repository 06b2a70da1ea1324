/* The vector vocabulary of simd_*.h in AVX-512 (F, BW, VL, DQ), and with VNNI where the compiler
 * is told so: 16 lanes. Every operation is the IEEE one of a lane; loads need no alignment. */
#ifndef KERNELS_OPS_AVX512_H
#define KERNELS_OPS_AVX512_H

#include <immintrin.h>

#include "kernels/dot_form.h"
#include "kernels/kernels.h"
#include "kernels/unroll.h"

#define SIMD static inline __attribute__((always_inline))

enum {
    WIDTH = 16,
    TILES = 2,        /* tiles of a matmul that run together for several rows of x, */
    TOKENS = 8,       /* rows of x that do, */
    PARTS = 2,        /* and vectors of a row of V that do */
    FLOAT_DECODE = 4, /* tiles in flight for one row of x of float weights */
    PACK_PARTS = 4,   /* vectors of packed K or V that run together, */
    PACK_ROWS = 6,    /* and queries that do */
};

typedef __m512 vf;
typedef __mmask16 vm;

SIMD __mmask16 first(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

SIMD vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* n < WIDTH elements, then +0; nothing beyond is read */
SIMD vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}

SIMD void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

SIMD void vf_store_n(float *p, vf x, size_t n)
{
    _mm512_mask_storeu_ps(p, first(n), x);
}

SIMD vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

SIMD vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
}

SIMD vf vf_load_bf16(const uint16_t *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

SIMD void vf_store_f16_n(uint16_t *p, vf x, size_t n)
{
    _mm256_mask_storeu_epi16(p, first(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

SIMD void vf_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Whole numbers in [-128, 127] */
SIMD void vf_store_int8(int8_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

SIMD vf vf_load_int8(const int8_t *p)
{
    __m128i q = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}

/* Byte j of each of WIDTH groups of 4 */
SIMD vf vf_load_fourth(const int8_t *p, size_t j)
{
    __m512i q = _mm512_sll_epi32(_mm512_loadu_si512(p), _mm_cvtsi32_si128(24 - 8 * (int)j));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(q, 24));
}

/* The lanes of a and b by turns */
SIMD void vf_zip(vf *a, vf *b)
{
    __m512i i = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    vf low = _mm512_permutex2var_ps(*a, i, *b);
    *b = _mm512_permutex2var_ps(*a, _mm512_add_epi32(i, _mm512_set1_epi32(8)), *b);
    *a = low;
}

SIMD vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

/* 0, 1, 2 ... */
SIMD vf vf_count(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

SIMD vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

SIMD vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

SIMD vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

SIMD vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c */
SIMD vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* c - a * b */
SIMD vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* a > b ? a : b */
SIMD vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

SIMD vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}

/* |a| with the sign of b */
SIMD vf vf_copysign(vf a, vf b)
{
    __m512i sign = _mm512_set1_epi32((int)0x80000000);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(sign, _mm512_castps_si512(b), _mm512_castps_si512(a), 0xca));
}

SIMD vm vf_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

SIMD vm vf_le(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}

/* m ? a : b */
SIMD vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

/* x < min ? +0 : p * 2^n, for t = ROUND + n */
SIMD vf vf_scale(vf p, vf t, vf x, vf min)
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    __mmask16 keep = _mm512_cmp_ps_mask(x, min, _CMP_NLT_UQ);
    return _mm512_castsi512_ps(_mm512_maskz_add_epi32(keep, _mm512_castps_si512(p), n));
}

/* Largest lane of values that are not NaN; sum of whole numbers: any order */
SIMD float vf_top(vf a)
{
    return _mm512_reduce_max_ps(a);
}

SIMD float vf_total(vf a)
{
    return _mm512_reduce_add_ps(a);
}

/* m[i] = vf_top(v[i]), sum[i] = vf_total(v[i])   for i < n, which is 4 or 1 */
SIMD void vf_tops(float *m, const vf *v, size_t n)
{
    if (n == 1) {
        *m = vf_top(*v);
        return;
    }
    vf a = vf_max(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    vf b = vf_max(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    a = vf_max(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    __m256 c = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    _mm_storeu_ps(m, _mm_max_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
}

SIMD void vf_totals(int32_t *sum, const vf *v, size_t n)
{
    if (n == 1) {
        *sum = (int32_t)vf_total(*v);
        return;
    }
    vf a = vf_add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    vf b = vf_add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    a = vf_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    __m256 c = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 d = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
    _mm_storeu_si128((__m128i *)sum, _mm_cvtps_epi32(d));
}

/* ---- integer dots: 16 rows x 4 k of weights against 4 k of one x ---- */

typedef __m512i vx;
typedef __m512i va;
typedef __m512i vt; /* a table of 16 bytes, four times */

SIMD vx vx_load(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return _mm512_set1_epi32(four);
}

/* Low nibbles, high nibbles */
SIMD void split(__m512i *n, const unsigned char *p)
{
    __m512i pair = _mm512_loadu_si512(p), low = _mm512_set1_epi8(15);
    __asm__("" : "+v"(pair)); /* one load, not one in each of the next two instructions */
    n[0] = _mm512_and_si512(pair, low);
    n[1] = _mm512_and_si512(_mm512_srli_epi16(pair, 4), low);
}

#ifdef __AVX512VNNI__

/* vpdpbusd takes unsigned weights: they are stored plus BIAS, which the sum of x takes back. */
enum {
    BIAS_Q8 = 128,
    BIAS_Q4 = 8,
    HALVES = 0, /* whether q4 sums in int16 */
    INT_TILES = 2,
    INT_TOKENS = 8,
    DIRECT_TOKENS = 8, /* for q8 and q4c as they are */
    INT_PAIR = 1,
    INT_UNROLL = 4,
    FEW_Q8 = 48,
    FEW_Q4 = 16,
    FEW_Q4C = 16,
    SPREAD_LINES = Q8_LINES /* q8 plus its BIAS */
};

typedef __m512i vw;

SIMD vw vw_spread(const unsigned char *p)
{
    return _mm512_loadu_si512(p);
}

SIMD vw vw_q8(const unsigned char *p)
{
    return _mm512_xor_si512(vw_spread(p), _mm512_set1_epi8((char)0x80));
}

SIMD void vw_q4(vw *w, const unsigned char *p)
{
    split(w, p);
}

SIMD vt vt_load(const unsigned char *p)
{
    vt t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm512_xor_si512(t, _mm512_set1_epi8((char)0x80));
}

SIMD void vw_q4c(vw *w, const unsigned char *p, vt table)
{
    split(w, p);
    w[0] = _mm512_shuffle_epi8(table, w[0]);
    w[1] = _mm512_shuffle_epi8(table, w[1]);
}

SIMD va va_zero(void)
{
    return _mm512_setzero_si512();
}

/* Puts weights at p into lines of a spread group; `sum` is what va_store then adds to them. */
SIMD va vw_store(unsigned char *p, vw w, va sum, enum dot_form form)
{
    vw more = _mm512_set1_epi8(form == DOT_Q4 ? BIAS_Q8 - BIAS_Q4 : 0);
    _mm512_storeu_si512(p, _mm512_add_epi8(w, more));
    return sum;
}

SIMD void va_store(unsigned char *lines, va sum)
{
    (void)lines, (void)sum;
}

SIMD va va_begin(const int32_t *begin, const unsigned char *lines, enum dot_form form)
{
    (void)lines, (void)form;
    return _mm512_set1_epi32(*begin);
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    (void)form;
    return _mm512_dpbusd_epi32(a, w, x);
}

SIMD vf va_result(va a, enum dot_form form)
{
    (void)form;
    return _mm512_cvtepi32_ps(a);
}

#else

#define SUM_NOW(a) __asm__ volatile("" : "+v"(a))

/* vpmaddubsw: q4 sums a group in int16 (at most 15 * 127 * 16 on the way, which may wrap, and
 * 240 * 127 = 30480 at its end); q8 multiplies |w| by x with w's sign (at most 2 * 128 * 127 =
 * 32512) and goes to int32 at once. x with w's sign is (x ^ (w < 0)) + (w < 0): where many rows of x
 * meet w, its second part is summed once (x ^ (w < 0) is at least -128: 2 * 128 * 128 is in range). */
enum {
    BIAS_Q8 = 0,
    BIAS_Q4 = 4, /* each of two lanes of a row takes back half */
    HALVES = 1,
    INT_TILES = 2,
    INT_TOKENS = 8,
    DIRECT_TOKENS = 4, /* for q8 and q4c as they are */
    INT_PAIR = 1,
    INT_UNROLL = 2,
    FEW_Q8 = 8,
    FEW_Q4 = ANY,
    FEW_Q4C = 8,
    SPREAD_LINES = 2 * Q8_LINES + 64 /* |w|, w < 0, and of each row the sum of |w| where w < 0 */
};

typedef struct {
    __m512i size, flip;
    __mmask64 negative;
} vw;

SIMD vw vw_signed(__m512i w)
{
    return (vw){.size = _mm512_abs_epi8(w), .negative = _mm512_movepi8_mask(w)};
}

SIMD vt vt_load(const unsigned char *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
}

SIMD vw vw_q8(const unsigned char *p)
{
    return vw_signed(_mm512_loadu_si512(p));
}

SIMD void vw_q4(vw *w, const unsigned char *p)
{
    __m512i n[2];
    split(n, p);
    w[0] = (vw){.size = n[0]};
    w[1] = (vw){.size = n[1]};
}

SIMD void vw_q4c(vw *w, const unsigned char *p, vt table)
{
    __m512i n[2];
    split(n, p);
    w[0] = vw_signed(_mm512_shuffle_epi8(table, n[0]));
    w[1] = vw_signed(_mm512_shuffle_epi8(table, n[1]));
}

SIMD vw vw_spread(const unsigned char *p)
{
    return (vw){.size = _mm512_loadu_si512(p), .flip = _mm512_loadu_si512(p + Q8_LINES)};
}

SIMD va va_zero(void)
{
    return _mm512_setzero_si512();
}

SIMD va vw_store(unsigned char *p, vw w, va sum, enum dot_form form)
{
    (void)form; /* never q4 */
    __m512i m = _mm512_movm_epi8(w.negative);
    _mm512_storeu_si512(p, w.size);
    _mm512_storeu_si512(p + Q8_LINES, m);
    return _mm512_add_epi16(sum,
                            _mm512_maddubs_epi16(_mm512_and_si512(w.size, m), _mm512_set1_epi8(1)));
}

SIMD void va_store(unsigned char *lines, va sum)
{
    _mm512_storeu_si512(lines + 2 * Q8_LINES, _mm512_madd_epi16(sum, _mm512_set1_epi16(1)));
}

SIMD va va_begin(const int32_t *begin, const unsigned char *lines, enum dot_form form)
{
    if (form == DOT_SPREAD)
        return _mm512_loadu_si512(lines + 2 * Q8_LINES);
    return form == DOT_Q4 ? _mm512_set1_epi32(*begin) : va_zero();
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    if (form == DOT_Q4) {
        a = _mm512_add_epi16(a, _mm512_maddubs_epi16(w.size, x));
    } else {
        if (form == DOT_SPREAD)
            x = _mm512_xor_si512(x, w.flip);
        else
            x = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
        __m512i two = _mm512_maddubs_epi16(w.size, x);
        a = _mm512_add_epi32(a, _mm512_madd_epi16(two, _mm512_set1_epi16(1)));
    }
    SUM_NOW(a);
    return a;
}

SIMD vf va_result(va a, enum dot_form form)
{
    if (form == DOT_Q4)
        a = _mm512_madd_epi16(a, _mm512_set1_epi16(1));
    return _mm512_cvtepi32_ps(a);
}

#endif

#endif
