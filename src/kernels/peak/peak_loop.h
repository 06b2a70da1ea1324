/* The loop of every peak: CHAINS independent accumulators, each stepped once a round, so that only
 * the multipliers limit. A target defines the step, as a macro or an inline function of (a, x, y).
 */
#ifndef PEAK_PEAK_LOOP_H
#define PEAK_PEAK_LOOP_H

#include "kernels/peak/peak.h"
#include "kernels/unroll.h"

#if defined(__aarch64__)
enum { CHAINS = 16 };
#else
enum { CHAINS = 12 }; /* AVX2 has 16 registers */
#endif

/* Makes the compiler believe that x has changed, so that nothing is taken out of the loop. */
#if defined(__aarch64__)
#define PEAK_HIDE(x) __asm__ volatile("" : "+w"(x))
#else
#define PEAK_HIDE(x) __asm__ volatile("" : "+v"(x))
#endif

/* void name(uint64_t rounds): a[i] = step(a[i], x, y), the vectors of type acc and operand. */
#define PEAK_LOOP(name, acc, operand, zero, step) \
    static void name(uint64_t rounds)             \
    {                                             \
        acc a[CHAINS];                            \
        operand x = zero, y = zero;               \
        PEAK_HIDE(y);                             \
        UNROLL(i, CHAINS) {                       \
            a[i] = (acc)zero;                     \
            PEAK_HIDE(a[i]);                      \
        }                                         \
        for (uint64_t r = 0; r < rounds; r++) {   \
            PEAK_HIDE(x);                         \
            UNROLL(i, CHAINS)                     \
                a[i] = step(a[i], x, y);          \
        }                                         \
        UNROLL(i, CHAINS)                         \
            PEAK_HIDE(a[i]);                      \
    }

#endif
