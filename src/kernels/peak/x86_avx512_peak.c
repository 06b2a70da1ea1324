/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq */
/* Peaks of the target avx512: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP_FMA(a, x, y) _mm512_fmadd_ps(x, y, a)
PEAK_LOOP(run_fma, __m512, __m512, _mm512_setzero_ps(), STEP_FMA)

static inline __attribute__((always_inline)) __m512i step_dot(__m512i a, __m512i x, __m512i y)
{
    PEAK_HIDE(x); /* see x86_avx2_peak.c */
    return _mm512_add_epi16(a, _mm512_maddubs_epi16(x, y));
}
PEAK_LOOP(run_dot, __m512i, __m512i, _mm512_setzero_si512(), step_dot)

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
    .ints = {"vpmaddubsw + vpaddw zmm", CHAINS * 64, run_dot},
    .read = run_read,
};
