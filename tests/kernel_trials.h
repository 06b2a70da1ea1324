/* Random trials of every kernel slot of a target against ref.c, shared by test_kernels.c (Check)
 * and prog_kernels.c (plain, for emulators). A trial is a pure function of its number and seed.
 * Every buffer ends at an unmapped page and begins after a canary; K and V of positions that are
 * not visible, and padding, hold NaNs. Failures are printed with slot, seed, shape and index. */
#ifndef TESTS_KERNEL_TRIALS_H
#define TESTS_KERNEL_TRIALS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_levels.h"

/* ---- a trial's world ---- */

enum { N_REGIONS = 24, REGION = 1 << 20, CANARY = 64 };

struct trial {
    struct kernels k, ref;
    const char *slot, *level;
    uint64_t seed, state, hash; /* hash: of all results of ref */
    char *region[N_REGIONS];
    size_t bytes[N_REGIONS], used;
    char shape[160];
    int failures;
};

static uint64_t rnd(struct trial *t)
{
    t->state += 0x9e3779b97f4a7c15; /* splitmix64 */
    uint64_t z = t->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* In [lo, hi] */
static size_t rnd_in(struct trial *t, size_t lo, size_t hi)
{
    return lo + rnd(t) % (hi - lo + 1);
}

/* `bytes` bytes that end where memory ends, filled with NaN patterns. */
static void *take(struct trial *t, size_t bytes)
{
    char *end = t->region[t->used] + REGION;
    if (t->used == N_REGIONS || bytes + CANARY > REGION)
        abort();
    memset(end - bytes - CANARY, 0xff, bytes + CANARY);
    t->bytes[t->used++] = bytes;
    return end - bytes;
}

static void mismatch(struct trial *t, const char *what, size_t i, double got, double want)
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

/* Equal bits; NaNs are alike. */
static void same_floats(struct trial *t, const char *what, const float *got, const float *want,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool both_nan = got[i] != got[i] && want[i] != want[i];
        note(t, want[i] != want[i] ? 0 : f32_bits(want[i]));
        if (!both_nan && f32_bits(got[i]) != f32_bits(want[i])) {
            mismatch(t, what, i, got[i], want[i]);
            return;
        }
    }
}

static void same_bytes(struct trial *t, const char *what, const void *got, const void *want,
                       size_t n)
{
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < n; i++) {
        note(t, b[i]);
        if (a[i] != b[i]) {
            mismatch(t, what, i, a[i], b[i]);
            return;
        }
    }
}

/* ---- numbers ---- */

enum { PLAIN, WIDE, TINY, ZEROS, HUGE_ONES, N_KINDS };

