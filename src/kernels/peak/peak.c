/* Which peak belongs to which processor: see peak.h. */
#include "kernels/peak/peak.h"

#include "base/cpu.h"

/* Narrow to wide. */
static const struct peak *const peaks[] = {
#if defined(__x86_64__) && !defined(REF_ONLY)
    &x86_avx2_fma,
    &x86_avx2_dot,
    &x86_avxvnni_dot,
    &x86_avx512_fma,
    &x86_avx512_dot,
    &x86_avx512vnni_dot,
#endif
#if defined(__aarch64__) && !defined(REF_ONLY)
    &arm_neon_fma,
    &arm_neon_dot,
    &arm_dotprod_dot,
#endif
    NULL,
};

const struct peak *peak_find(unsigned cpu, bool quantized)
{
    const struct peak *best = NULL;
    for (size_t i = 0; peaks[i]; i++)
        if (peaks[i]->quantized == quantized && !(peaks[i]->needs & ~cpu))
            best = peaks[i];
    return best;
}

static void read_plain(const void *p, size_t n)
{
    const uint64_t *at = p;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < n / 8; i += 4)
        a ^= at[i], b ^= at[i + 1], c ^= at[i + 2], d ^= at[i + 3];
    *(volatile uint64_t *)&(uint64_t){0} = a ^ b ^ c ^ d;
}

void peak_read(unsigned cpu, const void *p, size_t n)
{
#if defined(__x86_64__) && !defined(REF_ONLY)
    if (cpu & CPU_AVX512) {
        x86_avx512_read(p, n);
        return;
    }
    if (cpu & CPU_AVX2) {
        x86_avx2_read(p, n);
        return;
    }
#endif
#if defined(__aarch64__) && !defined(REF_ONLY)
    if (cpu & CPU_NEON) {
        arm_neon_read(p, n);
        return;
    }
#endif
    (void)cpu;
    read_plain(p, n);
}
