/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mfma */
/* Peaks of the target avx2: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP_FMA(a, x, y) _mm256_fmadd_ps(x, y, a)
PEAK_LOOP(run_fma, __m256, __m256, _mm256_setzero_ps(), STEP_FMA)

/* 16 int16 sums of two products each, as the q4 kernel adds them up within a group. The operand is
 * hidden in every step, or all chains would share one product. */
static inline __attribute__((always_inline)) __m256i step_q4(__m256i a, __m256i x, __m256i y)
{
    PEAK_HIDE(x);
    return _mm256_add_epi16(a, _mm256_maddubs_epi16(x, y));
}
PEAK_LOOP(run_q4, __m256i, __m256i, _mm256_setzero_si256(), step_q4)

/* 8 int32 sums of four products each, of weights and a sign apart, as the q8 kernel adds them up */
static inline __attribute__((always_inline)) __m256i step_q8(__m256i a, __m256i x, __m256i y)
{
    PEAK_HIDE(x);
    __m256i two = _mm256_maddubs_epi16(y, _mm256_xor_si256(x, y));
    return _mm256_add_epi32(a, _mm256_madd_epi16(two, y));
}
PEAK_LOOP(run_q8, __m256i, __m256i, _mm256_setzero_si256(), step_q8)

static void run_read(const void *p, size_t n)
{
    const char *at = p, *end = at + n;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (; at < end; at += 128) {
        a = _mm256_xor_si256(a, _mm256_load_si256((const __m256i *)(const void *)at));
        b = _mm256_xor_si256(b, _mm256_load_si256((const __m256i *)(const void *)(at + 32)));
        c = _mm256_xor_si256(c, _mm256_load_si256((const __m256i *)(const void *)(at + 64)));
        d = _mm256_xor_si256(d, _mm256_load_si256((const __m256i *)(const void *)(at + 96)));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    PEAK_HIDE(a);
}

const struct peaks x86_avx2_peaks = {
    .floats = {"vfmadd ymm", CHAINS * 8, run_fma},
    .ints = {"vpxor + vpmaddubsw + vpmaddwd + vpaddd ymm", CHAINS * 32, run_q8},
    .q4 = {"vpmaddubsw + vpaddw ymm", CHAINS * 32, run_q4},
    .read = run_read,
};
