/* cflags: -fno-tree-vectorize -funswitch-loops -mavx2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni */
/* The peak of the target avx512vnni: see peak.h. */
#include <immintrin.h>

#include "kernels/peak/peak_loop.h"

#define STEP(a, x, y) _mm512_dpbusd_epi32(a, x, y)
PEAK_LOOP(run, __m512i, __m512i, _mm512_setzero_si512(), STEP)

const struct peaks x86_avx512vnni_peaks = {.ints = {"vpdpbusd zmm", CHAINS * 64, run}};
