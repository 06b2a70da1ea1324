/* Speed of the kernels, one thread, best of several runs: `prog_kernels --bench [NAME]`. A line per
 * case with a column per level, so that a slot that does not win is seen. */
#ifndef TESTS_KERNEL_BENCH_H
#define TESTS_KERNEL_BENCH_H

#include <time.h>

#include "kernel_trials.h"

struct bench {
    struct kernels k;
    size_t n, type; /* rows of x or queries; type of weights or cache */
    size_t rows, dim;
    float *x, *y, *w;
    struct activations a;
    struct attend at;
};

struct bench_case {
    const char *name, *unit;
    size_t n, type, rows, dim;
    double (*run)(struct bench *b); /* returns the units of work done, in billions */
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double bench_matmul(struct bench *b)
{
    size_t bytes = b->rows / 16 * format_tile_bytes(format_find(b->type), b->dim);
    b->k.matmul[b->type](b->y, b->rows, b->w, 0, b->rows / 16, &b->a);
    return (b->n == 1 ? (double)bytes : (double)(b->n * b->rows * b->dim)) * 1e-9;
}

/* All blocks of a cache of `rows` positions, as one KV head after the other */
static double bench_attend(struct bench *b)
{
    size_t bytes = BLOCK * b->dim * (b->type == TERN_CACHE_F32 ? 4 : 2);
    for (size_t i = 0; i < b->rows / BLOCK; i++) {
        b->at.k = (const char *)b->w + 2 * i * bytes;
        b->at.v = (const char *)b->at.k + bytes;
        b->k.attend[b->type](&b->at);
    }
    double macs = 2.0 * (double)(b->n * b->rows * b->dim);
    return (b->n <= 8 ? 2.0 * (double)(b->rows / BLOCK * bytes) : macs) * 1e-9;
}

static double bench_quantize(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.quantize((int8_t *)b->y, b->y + b->dim, (int32_t *)(void *)(b->y + 2 * b->dim), b->x,
                      b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_rmsnorm(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.rmsnorm(b->y, b->x, b->x, b->dim, 1e-5f);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_add(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.add(b->y, b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_swiglu(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.swiglu(b->y, b->x, b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_rope_angles(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.rope_angles(b->y, b->y + 64, b->x, b->dim, (uint32_t)(4 * i), 1);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_rope(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.rope(b->y, b->x, b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_to_f16(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.to_f16((uint16_t *)b->y, b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_in_range(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.in_range(b->x, b->dim, 100);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_merge(struct bench *b)
{
    float M = 0, L = 0;
    for (size_t i = 0; i < b->n; i++)
        b->k.merge(&M, &L, b->y, -(float)(i & 1), 1, b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_divide(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.divide(b->y, b->x, 3, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_log_sum_exp(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->y[0] = b->k.log_sum_exp(b->x, b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static const struct bench_case bench_cases[] = {
    {"matmul f32 1 row", "GB/s", 1, TERN_F32, 8192, 4096, bench_matmul},
    {"matmul f16 1 row", "GB/s", 1, TERN_F16, 16384, 4096, bench_matmul},
    {"matmul bf16 1 row", "GB/s", 1, TERN_BF16, 16384, 4096, bench_matmul},
    {"matmul q8 1 row", "GB/s", 1, TERN_Q8, 32768, 4096, bench_matmul},
    {"matmul q4 1 row", "GB/s", 1, TERN_Q4, 65536, 4096, bench_matmul},
    {"matmul f16 1 row, L2", "GB/s", 1, TERN_F16, 256, 1024, bench_matmul},
    {"matmul q8 1 row, L2", "GB/s", 1, TERN_Q8, 256, 1024, bench_matmul},
    {"matmul q4 1 row, L2", "GB/s", 1, TERN_Q4, 256, 1024, bench_matmul},
    {"matmul f32 128 rows", "GMAC/s", 128, TERN_F32, 512, 2048, bench_matmul},
    {"matmul f16 128 rows", "GMAC/s", 128, TERN_F16, 512, 2048, bench_matmul},
    {"matmul bf16 128 rows", "GMAC/s", 128, TERN_BF16, 512, 2048, bench_matmul},
    {"matmul q8 128 rows", "GMAC/s", 128, TERN_Q8, 512, 2048, bench_matmul},
    {"matmul q4 128 rows", "GMAC/s", 128, TERN_Q4, 512, 2048, bench_matmul},
    {"matmul q4 7 rows", "GMAC/s", 7, TERN_Q4, 512, 2048, bench_matmul},
    {"attend f16 8 queries", "GB/s", 8, TERN_CACHE_F16, 1 << 18, 64, bench_attend},
    {"attend f16 1 query", "GB/s", 1, TERN_CACHE_F16, 1 << 18, 64, bench_attend},
    {"attend f32 8 queries", "GB/s", 8, TERN_CACHE_F32, 1 << 17, 64, bench_attend},
    {"attend f16 64 queries", "GMAC/s", 64, TERN_CACHE_F16, 4096, 64, bench_attend},
    {"quantize", "G/s", 100, 0, 0, 2048, bench_quantize},
    {"rmsnorm", "G/s", 100, 0, 0, 2048, bench_rmsnorm},
    {"add", "G/s", 100, 0, 0, 2048, bench_add},
    {"swiglu", "G/s", 100, 0, 0, 2048, bench_swiglu},
    {"rope_angles", "G/s", 100, 0, 0, 32, bench_rope_angles},
    {"rope", "G/s", 1000, 0, 0, 32, bench_rope},
    {"to_f16", "G/s", 1000, 0, 0, 64, bench_to_f16},
    {"in_range", "G/s", 1000, 0, 0, 64, bench_in_range},
    {"merge", "G/s", 1000, 0, 0, 64, bench_merge},
    {"divide", "G/s", 1000, 0, 0, 64, bench_divide},
    {"log_sum_exp", "G/s", 10, 0, 0, 32000, bench_log_sum_exp},
};

enum { BENCH_FLOATS = 9 << 22, BENCH_ROW = 1 << 16 };

/* Inputs of a case: bytes that are numbers of every format */
static void bench_fill(struct bench *b, const struct bench_case *c)
{
    bool half = !strncmp(c->name, "matmul f32", 10) || strstr(c->name, "f32");
    for (size_t i = 0; i < BENCH_FLOATS; i++)
        b->w[i] =
            half ? (float)(i % 253) * 0.01f - 1 : f32_of_bits(0x2c112a13u + (uint32_t)(i % 9));
    for (size_t i = 0; i < 128 * 4096; i++)
        b->x[i] = (float)(i % 251) * 0.01f - 1;
    b->n = c->n, b->type = c->type, b->rows = c->rows, b->dim = c->dim;
    int8_t *q = (int8_t *)(b->x + 128 * 4096);
    float *scale = b->x + 128 * 4096 + 128 * 1024;
    for (size_t i = 0; i < 128 * 4096; i++)
        q[i] = (int8_t)(i % 251);
    for (size_t i = 0; i < 128 * 128; i++)
        scale[i] = 0.01f;
    b->a = (struct activations){c->n, c->dim, c->dim, 128,
                                b->x, q,      scale,  (int32_t *)(void *)(scale + 128 * 128)};
    b->at = (struct attend){.n_q = c->n, .k_dim = c->dim, .v_dim = c->dim, .q = b->x};
    b->at.q_stride = b->at.a_stride = c->dim, b->at.hi = BLOCK, b->at.scale = 0.125f;
    b->at.a = b->y, b->at.m = b->y + 8192, b->at.l = b->y + 16384, b->at.scores = b->y + 32768;
}

static double bench_best(struct bench *b, const struct bench_case *c)
{
    double best = 0, start = seconds();
    for (int i = 0; i < 3 || (seconds() - start < 0.15 && i < 1000); i++) {
        double t = seconds(), work = c->run(b);
        t = seconds() - t;
        best = work / t > best ? work / t : best;
    }
    return best;
}

static int bench_all(const char *only)
{
    struct bench b = {0};
    b.w = aligned_alloc(64, sizeof(float) * BENCH_FLOATS);
    b.x = aligned_alloc(64, sizeof(float) * 128 * 4096 * 2);
    b.y = aligned_alloc(64, sizeof(float) * 128 * 4096 * 2);
    if (!b.w || !b.x || !b.y)
        return 1;
    memset(b.y, 0, sizeof(float) * 128 * 4096 * 2);
    printf("%-22s %-7s %12s", "", "", "ref");
    for (size_t l = 0; l < N_LEVELS; l++)
        if (level_find(l))
            printf(" %12s", levels[l].name);
    for (size_t i = 0; i < sizeof bench_cases / sizeof *bench_cases; i++) {
        const struct bench_case *c = &bench_cases[i];
        if (only && !strstr(c->name, only))
            continue;
        bench_fill(&b, c);
        kernels_fill(&b.k, 0);
        printf("\n%-22s %-7s", c->name, c->unit);
        if (c->rows * c->dim * c->n < 1 << 25)
            printf(" %12.2f", bench_best(&b, c));
        else
            printf(" %12s", "-");
        for (size_t l = 0; l < N_LEVELS; l++)
            if (level_find(l)) {
                kernels_fill(&b.k, levels[l].cpu);
                printf(" %12.2f", bench_best(&b, c));
                fflush(stdout);
            }
    }
    printf("\n");
    free(b.w);
    free(b.x);
    free(b.y);
    return 0;
}

#endif
