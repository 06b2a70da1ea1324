/* Peaks of the target neon: see peak.h. */
#include <arm_neon.h>

#include "kernels/peak/peak_loop.h"

#define STEP_FMA(a, x, y) vfmaq_f32(a, x, y)
PEAK_LOOP(run_fma, float32x4_t, float32x4_t, vdupq_n_f32(0), STEP_FMA)

#define STEP_Q4(a, x, y) vmlal_s8(a, vget_low_s8(x), vget_low_s8(y))
#define ZERO16 vdupq_n_s8(0)
PEAK_LOOP(run_q4, int16x8_t, int8x16_t, ZERO16, STEP_Q4)

/* The operand is hidden in every step, or all chains would share one product. */
static inline __attribute__((always_inline)) int32x4_t step_q8(int32x4_t a, int8x16_t x,
                                                               int8x16_t y)
{
    PEAK_HIDE(x);
    return vpadalq_s16(a, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
}
PEAK_LOOP(run_q8, int32x4_t, int8x16_t, ZERO16, step_q8)

static void run_read(const void *p, size_t n)
{
    const uint8_t *at = p, *end = at + n;
    uint8x16_t a = vdupq_n_u8(0), b = a, c = a, d = a;
    for (; at < end; at += 64) {
        a = veorq_u8(a, vld1q_u8(at));
        b = veorq_u8(b, vld1q_u8(at + 16));
        c = veorq_u8(c, vld1q_u8(at + 32));
        d = veorq_u8(d, vld1q_u8(at + 48));
    }
    a = veorq_u8(veorq_u8(a, b), veorq_u8(c, d));
    PEAK_HIDE(a);
}

const struct peaks arm_neon_peaks = {
    .floats = {"fmla", CHAINS * 4, run_fma},
    .ints = {"smull + sadalp", CHAINS * 8, run_q8},
    .q4 = {"smlal", CHAINS * 8, run_q4},
    .read = run_read,
};
