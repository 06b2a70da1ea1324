/* The world of a trial: see trial.h. */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void trial_open(struct trial *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < N_REGIONS; i++) {
        t->region[i] =
            mmap(NULL, REGION + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (t->region[i] == MAP_FAILED || mprotect(t->region[i] + REGION, page, PROT_NONE))
            abort();
    }
    kernels_fill(&t->ref, 0);
}

void trial_close(struct trial *t)
{
    for (size_t i = 0; i < N_REGIONS; i++)
        munmap(t->region[i], REGION + (size_t)sysconf(_SC_PAGESIZE));
}

uint64_t trial_rnd(struct trial *t)
{
    t->state += 0x9e3779b97f4a7c15; /* splitmix64 */
    uint64_t z = t->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

size_t trial_in(struct trial *t, size_t lo, size_t hi)
{
    return lo + trial_rnd(t) % (hi - lo + 1);
}

void *trial_take(struct trial *t, size_t bytes)
{
    char *end = t->region[t->used] + REGION;
    if (t->used == N_REGIONS || bytes + CANARY > REGION)
        abort();
    memset(end - bytes - CANARY, 0xff, bytes + CANARY);
    t->bytes[t->used++] = bytes;
    return end - bytes;
}

void trial_mismatch(struct trial *t, const char *what, size_t i, double got, double want)
{
    t->failures++;
    if (t->failures < 20)
        fprintf(stderr, "%s, %s: seed %llu: %s: %s [%zu]: got %a, want %a\n", t->level, t->slot,
                (unsigned long long)t->seed, t->shape, what, i, got, want);
}

static void note(struct trial *t, uint64_t v)
{
    t->hash = (t->hash ^ v) * 0x100000001b3;
}

void trial_same_floats(struct trial *t, const char *what, const float *got, const float *want,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool both_nan = got[i] != got[i] && want[i] != want[i];
        note(t, want[i] != want[i] ? 0 : f32_bits(want[i]));
        if (!both_nan && f32_bits(got[i]) != f32_bits(want[i])) {
            trial_mismatch(t, what, i, got[i], want[i]);
            return;
        }
    }
}

void trial_same_bytes(struct trial *t, const char *what, const void *got, const void *want,
                      size_t n)
{
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < n; i++) {
        note(t, b[i]);
        if (a[i] != b[i]) {
            trial_mismatch(t, what, i, a[i], b[i]);
            return;
        }
    }
}

void trial_check_canaries(struct trial *t)
{
    for (size_t r = 0; r < t->used; r++)
        for (size_t c = 0; c < CANARY; c++)
            if (t->region[r][REGION - t->bytes[r] - CANARY + c] != (char)0xff)
                trial_mismatch(t, "canary of buffer", r, 0, 0);
}

/* ---- numbers ---- */

float trial_float(struct trial *t, size_t kind)
{
    uint64_t u = trial_rnd(t);
    float plain = (float)((int32_t)(uint32_t)u >> 4) * 0x1p-26f; /* [-2, 2) */
    uint32_t bits = (uint32_t)(u >> 32);
    if (kind == WIDE)
        return (bits & 0x7f800000) == 0x7f800000 ? plain : f32_of_bits(bits);
    if (kind == TINY)
        return f32_of_bits(bits & 0x80ffffff);
    if (kind == ZEROS)
        return bits % 4 ? f32_of_bits(bits & 0x80000000) : plain;
    if (kind == HUGE_ONES)
        return plain * (bits % 8 ? 0x1p60f : 0x1p126f);
    return plain;
}

float *trial_floats(struct trial *t, size_t n, size_t kind)
{
    float *x = trial_take(t, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = trial_float(t, kind);
    return x;
}

void trial_halves(struct trial *t, uint16_t *h, size_t n, uint16_t exponent, size_t kind)
{
    for (size_t i = 0; i < n; i++) {
        h[i] = (uint16_t)trial_rnd(t);
        if (kind == PLAIN)
            h[i] = exponent == 0x7c00 ? f16_of_f32(trial_float(t, kind))
                                      : bf16_of_f32(trial_float(t, kind));
        if (kind == TINY)
            h[i] &= (uint16_t)~exponent;
        if ((h[i] & exponent) == exponent)
            h[i] ^= 0x0800;
    }
}

size_t trial_length(struct trial *t)
{
    size_t n = trial_in(t, 0, 1) ? 1 + t->seed % 67 : trial_in(t, 1, 300); /* every tail length */
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    return n;
}
