/* UNROLL(i, n): for i = 0 .. n - 1, where n is a constant of at most 16 once inlined. All rounds are
 * written out, so that the arrays that they index become registers. */
#ifndef KERNELS_UNROLL_H
#define KERNELS_UNROLL_H

#ifdef __clang__ /* with a count it unrolls too late for registers */
#define UNROLL(i, n) _Pragma("clang loop unroll(full)") for (size_t i = 0; i < (n); i++)
#else
#define UNROLL(i, n) _Pragma("GCC unroll 16") for (size_t i = 0; i < (n); i++)
#endif

#endif
