/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq */
/* Peaks of the target avx512: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP_FMA(a, x, y) _mm512_fmadd_ps(x, y, a)
PEAK_LOOP(run_fma, __m512, __m512, _mm512_setzero_ps(), STEP_FMA)

static inline __attribute__((always_inline)) __m512i step_q4(__m512i a, __m512i x, __m512i y)
{
    PEAK_HIDE(x); /* see x86_avx2_peak.c */
    return _mm512_add_epi16(a, _mm512_maddubs_epi16(x, y));
}
PEAK_LOOP(run_q4, __m512i, __m512i, _mm512_setzero_si512(), step_q4)

/* 16 int32 sums of four products each, of weights and a sign apart, as the q8 kernel adds them up */
static inline __attribute__((always_inline)) __m512i step_q8(__m512i a, __m512i x, __m512i y)
{
    PEAK_HIDE(x);
    __m512i two = _mm512_maddubs_epi16(y, _mm512_xor_si512(x, y));
    return _mm512_add_epi32(a, _mm512_madd_epi16(two, y));
}
PEAK_LOOP(run_q8, __m512i, __m512i, _mm512_setzero_si512(), step_q8)

static void run_read(const void *p, size_t n)
{
    const char *at = p, *end = at + n;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (; at < end; at += 256) {
        a = _mm512_xor_si512(a, _mm512_load_si512(at));
        b = _mm512_xor_si512(b, _mm512_load_si512(at + 64));
        c = _mm512_xor_si512(c, _mm512_load_si512(at + 128));
        d = _mm512_xor_si512(d, _mm512_load_si512(at + 192));
    }
    a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
    PEAK_HIDE(a);
}

const struct peaks x86_avx512_peaks = {
    .floats = {"vfmadd zmm", CHAINS * 16, run_fma},
    .ints = {"vpxord + vpmaddubsw + vpmaddwd + vpaddd zmm", CHAINS * 64, run_q8},
    .q4 = {"vpmaddubsw + vpaddw zmm", CHAINS * 64, run_q4},
    .read = run_read,
};
