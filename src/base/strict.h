/* Refuses to compile where the canonical arithmetic (src/kernels/README.md) cannot hold: unsafe
 * float optimisation, excess precision, or a byte order that the weights file does not have.
 * Included by bytes.h and cpu.h, and so by every file that computes. */
#ifndef BASE_STRICT_H
#define BASE_STRICT_H

#include <float.h>
#include <limits.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "tern promises exact bits: compile without -ffast-math, its parts, and -Ofast"
#endif

#if FLT_EVAL_METHOD != 0
#error "tern needs float operations rounded to float (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tern runs on little-endian machines only: its files are mapped and used in place"
#endif

_Static_assert(CHAR_BIT == 8 && sizeof(int) == 4 && sizeof(void *) == 8, "a 64-bit machine");

#endif
