/* The vector vocabulary of simd_*.h in AVX2, FMA and F16C: 8 lanes. Every operation is the IEEE
 * one of a lane; loads need no alignment. */
#ifndef KERNELS_OPS_AVX2_H
#define KERNELS_OPS_AVX2_H

#include <immintrin.h>

#include "kernels/dot_form.h"
#include "kernels/kernels.h"
#include "kernels/unroll.h"

#define SIMD static inline __attribute__((always_inline))

enum {
    WIDTH = 8,
    TILES = 1,        /* tiles of a matmul that run together for several rows of x, */
    TOKENS = 6,       /* rows of x that do, */
    PARTS = 2,        /* and vectors of a row of V that do */
    FLOAT_DECODE = 4, /* tiles in flight for one row of x of float weights */
    PACK_PARTS = 2,   /* vectors of packed K or V that run together, */
    PACK_ROWS = 6,    /* and queries that do */
};

typedef __m256 vf;
typedef __m256 vm;

/* All bits of the first n < 8 lanes */
SIMD __m256i first(size_t n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

SIMD vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* n < WIDTH elements, then +0; nothing beyond is read */
SIMD vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, first(n));
}

SIMD void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

SIMD void vf_store_n(float *p, vf x, size_t n)
{
    _mm256_maskstore_ps(p, first(n), x);
}

SIMD vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

SIMD vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t h[8] = {0};
    memcpy(h, p, n * sizeof *h);
    return vf_load_f16(h);
}

SIMD vf vf_load_bf16(const uint16_t *p)
{
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

SIMD void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

SIMD void vf_store_f16_n(uint16_t *p, vf x, size_t n)
{
    uint16_t h[8];
    vf_store_f16(h, x);
    memcpy(p, h, n * sizeof *h);
}

/* Whole numbers in [-128, 127] */
SIMD void vf_store_int8(int8_t *p, vf x)
{
    __m256i i = _mm256_cvtps_epi32(x);
    __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(h, h));
}

SIMD vf vf_load_int8(const int8_t *p)
{
    __m128i q = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

/* Byte j of each of WIDTH groups of 4 */
SIMD vf vf_load_fourth(const int8_t *p, size_t j)
{
    __m256i q = _mm256_loadu_si256((const __m256i *)(const void *)p);
    q = _mm256_sll_epi32(q, _mm_cvtsi32_si128(24 - 8 * (int)j));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(q, 24));
}

/* The lanes of a and b by turns */
SIMD void vf_zip(vf *a, vf *b)
{
    vf low = _mm256_unpacklo_ps(*a, *b), high = _mm256_unpackhi_ps(*a, *b);
    *a = _mm256_permute2f128_ps(low, high, 0x20);
    *b = _mm256_permute2f128_ps(low, high, 0x31);
}

SIMD vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

/* 0, 1, 2 ... */
SIMD vf vf_count(void)
{
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

SIMD vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

SIMD vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

SIMD vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

SIMD vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c */
SIMD vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b */
SIMD vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* a > b ? a : b */
SIMD vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

SIMD vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* |a| with the sign of b */
SIMD vf vf_copysign(vf a, vf b)
{
    return _mm256_or_ps(vf_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), b));
}

SIMD vm vf_lt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

SIMD vm vf_le(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}

/* m ? a : b */
SIMD vf vf_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

/* x < min ? +0 : p * 2^n, for t = ROUND + n */
SIMD vf vf_scale(vf p, vf t, vf x, vf min)
{
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    n = _mm256_add_epi32(_mm256_castps_si256(p), n);
    return _mm256_andnot_ps(vf_lt(x, min), _mm256_castsi256_ps(n));
}

/* Largest lane of values that are not NaN; sum of whole numbers: any order */
SIMD float vf_top(vf a)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

SIMD float vf_total(vf a)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
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

/* ---- integer dots: 8 rows x 4 k of weights against 4 k of one x ---- */

typedef __m256i vx;
typedef __m256i va;
typedef __m256i vt; /* a table of 16 bytes, twice */

