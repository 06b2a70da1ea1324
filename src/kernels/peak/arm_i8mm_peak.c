/* cflags: -fno-tree-vectorize -funswitch-loops -march=armv8.2-a+i8mm */
/* The peak of the target i8mm: see peak.h. */
#include <arm_neon.h>

#include "kernels/peak/peak_loop.h"

#define STEP(a, x, y) vmmlaq_s32(a, x, y)
#define ZERO8 vdupq_n_s8(0)
PEAK_LOOP(run, int32x4_t, int8x16_t, ZERO8, STEP)

const struct peaks arm_i8mm_peaks = {.ints = {"smmla", CHAINS * 32, run}};
