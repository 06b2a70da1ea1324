/* Processor features: see cpu.h. Bits are set only where both the processor (cpuid, hwcaps) and the
 * operating system (saved registers) have the feature. */
#include "base/cpu.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Register state that the operating system saves at a switch of threads (XCR0). */
static unsigned saved_state(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_all(unsigned value, unsigned bits)
{
    return (value & bits) == bits;
}

unsigned cpu_detect(void)
{
    unsigned eax, ebx, ecx, edx, bits = 0;
    const unsigned avx = bit_FMA | bit_F16C | bit_OSXSAVE | bit_AVX;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has_all(ecx, avx))
        return 0;
    const unsigned state = saved_state();
    if (!has_all(state, 0x06)) /* xmm, ymm */
        return 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2))
        return 0;
    bits |= CPU_AVX2;
    if (has_all(ebx, avx512) && has_all(state, 0xe6)) { /* and masks, zmm, zmm16 to 31 */
        bits |= CPU_AVX512;
        if (ecx & bit_AVX512VNNI)
            bits |= CPU_AVX512_VNNI;
    }
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 4))
        bits |= CPU_AVX_VNNI;
    return bits;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

unsigned cpu_detect(void)
{
    const unsigned long asimddp = 1ul << 20; /* HWCAP_ASIMDDP */
    const unsigned long i8mm = 1ul << 13;    /* HWCAP2_I8MM */
    if (!(getauxval(AT_HWCAP) & asimddp))
        return CPU_NEON;
    return CPU_NEON | CPU_DOTPROD | (getauxval(AT_HWCAP2) & i8mm ? CPU_I8MM : 0u);
}

#elif defined(__aarch64__)

unsigned cpu_detect(void)
{
    return CPU_NEON;
}

#else

unsigned cpu_detect(void)
{
    return 0;
}

#endif