SIMD vx vx_load(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

/* Low nibbles, high nibbles */
SIMD void split(__m256i *n, const unsigned char *p)
{
    __m256i pair = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i low = _mm256_set1_epi8(15);
    n[0] = _mm256_and_si256(pair, low);
    n[1] = _mm256_and_si256(_mm256_srli_epi16(pair, 4), low);
}

#ifdef __AVXVNNI__

/* vpdpbusd takes unsigned weights: they are stored plus BIAS, which the sum of x takes back. */
enum {
    BIAS_Q8 = 128,
    BIAS_Q4 = 8,
    HALVES = 0, /* whether q4 sums in int16 */
    INT_TILES = 1,
    INT_TOKENS = 4,
    DIRECT_TOKENS = 4, /* for q8 and q4c as they are */
    INT_PAIR = 1,
    INT_UNROLL = 4,
    FEW_Q8 = ANY,
    FEW_Q4 = 16,
    FEW_Q4C = 16,
    SPREAD_LINES = Q8_LINES /* q8 plus its BIAS */
};

typedef __m256i vw;

SIMD vw vw_spread(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

SIMD vw vw_q8(const unsigned char *p)
{
    return _mm256_xor_si256(vw_spread(p), _mm256_set1_epi8((char)0x80));
}

SIMD void vw_q4(vw *w, const unsigned char *p)
{
    split(w, p);
}

SIMD vt vt_load(const unsigned char *p)
{
    vt t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_xor_si256(t, _mm256_set1_epi8((char)0x80));
}

SIMD void vw_q4c(vw *w, const unsigned char *p, vt table)
{
    split(w, p);
    w[0] = _mm256_shuffle_epi8(table, w[0]);
    w[1] = _mm256_shuffle_epi8(table, w[1]);
}

SIMD va va_zero(void)
{
    return _mm256_setzero_si256();
}

/* Puts weights at p into lines of a spread group; `sum` is what va_store then adds to them. */
SIMD va vw_store(unsigned char *p, vw w, va sum, enum dot_form form)
{
    vw more = _mm256_set1_epi8(form == DOT_Q4 ? BIAS_Q8 - BIAS_Q4 : 0);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_add_epi8(w, more));
    return sum;
}

SIMD void va_store(unsigned char *lines, va sum)
{
    (void)lines, (void)sum;
}

SIMD va va_begin(const int32_t *begin, const unsigned char *lines, enum dot_form form)
{
    (void)lines, (void)form;
    return _mm256_set1_epi32(*begin);
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    (void)form;
    return _mm256_dpbusd_avx_epi32(a, w, x);
}

SIMD vf va_result(va a, enum dot_form form)
{
    (void)form;
    return _mm256_cvtepi32_ps(a);
}

#else

/* Nothing happens here, but the compiler must have `a`: gcc else puts sums off and spills products. */
#define SUM_NOW(a) __asm__ volatile("" : "+v"(a))

/* vpmaddubsw: q4 sums a group in int16 (at most 15 * 127 * 16 on the way, which may wrap, and
 * 240 * 127 = 30480 at its end); q8 multiplies |w| by x with w's sign (at most 2 * 128 * 127 =
 * 32512) and goes to int32 at once. x with w's sign is (x ^ (w < 0)) + (w < 0): where many rows of x
 * meet w, its second part is summed once (x ^ (w < 0) is at least -128: 2 * 128 * 128 is in range). */
enum {
    BIAS_Q8 = 0,
    BIAS_Q4 = 4, /* each of two lanes of a row takes back half */
    HALVES = 1,
    INT_TILES = 1,
    INT_TOKENS = 4,
    DIRECT_TOKENS = 4, /* for q8 and q4c as they are */
    INT_PAIR = 1,
    INT_UNROLL = 4,
    FEW_Q8 = 8,
    FEW_Q4 = ANY,
    FEW_Q4C = 8,
    SPREAD_LINES = 2 * Q8_LINES + 64 /* |w|, w < 0, and of each row the sum of |w| where w < 0 */
};

typedef struct {
    __m256i size, sign;
} vw;

SIMD vw vw_signed(__m256i w)
{
    return (vw){_mm256_abs_epi8(w), w};
}

SIMD vt vt_load(const unsigned char *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}

SIMD vw vw_q8(const unsigned char *p)
{
    return vw_signed(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

SIMD void vw_q4(vw *w, const unsigned char *p)
{
    __m256i n[2];
    split(n, p);
    w[0].size = n[0];
    w[1].size = n[1];
}

SIMD void vw_q4c(vw *w, const unsigned char *p, vt table)
{
    __m256i n[2];
    split(n, p);
    w[0] = vw_signed(_mm256_shuffle_epi8(table, n[0]));
    w[1] = vw_signed(_mm256_shuffle_epi8(table, n[1]));
}

SIMD vw vw_spread(const unsigned char *p)
{
    return (vw){.size = _mm256_loadu_si256((const __m256i *)(const void *)p),
                .sign = _mm256_loadu_si256((const __m256i *)(const void *)(p + Q8_LINES))};
}

SIMD va va_zero(void)
{
    return _mm256_setzero_si256();
}

SIMD va vw_store(unsigned char *p, vw w, va sum, enum dot_form form)
{
    (void)form; /* never q4 */
    __m256i m = _mm256_cmpgt_epi8(_mm256_setzero_si256(), w.sign);
    _mm256_storeu_si256((__m256i *)(void *)(p), w.size);
    _mm256_storeu_si256((__m256i *)(void *)(p + Q8_LINES), m);
    return _mm256_add_epi16(sum,
                            _mm256_maddubs_epi16(_mm256_and_si256(w.size, m), _mm256_set1_epi8(1)));
}

SIMD void va_store(unsigned char *lines, va sum)
{
    _mm256_storeu_si256((__m256i *)(void *)(lines + 2 * Q8_LINES),
                        _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}

SIMD va va_begin(const int32_t *begin, const unsigned char *lines, enum dot_form form)
{
    if (form == DOT_SPREAD)
        return _mm256_loadu_si256((const __m256i *)(const void *)(lines + 2 * Q8_LINES));
    return form == DOT_Q4 ? _mm256_set1_epi32(*begin) : va_zero();
}

SIMD va va_dot(va a, vw w, vx x, enum dot_form form)
{
    if (form == DOT_Q4) {
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(w.size, x));
    } else {
        x = form == DOT_SPREAD ? _mm256_xor_si256(x, w.sign) : _mm256_sign_epi8(x, w.sign);
        __m256i two = _mm256_maddubs_epi16(w.size, x);
        a = _mm256_add_epi32(a, _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
    }
    SUM_NOW(a);
    return a;
}

SIMD vf va_result(va a, enum dot_form form)
{
    if (form == DOT_Q4)
        a = _mm256_madd_epi16(a, _mm256_set1_epi16(1));
    return _mm256_cvtepi32_ps(a);
}

#endif

#endif
