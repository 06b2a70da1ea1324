/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mavxvnni */
/* The peak of the target avx2vnni: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP(a, x, y) _mm256_dpbusd_avx_epi32(a, x, y)
PEAK_LOOP(run, __m256i, __m256i, _mm256_setzero_si256(), STEP)

const struct peaks x86_avxvnni_peaks = {.ints = {"vpdpbusd ymm", CHAINS * 32, run}};
