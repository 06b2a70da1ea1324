/* Processor features: see cpu.h. Bits are set only where both the processor (cpuid, hwcaps) and the
 * operating system (saved registers) have the feature. */
#include "base/cpu.h"

#include <stdbool.h>
#include <string.h>

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
    return CPU_NEON | (getauxval(AT_HWCAP) & asimddp ? CPU_DOTPROD : 0u);
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

/* Targets by name: the bit that a machine must have, and all bits that the target may use. */
static const struct target {
    const char *name;
    unsigned must, may;
} targets[] = {
    {"plain", 0, 0}, /* as ref; the graph is model/plain.c */
    {"ref", 0, 0},
    {"avx2", CPU_AVX2, CPU_AVX2 | CPU_AVX_VNNI},
    {"avx512", CPU_AVX512, CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI},
    {"neon", CPU_NEON, CPU_NEON | CPU_DOTPROD},
};

enum tern_status cpu_parse(const char *name, unsigned *bits, struct tern_error *e)
{
    const unsigned have = cpu_detect();
    char can[64] = "";

    if (!name) {
        *bits = have;
        return TERN_OK;
    }
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const struct target *t = &targets[i];
        if ((have & t->must) != t->must)
            continue;
        if (!strcmp(name, t->name)) {
            *bits = have & t->may;
            return TERN_OK;
        }
        strncat(can, i ? ", " : "", sizeof can - strlen(can) - 1);
        strncat(can, t->name, sizeof can - strlen(can) - 1);
    }
    return error_set(e, TERN_USAGE, "this machine cannot run the cpu target '%s'; it can run: %s",
                     name, can);
}
