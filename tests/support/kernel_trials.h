/* Random trials of every kernel slot of a target against ref.c, shared by test_kernels.c (Check)
 * and prog_kernels.c (plain, for emulators). A trial is a pure function of its number and seed.
 * Every buffer ends at an unmapped page and begins after a canary; K and V of positions that are
 * not visible, and padding, hold NaNs. Failures are printed with slot, seed, shape and index. */
#ifndef TESTS_KERNEL_TRIALS_H
#define TESTS_KERNEL_TRIALS_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_levels.h"

/* ---- a trial's world ---- */

enum { N_REGIONS = 48, REGION = 1 << 20, CANARY = 64 };

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
    const struct format *f = format_find(type);
    size_t tile = format_tile_bytes(f, k), bytes = tiles * tile;
    size_t head = f->head_bytes, block = f->group_bytes, kind = rnd_in(t, 0, TINY);
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
    for (size_t i = 0; i < bytes; i += tile) /* q4c: any table, of any bytes */
        for (size_t j = i + head; j < i + tile; j += block)
            rnd_halves(t, (uint16_t *)(void *)(w + j + block - 32), 16, 0x7c00, kind);
    return w;
}

/* Quantized activations in the form that n wants; what rows beyond n hold stays NaN. */
static void take_ints(struct trial *t, struct activations *x)
{
    size_t extreme = rnd_in(t, 0, 7), kind = rnd_in(t, 0, TINY), groups = (x->k + 31) / 32;
    size_t padded = (groups + 15) / 16 * 16;
    int8_t *q = take(t, (groups * 32 + 63) / 64 * 64);
    float *scale = take(t, padded * 4);
    int32_t *sum = take(t, padded * 4);
    struct octet *octets = take(t, (x->n + 7) / 8 * groups * sizeof *octets);
    x->q = q, x->scale = scale, x->sum = sum, x->octets = octets;
    for (size_t i = 0; i < x->n; i++)
        for (size_t g = 0; g < groups; g++) {
            struct octet *o = &octets[octet_at(i, g, x->k)];
            int32_t total = 0;
            for (size_t c = 0; c < 32; c++) {
                int v = extreme == 0 ? -127 : extreme == 1 ? 127 : (int)rnd_in(t, 0, 254) - 127;
                v = g * 32 + c < x->k ? v : 0;
                q[g * 32 + c] = o->q[c / 4][i % 8][c % 4] = (int8_t)v;
                total += v;
            }
            sum[g] = o->sum[i % 8] = total;
            scale[g] = o->scale[i % 8] = rnd_float(t, kind);
        }
}

