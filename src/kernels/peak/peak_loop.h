/* The loop of every peak: CHAINS independent accumulators, each stepped once a round, so that only
 * the multipliers limit. A target defines the step, as a macro or an inline function of (a, x, y).
 */
#ifndef PEAK_PEAK_LOOP_H
#define PEAK_PEAK_LOOP_H

#include "kernels/peak/peak.h"

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
#define PEAK_EACH _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) /* all in registers */
#define PEAK_LOOP(name, acc, operand, zero, step) \
    static void name(uint64_t rounds)             \
    {                                             \
        acc a[CHAINS];                            \
        operand x = zero, y = zero;               \
        PEAK_HIDE(y);                             \
        PEAK_EACH                                 \
        {                                         \
            a[i] = (acc)zero;                     \
            PEAK_HIDE(a[i]);                      \
        }                                         \
        for (uint64_t r = 0; r < rounds; r++) {   \
            PEAK_HIDE(x);                         \
            PEAK_EACH a[i] = step(a[i], x, y);    \
        }                                         \
        PEAK_EACH PEAK_HIDE(a[i]);                \
    }

#endif
