/* Floating-point state: see fpenv.h. */
#include "base/fpenv.h"

#include "base/strict.h"

#if defined(__x86_64__) && !defined(FPENV_PORTABLE)
#include <xmmintrin.h>

struct fpenv fpenv_enter(void)
{
    struct fpenv saved = {_mm_getcsr()};
    _mm_setcsr(0x1f80); /* nearest even, no FTZ, no DAZ, all exceptions masked, no flags */
    return saved;
}

void fpenv_leave(struct fpenv saved)
{
    _mm_setcsr((unsigned)saved.control);
}

#elif defined(__aarch64__) && !defined(FPENV_PORTABLE)

/* FPSR holds exception flags only; nothing reads them here, and FPCR decides the results. */
struct fpenv fpenv_enter(void)
{
    struct fpenv saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved.control)::"memory");
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0) : "memory");
    return saved;
}

void fpenv_leave(struct fpenv saved)
{
    __asm__ volatile("msr fpcr, %0" ::"r"(saved.control) : "memory");
}

#else
#include <fenv.h>

/* Only the rounding mode: C has no word for flush-to-zero, and processors start without it. */
struct fpenv fpenv_enter(void)
{
    struct fpenv saved = {(uint64_t)fegetround()};
    fesetround(FE_TONEAREST);
    return saved;
}

void fpenv_leave(struct fpenv saved)
{
    fesetround((int)saved.control);
}

#endif