static float rnd_float(struct trial *t, size_t kind)
{
    uint64_t u = rnd(t);
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

static float *take_floats(struct trial *t, size_t n, size_t kind)
{
    float *x = take(t, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_float(t, kind);
    return x;
}

/* Finite f16 or bf16 of any exponent */
static void rnd_halves(struct trial *t, uint16_t *h, size_t n, uint16_t exponent, size_t kind)
{
    for (size_t i = 0; i < n; i++) {
        h[i] = (uint16_t)rnd(t);
        if (kind == PLAIN)
            h[i] = exponent == 0x7c00 ? f16_of_f32(rnd_float(t, kind))
                                      : bf16_of_f32(rnd_float(t, kind));
        if (kind == TINY)
            h[i] &= (uint16_t)~exponent;
        if ((h[i] & exponent) == exponent)
            h[i] ^= 0x0800;
    }
}

/* ---- matmul and get_row ---- */

static void *take_weights(struct trial *t, enum tern_type type, size_t tiles, size_t k)
{
    size_t bytes = tiles * format_tile_bytes(format_find(type), k);
    size_t block = format_find(type)->group_bytes, kind = rnd_in(t, 0, TINY);
    char *w = take(t, bytes);
    if (type == TERN_F32) {
        for (size_t i = 0; i < bytes / 4; i++)
            ((float *)(void *)w)[i] = rnd_float(t, kind);
        return w;
    }
    if (type <= TERN_BF16) {
        rnd_halves(t, (uint16_t *)(void *)w, bytes / 2, type == TERN_F16 ? 0x7c00 : 0x7f80, kind);
        return w;
    }
    size_t extreme = rnd_in(t, 0, 7);
    for (size_t i = 0; i < bytes; i++)
        w[i] = extreme == 0 ? (char)-127 : extreme == 1 ? 127 : extreme == 2 ? -1 : (char)rnd(t);
    for (size_t i = 0; i < bytes; i += block)
        rnd_halves(t, (uint16_t *)(void *)(w + i + block - 32), 16, 0x7c00, kind);
    return w;
}

static void fill_int8(struct trial *t, struct activations *x, int8_t *q, float *scale, int32_t *sum)
{
    size_t extreme = rnd_in(t, 0, 7), kind = rnd_in(t, 0, TINY), groups = (x->k + 31) / 32;
    for (size_t i = 0; i < x->n; i++)
        for (size_t g = 0; g < groups; g++) {
            int32_t total = 0;
            for (size_t c = g * 32; c < g * 32 + 32; c++) {
                int v = extreme == 0 ? -127 : extreme == 1 ? 127 : (int)rnd_in(t, 0, 254) - 127;
                q[i * x->stride + c] = (int8_t)(c < x->k ? v : 0);
                total += c < x->k ? v : 0;
            }
            sum[i * x->group_stride + g] = total;
            scale[i * x->group_stride + g] = rnd_float(t, kind);
        }
}

static void try_matmul(struct trial *t, enum tern_type type)
{
    size_t n = rnd_in(t, 0, 3) ? rnd_in(t, 1, 19) : 1;
    size_t k = rnd_in(t, 0, 1) ? 1 + t->seed % 67 : rnd_in(t, 1, 300);
    size_t tiles = rnd_in(t, 1, 9), tile0 = rnd_in(t, 0, tiles - 1);
    size_t tile1 = rnd_in(t, tile0, tiles), y_stride = tiles * 16 + 16 * rnd_in(t, 0, 1);
    size_t stride = (k + 63) / 64 * 64, group_stride = (stride / 32 + 15) / 16 * 16;
    snprintf(t->shape, sizeof t->shape, "n %zu k %zu tiles %zu..%zu of %zu", n, k, tile0, tile1,
             tiles);
    float *x = take(t, n * stride * 4), *scale = take(t, n * group_stride * 4);
    int8_t *q = take(t, n * stride);
    int32_t *sum = take(t, n * group_stride * 4);
    size_t kind = rnd_in(t, 0, N_KINDS - 1);
    struct activations a = {n, k, stride, group_stride, x, q, scale, sum};
    for (size_t i = 0; i < n * k; i++)
        x[i / k * stride + i % k] = rnd_float(t, kind);
    fill_int8(t, &a, q, scale, sum);
    void *w = take_weights(t, type, tiles, k);
    size_t bytes = n * y_stride * 4;
    float *got = take(t, bytes), *want = take(t, bytes);
    t->k.matmul[type](got, y_stride, w, tile0, tile1, &a);
    t->ref.matmul[type](want, y_stride, w, tile0, tile1, &a);
    same_floats(t, "y", got, want, bytes / 4);
}

static void try_get_row(struct trial *t, enum tern_type type)
{
    size_t k = rnd_in(t, 1, 200), tiles = rnd_in(t, 1, 3), row = rnd_in(t, 0, tiles * 16 - 1);
    snprintf(t->shape, sizeof t->shape, "k %zu row %zu", k, row);
    void *w = take_weights(t, type, tiles, k);
    float *got = take(t, k * 4), *want = take(t, k * 4), *decoded = take(t, k * 4);
    t->k.get_row[type](got, w, k, row);
    t->ref.get_row[type](want, w, k, row);
    format_decode_row(format_find(type), decoded, w, row, k);
    same_floats(t, "y", got, want, k);
    same_floats(t, "decoded", decoded, want, k);
}

static void matmul_f32(struct trial *t)
{
    try_matmul(t, TERN_F32);
}

static void matmul_f16(struct trial *t)
{
    try_matmul(t, TERN_F16);
}

static void matmul_bf16(struct trial *t)
{
    try_matmul(t, TERN_BF16);
}

static void matmul_q8(struct trial *t)
{
    try_matmul(t, TERN_Q8);
}

static void matmul_q4(struct trial *t)
{
    try_matmul(t, TERN_Q4);
}

static void get_row(struct trial *t)
{
    for (int type = 0; type < N_TYPES; type++)
        try_get_row(t, (enum tern_type)type);
}

/* ---- rows ---- */

static size_t rnd_n(struct trial *t)
{
    size_t n = rnd_in(t, 0, 1) ? 1 + t->seed % 67 : rnd_in(t, 1, 300); /* every tail length */
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    return n;
}

static void quantize(struct trial *t)
{
    size_t n = rnd_n(t), up = (n + 31) / 32 * 32;
    float *x = take_floats(t, n, rnd_in(t, 0, N_KINDS - 1));
    if (rnd_in(t, 0, 7) == 0) /* values that meet a half */
        for (size_t i = 0; i < n; i++)
            x[i] = i % 32 ? (float)rnd_in(t, 0, 253) - 126.5f : 127;
    if (rnd_in(t, 0, 7) == 0) /* groups whose largest value is, or just misses, the limit of zero */
        for (size_t i = 0; i < n; i++)
            x[i] = i % 32 ? rnd_float(t, PLAIN) * 0x1p-102f
                          : f32_of_bits(f32_bits(0x1p-100f) - (i / 32 + t->seed) % 2);
    if (rnd_in(t, 0, 7) == 0) /* not finite */
        x[rnd_in(t, 0, n - 1)] = rnd_in(t, 0, 1) ? f32_of_bits(0x7f800000) : f32_of_bits(~0u);
    int8_t *q = take(t, up), *q_ref = take(t, up);
    float *s = take(t, up / 8), *s_ref = take(t, up / 8);
    int32_t *sum = take(t, up / 8), *sum_ref = take(t, up / 8);
    t->k.quantize(q, s, sum, x, n);
    t->ref.quantize(q_ref, s_ref, sum_ref, x, n);
    same_bytes(t, "q", q, q_ref, up);
    same_floats(t, "scale", s, s_ref, up / 32);
    same_bytes(t, "sum", sum, sum_ref, up / 8);
}

static void rmsnorm(struct trial *t)
{
    size_t n = rnd_n(t), kind = rnd_in(t, 0, N_KINDS - 1);
    float *x = take_floats(t, n, kind), *w = take_floats(t, n, PLAIN);
    float *got = take(t, n * 4), *want = take(t, n * 4);
    t->k.rmsnorm(got, x, w, n, 1e-5f);
    t->ref.rmsnorm(want, x, w, n, 1e-5f);
    same_floats(t, "y", got, want, n);
}

static void add(struct trial *t)
{
    size_t n = rnd_n(t);
    float *x = take_floats(t, n, rnd_in(t, 0, N_KINDS - 1));
    float *got = take_floats(t, n, rnd_in(t, 0, N_KINDS - 1)), *want = take(t, n * 4);
    memcpy(want, got, n * 4);
    t->k.add(got, x, n);
    t->ref.add(want, x, n);
    same_floats(t, "y", got, want, n);
}

static void swiglu(struct trial *t)
{
    size_t n = rnd_n(t), in_place = rnd_in(t, 0, 2);
    float *gate = take_floats(t, n, rnd_in(t, 0, N_KINDS - 1)), *up = take_floats(t, n, PLAIN);
    float *got = take(t, n * 4), *want = take(t, n * 4);
    for (size_t i = 0; i < n; i++)
        gate[i] *= rnd_in(t, 0, 1) ? 60.0f : 1.0f;
    t->ref.swiglu(want, gate, up, n);
    if (in_place)
        got = in_place == 1 ? gate : up;
    t->k.swiglu(got, gate, up, n);
    same_floats(t, "y", got, want, n);
}

static void rope_angles(struct trial *t)
{
    size_t n = rnd_n(t);
    float *freq = take(t, n * 4), *c = take(t, n * 4), *s = take(t, n * 4);
    float *c_ref = take(t, n * 4), *s_ref = take(t, n * 4);
    uint64_t shift = rnd_in(t, 32, 63);
    uint32_t position = (uint32_t)(rnd(t) >> shift);
    for (size_t i = 0; i < n; i++)
        freq[i] = (float)(rnd(t) >> 40) * 0x1p-24f;
    t->k.rope_angles(c, s, freq, n, position, 1.25f);
    t->ref.rope_angles(c_ref, s_ref, freq, n, position, 1.25f);
    same_floats(t, "cos", c, c_ref, n);
    same_floats(t, "sin", s, s_ref, n);
}

static void rope(struct trial *t)
{
    size_t half = rnd_n(t), kind = rnd_in(t, 0, N_KINDS - 1);
    float *c = take_floats(t, half, PLAIN), *s = take_floats(t, half, PLAIN);
    float *got = take_floats(t, 2 * half, kind), *want = take(t, 8 * half);
    memcpy(want, got, 8 * half);
    t->k.rope(got, c, s, half);
    t->ref.rope(want, c, s, half);
    same_floats(t, "x", got, want, 2 * half);
}

static void to_f16(struct trial *t)
{
    size_t n = rnd_n(t), kind = rnd_in(t, 0, N_KINDS - 1);
    float *x = take_floats(t, n, kind);
    for (size_t i = 0; i < n; i++)
        x[i] *= kind == HUGE_ONES ? 0x1p-45f : kind == TINY ? 0x1p106f : 1;
    uint16_t *got = take(t, n * 2), *want = take(t, n * 2);
    t->k.to_f16(got, x, n);
    t->ref.to_f16(want, x, n);
    same_bytes(t, "y", got, want, n * 2);
}

static void in_range(struct trial *t)
{
    size_t n = rnd_n(t), at = rnd_in(t, 0, n - 1);
    float *x = take_floats(t, n, PLAIN), limits[] = {2, 1, 0.01f, 0, -1};
    for (size_t i = 0; i < 5; i++) {
        float got = t->k.in_range(x, n, limits[i]), want = t->ref.in_range(x, n, limits[i]);
        same_floats(t, "all", &got, &want, 1);
    }
    x[at] = rnd_in(t, 0, 1) ? f32_of_bits(~0u) : rnd_in(t, 0, 1) ? 65504 : 65505;
    float got = t->k.in_range(x, n, 65504), want = x[at] == 65504;
    same_floats(t, "one", &got, &want, 1);
}

static void divide(struct trial *t)
{
    size_t n = rnd_n(t);
    float *x = take_floats(t, n, rnd_in(t, 0, N_KINDS - 1)), d = rnd_float(t, PLAIN);
    float *got = take(t, n * 4), *want = take(t, n * 4);
    t->k.divide(got, x, d, n);
    t->ref.divide(want, x, d, n);
    same_floats(t, "y", got, want, n);
}

static void log_sum_exp(struct trial *t)
{
    size_t n = rnd_n(t);
    float *x = take_floats(t, n, rnd_in(t, 0, ZEROS)), scale = rnd_in(t, 0, 1) ? 30.0f : 1.0f;
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 1e30f || x[i] < -1e30f ? 0 : x[i] * scale;
    float got = t->k.log_sum_exp(x, n), want = t->ref.log_sum_exp(x, n);
    same_floats(t, "y", &got, &want, 1);
}

/* ---- attention ---- */

/* K or V: only positions lo..hi-1 hold numbers. `at` finds the index of position p, dim d. */
static void *take_cache(struct trial *t, enum tern_cache_type type, size_t dim, size_t lo,
                        size_t hi, bool is_k)
{
    size_t kind = rnd_in(t, 0, 3) ? PLAIN : TINY;
    char *cache = take(t, BLOCK * dim * (type == TERN_CACHE_F32 ? 4 : 2));
    for (size_t p = lo; p < hi; p++)
        for (size_t d = 0; d < dim; d++) {
            size_t i = is_k ? (p / 16 * dim + d) * 16 + p % 16 : p * dim + d;
            if (type == TERN_CACHE_F32)
                ((float *)(void *)cache)[i] = rnd_float(t, kind);
            else
                rnd_halves(t, (uint16_t *)(void *)cache + i, 1, 0x7c00, kind);
        }
    return cache;
}

static void try_attend(struct trial *t, enum tern_cache_type type)
{
    struct attend b = {.n_q = rnd_in(t, 1, 17)};
    b.k_dim = rnd_in(t, 1, 100);
    b.v_dim = rnd_in(t, 0, 1) ? b.k_dim : rnd_in(t, 1, 100);
    b.lo = rnd_in(t, 0, 3) ? rnd_in(t, 0, 255) : 0;
    b.hi = rnd_in(t, 0, 3) ? rnd_in(t, b.lo + 1, 256) : rnd_in(t, 0, 1) ? 256 : b.lo + 1;
    b.q_stride = b.k_dim + rnd_in(t, 0, 20), b.a_stride = b.v_dim + rnd_in(t, 0, 20);
    b.scale = rnd_float(t, rnd_in(t, 0, 7) ? PLAIN : TINY); /* TINY: scores of both zeros */
    b.softcap = rnd_in(t, 0, 2) ? 0 : 3;
    snprintf(t->shape, sizeof t->shape, "n_q %zu k_dim %zu v_dim %zu lo %zu hi %zu cap %g", b.n_q,
             b.k_dim, b.v_dim, b.lo, b.hi, (double)b.softcap);
    size_t n_q = ((b.n_q - 1) * b.q_stride + b.k_dim) * 4;
    size_t n_a = ((b.n_q - 1) * b.a_stride + b.v_dim) * 4;
    float *q = take(t, n_q);
    for (size_t i = 0; i < b.n_q * b.k_dim; i++)
        q[i / b.k_dim * b.q_stride + i % b.k_dim] = rnd_float(t, PLAIN);
    b.q = q;
    b.k = take_cache(t, type, b.k_dim, b.lo, b.hi, true);
    b.v = take_cache(t, type, b.v_dim, b.lo, b.hi, false);
    struct attend want = b;
    b.scores = take(t, b.n_q * BLOCK * 4), want.scores = take(t, b.n_q * BLOCK * 4);
    b.m = take(t, b.n_q * 4), want.m = take(t, b.n_q * 4);
    b.l = take(t, b.n_q * 4), want.l = take(t, b.n_q * 4);
    b.a = take(t, n_a), want.a = take(t, n_a);
    t->k.attend[type](&b);
    t->ref.attend[type](&want);
    same_floats(t, "m", b.m, want.m, b.n_q);
    same_floats(t, "l", b.l, want.l, b.n_q);
    same_floats(t, "a", b.a, want.a, n_a / 4);
}

static void attend_f16(struct trial *t)
{
    try_attend(t, TERN_CACHE_F16);
}

static void attend_f32(struct trial *t)
{
    try_attend(t, TERN_CACHE_F32);
}

static void merge(struct trial *t)
{
    size_t n = rnd_n(t);
    float *a = take_floats(t, n, rnd_in(t, 0, ZEROS)), *got = take_floats(t, n, PLAIN);
    float *want = take(t, n * 4), m = 20 * rnd_float(t, PLAIN), l = rnd_float(t, PLAIN);
    float M[2] = {20 * rnd_float(t, PLAIN)}, L[2] = {rnd_float(t, PLAIN)};
    if (rnd_in(t, 0, 7) == 0)
        m = M[0];
    M[1] = M[0], L[1] = L[0];
    memcpy(want, got, n * 4);
    t->k.merge(&M[0], &L[0], got, m, l, a, n);
    t->ref.merge(&M[1], &L[1], want, m, l, a, n);
    same_floats(t, "M", &M[0], &M[1], 1);
    same_floats(t, "L", &L[0], &L[1], 1);
    same_floats(t, "A", got, want, n);
}

/* ---- the list ---- */

struct slot {
    const char *name;
    void (*run)(struct trial *t);
};

static const struct slot slots[] = {
    {"matmul f32", matmul_f32},
    {"matmul f16", matmul_f16},
    {"matmul bf16", matmul_bf16},
    {"matmul q8", matmul_q8},
    {"matmul q4", matmul_q4},
    {"get_row", get_row},
    {"quantize", quantize},
    {"rmsnorm", rmsnorm},
    {"add", add},
    {"swiglu", swiglu},
    {"rope_angles", rope_angles},
    {"rope", rope},
    {"to_f16", to_f16},
    {"in_range", in_range},
    {"attend f16", attend_f16},
    {"attend f32", attend_f32},
    {"merge", merge},
    {"divide", divide},
    {"log_sum_exp", log_sum_exp},
};

enum { N_SLOTS = sizeof slots / sizeof *slots };

static void trial_open(struct trial *t)
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

static void trial_close(struct trial *t)
{
    for (size_t i = 0; i < N_REGIONS; i++)
        munmap(t->region[i], REGION + (size_t)sysconf(_SC_PAGESIZE));
}

/* Runs `count` trials of one slot at one level; returns the number of failures. */
static int trial_run(struct trial *t, const struct level *level, size_t slot, uint64_t seed,
                     size_t count)
{
    int before = t->failures;
    kernels_fill(&t->k, level->cpu);
    t->level = level->name;
    t->slot = slots[slot].name;
    for (size_t i = 0; i < count; i++) {
        t->seed = seed + i;
        t->state = t->seed * N_SLOTS + slot;
        t->used = 0;
        slots[slot].run(t);
        for (size_t r = 0; r < t->used; r++)
            for (size_t c = 0; c < CANARY; c++)
                if (t->region[r][REGION - t->bytes[r] - CANARY + c] != (char)0xff)
                    mismatch(t, "canary of buffer", r, 0, 0);
    }
    return t->failures - before;
}

#endif