static void try_matmul(struct trial *t, enum tern_type type)
{
    size_t n = rnd_in(t, 0, 3) ? rnd_in(t, 1, 19) : 1;
    size_t k = rnd_in(t, 0, 1) ? 1 + t->seed % 67 : rnd_in(t, 1, 300);
    if (rnd_in(t, 0, 7) == 0) /* more than q4c makes q8 of at a time */
        k += 500;
    size_t tiles = rnd_in(t, 1, 9), tile0 = rnd_in(t, 0, tiles - 1);
    size_t tile1 = rnd_in(t, tile0, tiles), y_stride = tiles * 16 + 16 * rnd_in(t, 0, 1);
    size_t stride = (k + 15) / 16 * 16;
    snprintf(t->shape, sizeof t->shape, "n %zu k %zu tiles %zu..%zu of %zu", n, k, tile0, tile1,
             tiles);
    float *x = take(t, n * stride * 4);
    size_t kind = rnd_in(t, 0, N_KINDS - 1);
    struct activations a = {.n = n, .k = k, .stride = stride, .x = x};
    for (size_t i = 0; i < n * k; i++)
        x[i / k * stride + i % k] = rnd_float(t, kind);
    take_ints(t, &a);
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

static void matmul_q4c(struct trial *t)
{
    try_matmul(t, TERN_Q4C);
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
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= fabsf(x[i]) <= FLT_MAX;
    if (t->k.quantize(q, s, sum, x, n) != finite ||
        t->ref.quantize(q_ref, s_ref, sum_ref, x, n) != finite)
        mismatch(t, "finite", 0, !finite, finite);
    same_bytes(t, "q", q, q_ref, up);
    same_floats(t, "scale", s, s_ref, up / 32);
    same_bytes(t, "sum", sum, sum_ref, up / 8);
    size_t bytes = up / 32 * sizeof(struct octet), row = rnd_in(t, 0, 7);
    struct octet *o = take(t, bytes), *o_ref = take(t, bytes);
    if (t->k.quantize_octets(o, row, x, n) != finite ||
        t->ref.quantize_octets(o_ref, row, x, n) != finite)
        mismatch(t, "finite octets", 0, !finite, finite);
    same_bytes(t, "octets", o, o_ref, bytes);
    for (size_t i = 0; i < up; i++)
        if (q_ref[i] != o_ref[i / 32].q[i % 32 / 4][row][i % 4])
            mismatch(t, "octet", i, o_ref[i / 32].q[i % 32 / 4][row][i % 4], q_ref[i]);
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

static void layernorm(struct trial *t)
{
    size_t n = rnd_in(t, 1, 300), kind = rnd_in(t, 0, 1) ? PLAIN : TINY;
    const float *x = take_floats(t, n, kind), *w = take_floats(t, n, PLAIN);
    const float *b = rnd(t) % 2 ? take_floats(t, n, PLAIN) : NULL;
    float *want = take(t, n * 4), *got = take(t, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    t->ref.layernorm(want, x, w, b, n, 1e-5f);
    t->k.layernorm(got, x, w, b, n, 1e-5f);
    same_floats(t, "y", got, want, n);
}

static void activate(struct trial *t)
{
    size_t n = rnd_in(t, 1, 100), kind = rnd_in(t, 0, N_ACTIVATIONS - 1);
    const float *gate = take_floats(t, n, rnd_in(t, PLAIN, ZEROS));
    const float *up = rnd(t) % 4 || kind == ACT_SWIGLU_OAI ? take_floats(t, n, PLAIN) : NULL;
    float *want = take(t, n * 4), *got = take(t, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu, kind %zu", n, kind);
    t->ref.activate(want, gate, up, n, (enum activation)kind, 0.5f);
    t->k.activate(got, gate, up, n, (enum activation)kind, 0.5f);
    same_floats(t, "y", got, want, n);
}

/* scale, softcap and clamp, one after another */
static void in_place(struct trial *t)
{
    size_t n = rnd_in(t, 1, 100);
    float *want = take_floats(t, n, rnd_in(t, PLAIN, ZEROS)), *got = take(t, n * 4);
    const float *other = take_floats(t, n, PLAIN);
    memcpy(got, want, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    t->ref.add_scaled(want, other, 1.3f, n), t->k.add_scaled(got, other, 1.3f, n);
    t->ref.scale(want, 3.7f, n), t->ref.softcap(want, 5, n), t->ref.clamp(want, 4, n);
    t->k.scale(got, 3.7f, n), t->k.softcap(got, 5, n), t->k.clamp(got, 4, n);
    same_floats(t, "x", got, want, n);
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

/* One value of K or V: number i of the block, or for q8 what its integer and scale are */
static void put_value(struct trial *t, enum tern_cache_type type, char *cache, size_t i,
                      size_t kind)
{
    if (type == TERN_CACHE_F32)
        ((float *)(void *)cache)[i] = rnd_float(t, kind);
    else
        rnd_halves(t, (uint16_t *)(void *)cache + i, 1, 0x7c00, kind);
}

/* Position p of K or V of a q8 cache, padding of the dims included */
static void put_q8(struct trial *t, char *cache, size_t dim, size_t p, bool is_k, size_t kind)
{
    size_t groups = (dim + 31) / 32, extreme = rnd_in(t, 0, 3);
    for (size_t d = 0; d < groups * 32; d++) {
        size_t tile = (p / 16 * groups + d / 32) * 544;
        size_t at = is_k ? tile + d % 32 / 4 * 64 + p % 16 * 4 + d % 4 : p * groups * 32 + d;
        cache[at] = (char)(d >= dim       ? 0
                           : extreme == 0 ? (rnd_in(t, 0, 1) ? 127 : -127)
                                          : (int)rnd_in(t, 0, 254) - 127);
        at = is_k ? tile + 512 + p % 16 * 2 : (BLOCK * 16 * groups + d / 32 * BLOCK + p) * 2;
        if (d % 32 == 0)
            rnd_halves(t, (uint16_t *)(void *)(cache + at), 1, 0x7c00, kind);
    }
}

/* K or V: only positions lo..hi-1 hold numbers. */
static void *take_cache(struct trial *t, enum tern_cache_type type, size_t dim, size_t lo,
                        size_t hi, bool is_k)
{
    size_t kind = rnd_in(t, 0, 3) ? PLAIN : TINY;
    char *cache = take(t, attend_bytes(type, dim));
    for (size_t p = lo; p < hi; p++)
        if (type == TERN_CACHE_Q8)
            put_q8(t, cache, dim, p, is_k, kind);
        else
            for (size_t d = 0; d < dim; d++)
                put_value(t, type, cache, is_k ? (p / 16 * dim + d) * 16 + p % 16 : p * dim + d,
                          kind);
    return cache;
}

/* What the queries see: the same, or ascending as the rows of a prompt do, quickly or slowly */
static struct span *take_spans(struct trial *t, size_t n, struct span *all)
{
    struct span *see = take(t, n * sizeof *see);
    size_t lo = rnd_in(t, 0, 3) ? rnd_in(t, 0, 255) : 0;
    size_t hi = rnd_in(t, 0, 3) ? rnd_in(t, lo + 1, 256) : rnd_in(t, 0, 1) ? 256 : lo + 1;
    bool window = rnd_in(t, 0, 2) == 0, causal = rnd_in(t, 0, 1);
    size_t rows = rnd_in(t, 1, 4), pace = rnd_in(t, 0, 3) ? 1 : 20;
    for (size_t g = 0; g < n; g++) {
        size_t a = window ? lo + g / rows * pace : lo, b = causal ? hi + g / rows * pace : hi;
        b = b > BLOCK ? BLOCK : b;
        see[g] = (struct span){(uint16_t)(a < b ? a : b - 1), (uint16_t)b};
    }
    *all = (struct span){see[0].lo, see[n - 1].hi};
    return see;
}

static struct queries take_queries(struct trial *t, enum tern_cache_type type, size_t n, size_t dim)
{
    size_t up = (dim + 31) / 32 * 32, groups = up / 32;
    struct queries x = {.n = n, .k = dim};
    if (type != TERN_CACHE_Q8) {
        x.stride = dim + rnd_in(t, 0, 20);
        float *q = take(t, ((n - 1) * x.stride + dim) * 4);
        for (size_t i = 0; i < n * dim; i++)
            q[i / dim * x.stride + i % dim] = rnd_float(t, PLAIN);
        x.x = q;
        return x;
    }
    x.stride = up + rnd_in(t, 0, 20), x.group_stride = groups + rnd_in(t, 0, 3);
    int8_t *q = take(t, (n - 1) * x.stride + up);
    float *scale = take(t, ((n - 1) * x.group_stride + groups) * 4);
    int32_t *sum = take(t, ((n - 1) * x.group_stride + groups) * 4);
    size_t extreme = rnd_in(t, 0, 7), kind = rnd_in(t, 0, TINY);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < up; d++) {
            int v = extreme == 0 ? -127 : extreme == 1 ? 127 : (int)rnd_in(t, 0, 254) - 127;
            int32_t *total = &sum[i * x.group_stride + d / 32];
            v = d < dim ? v : 0;
            q[i * x.stride + d] = (int8_t)v;
            *total = d % 32 ? *total + v : v;
            float s = rnd_float(t, kind); /* small enough that scores are finite */
            scale[i * x.group_stride + d / 32] = fabsf(s) > 0x1p68f ? s * 0x1p-60f : s;
        }
    x.q = q, x.scale = scale, x.sum = sum;
    return x;
}

static void try_attend(struct trial *t, enum tern_cache_type type)
{
    struct span all;
    size_t n = rnd_in(t, 1, 17), k_dim = rnd_in(t, 1, 100);
    struct attend b = {.v_dim = rnd_in(t, 0, 1) ? k_dim : rnd_in(t, 1, 100)};
    b.q = take_queries(t, type, n, k_dim);
    b.see = take_spans(t, n, &all);
    b.a_stride = b.v_dim + rnd_in(t, 0, 20);
    b.scale = rnd_float(t, rnd_in(t, 0, 7) ? PLAIN : TINY); /* TINY: scores of both zeros */
    b.softcap = rnd_in(t, 0, 2) ? 0 : 3;
    snprintf(t->shape, sizeof t->shape, "n_q %zu k_dim %zu v_dim %zu lo %u hi %u cap %g", n, k_dim,
             b.v_dim, all.lo, all.hi, (double)b.softcap);
    size_t n_a = ((n - 1) * b.a_stride + b.v_dim) * 4;
    b.k = take_cache(t, type, k_dim, all.lo, all.hi, true);
    b.v = take_cache(t, type, b.v_dim, all.lo, all.hi, false);
    b.next = rnd_in(t, 0, 1) ? b.k : NULL;
    struct attend want = b;
    b.scores = take(t, n * BLOCK * 4), want.scores = take(t, n * BLOCK * 4);
    b.m = take(t, n * 4), want.m = take(t, n * 4);
    b.l = take(t, n * 4), want.l = take(t, n * 4);
    b.a = take(t, n_a), want.a = take(t, n_a);
    attend_block(&t->k, type, &b);
    attend_block(&t->ref, type, &want);
    same_floats(t, "m", b.m, want.m, n);
    same_floats(t, "l", b.l, want.l, n);
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

static void attend_q8(struct trial *t)
{
    try_attend(t, TERN_CACHE_Q8);
}

static void mix_heads(struct trial *t)
{
    enum { MOST = 9 };
    struct attend got[MOST], want[MOST];
    size_t heads = rnd_in(t, 1, MOST), n = rnd_in(t, 1, 3), dim = rnd_in(t, 1, 40), in_a = 0;
    size_t lo = rnd_in(t, 0, 255), hi = rnd_in(t, lo + 1, 256);
    struct span *see = take(t, n * sizeof *see);
    for (size_t g = 0; g < n; g++)
        see[g] = (struct span){(uint16_t)lo, (uint16_t)hi};
    dim = rnd_in(t, 0, 2) ? dim : rnd_in(t, 1, 2) * 8;
    snprintf(t->shape, sizeof t->shape, "heads %zu n_q %zu v_dim %zu lo %zu hi %zu", heads, n, dim,
             lo, hi);
    for (size_t h = 0; h < heads; h++) {
        struct attend b = {.q.n = n, .v_dim = dim, .see = see, .a_stride = dim + rnd_in(t, 0, 20)};
        b.a_stride = h ? got[0].a_stride : b.a_stride;
        in_a = ((n - 1) * b.a_stride + dim) * 4;
        b.v = take_cache(t, TERN_CACHE_F16, dim, lo, hi, false);
        b.scores = take(t, n * BLOCK * 4);
        for (size_t g = 0; g < n; g++)
            for (size_t p = lo; p < hi; p++)
                b.scores[g * BLOCK + p] = rnd_float(t, PLAIN);
        got[h] = want[h] = b;
        got[h].a = take(t, in_a), want[h].a = take(t, in_a);
    }
    t->k.mix_heads(got, heads);
    t->ref.mix_heads(want, heads);
    for (size_t h = 0; h < heads; h++)
        same_floats(t, "a", got[h].a, want[h].a, in_a / 4);
}

static void widen(struct trial *t)
{
    for (int type = 0; type < N_CACHE_TYPES; type++) {
        size_t dim = rnd_in(t, 1, 100), n = 16 * rnd_in(t, 1, 16);
        if (!t->ref.widen[type])
            continue;
        snprintf(t->shape, sizeof t->shape, "dim %zu n %zu", dim, n);
        void *v = take_cache(t, (enum tern_cache_type)type, dim, 0, n, false);
        float *got = take(t, n * dim * 4), *want = take(t, n * dim * 4);
        t->k.widen[type](got, v, dim, n);
        t->ref.widen[type](want, v, dim, n);
        same_floats(t, "y", got, want, n * dim);
    }
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
    {"matmul q4c", matmul_q4c},
    {"get_row", get_row},
    {"quantize", quantize},
    {"rmsnorm", rmsnorm},
    {"add", add},
    {"swiglu", swiglu},
    {"layernorm", layernorm},
    {"activate", activate},
    {"in place", in_place},
    {"rope_angles", rope_angles},
    {"rope", rope},
    {"to_f16", to_f16},
    {"in_range", in_range},
    {"attend f16", attend_f16},
    {"attend f32", attend_f32},
    {"attend q8", attend_q8},
    {"widen", widen},
    {"merge", merge},
    {"divide", divide},
    {"log_sum_exp", log_sum_exp},
    {"mix_heads", mix_heads},
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
