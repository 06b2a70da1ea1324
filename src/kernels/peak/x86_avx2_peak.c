/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mfma */
/* Peaks of the target avx2: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP_FMA(a, x, y) _mm256_fmadd_ps(x, y, a)
PEAK_LOOP(run_fma, __m256, __m256, _mm256_setzero_ps(), STEP_FMA)

/* 16 int16 sums of two products each, as the q4 kernel adds them up within a group. The operand is
 * hidden in every step, or all chains would share one product. */
static inline __attribute__((always_inline)) __m256i step_dot(__m256i a, __m256i x, __m256i y)
{
    PEAK_HIDE(x);
    return _mm256_add_epi16(a, _mm256_maddubs_epi16(x, y));
}
PEAK_LOOP(run_dot, __m256i, __m256i, _mm256_setzero_si256(), step_dot)

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
    .ints = {"vpmaddubsw + vpaddw ymm", CHAINS * 32, run_dot},
    .read = run_read,
};
