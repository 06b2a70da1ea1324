/* cflags: -fno-tree-vectorize -funswitch-loops -march=armv8.2-a+dotprod */
/* The peak of the target dotprod: see peak.h. */
#include <arm_neon.h>

#include "kernels/peak/peak_loop.h"

#define STEP(a, x, y) vdotq_s32(a, x, y)
#define ZERO8 vdupq_n_s8(0)
PEAK_LOOP(run, int32x4_t, int8x16_t, ZERO8, STEP)

const struct peaks arm_dotprod_peaks = {.ints = {"sdot", CHAINS * 16, run}};
