/* The floating-point state that exact arithmetic needs: round to nearest even, denormals kept (no
 * FTZ, no DAZ), no traps. Every public call enters it and leaves it again; pool threads live in it.
 * A function that calls these does no arithmetic itself: compilers may move it across the call.
 * fpenv.c alone knows the control registers. */
#ifndef BASE_FPENV_H
#define BASE_FPENV_H

#include <stdint.h>

struct fpenv {
    uint64_t control; /* the caller's MXCSR or FPCR */
};

/* Sets the exact state and returns the caller's. */
struct fpenv fpenv_enter(void);

/* Restores what fpenv_enter returned (on x86 with the exception flags, which share its register).
 */
void fpenv_leave(struct fpenv saved);

#endif
