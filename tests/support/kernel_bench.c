/* See kernel_bench.h. */
#include "kernel_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernel_levels.h"
#include "kernel_limits.h"
#include "kernels/kernels.h"

enum { QUERIES = 64, PACKED_QUERIES = 24 }; /* that meet a block together: as in the engine */
enum {
    MOST_DIM = 256, /* of a head */
    ATTEND_FLOATS =
        2 * BLOCK * MOST_DIM + PACKED_QUERIES * (BLOCK + MOST_DIM + 2 * 16) /* of a thread */
};
enum { WIDE_ROWS = 5632, WIDE_K = 2048 }; /* a feed-forward matrix; its mirror is the other one */

struct bench {
    struct kernels k;
    struct pool *one, *all;
    size_t n, type; /* rows of x or queries; type of weights or cache */
    size_t rows, dim, at_row;
    float *x, *y, *w;
    struct activations a;
    struct attend at;
};

struct bench_case {
    const char *name, *unit;
    size_t n, type, rows, dim;
    double (*run)(struct bench *b); /* returns the units of work done, in billions; NULL: what the
                                     * n rows of a matmul cost, times one row */
};

static size_t matmul_bytes(size_t type, size_t rows, size_t dim)
{
    return rows / 16 * format_tile_bytes(format_find(type), dim);
}

static void bench_tiles(void *arg, size_t begin, size_t end, int thread)
{
    struct bench *b = arg;
    const char *w = (const char *)b->w + matmul_bytes(b->type, b->at_row, b->dim);
    (void)thread;
    b->k.matmul[b->type](b->y, WIDE_ROWS, w, begin, end, &b->a);
}

/* Matrices of WIDE_ROWS rows at most */
static double bench_matmul(struct bench *b)
{
    size_t bytes = matmul_bytes(b->type, b->rows, b->dim);
    size_t rows = b->rows < WIDE_ROWS ? b->rows : WIDE_ROWS;
    for (b->at_row = 0; b->at_row < b->rows; b->at_row += rows)
        pool_run(b->all, rows / 16, bench_tiles, b);
    return (b->n == 1 ? (double)bytes : (double)b->n * (double)(b->rows * b->dim)) * 1e-9;
}

static bool is_packed(const struct bench *b)
{
    return b->n > 16;
}

/* Some blocks of a cache, as one KV head after the other */
static void attend_blocks(void *arg, size_t begin, size_t end, int thread)
{
    const struct bench *b = arg;
    struct attend at = b->at;
    size_t bytes = attend_bytes(b->type, b->dim), at_once = is_packed(b) ? PACKED_QUERIES : QUERIES;
    attend_fn score = b->k.score[b->type], mix = b->k.mix[b->type];
    float *y = b->y + (size_t)thread * ATTEND_FLOATS, *packed[2] = {y, y + BLOCK * MOST_DIM};
    at.scores = packed[1] + BLOCK * MOST_DIM, at.a = at.scores + PACKED_QUERIES * BLOCK;
    at.m = at.a + PACKED_QUERIES * MOST_DIM, at.l = at.m + PACKED_QUERIES;
    for (size_t i = begin; i < end; i++) {
        at.k = (const char *)b->w + 2 * i * bytes;
        at.v = (const char *)at.k + bytes;
        const char *next = (const char *)at.v + bytes;
        at.next = is_packed(b) ? NULL : next;
        if (is_packed(b) && b->k.pack_k[b->type]) {
            b->k.pack_k[b->type](packed[0], at.k, b->dim, BLOCK);
            at.k = packed[0], score = b->k.score_packed;
        }
        if (is_packed(b) && b->k.pack_v[b->type]) {
            b->k.pack_v[b->type](packed[1], at.v, b->dim, BLOCK);
            at.v = packed[1], mix = b->k.mix_packed;
        }
        for (size_t g = 0; g < b->n; g += at.q.n) {
            at.q.n = b->n - g < at_once ? b->n - g : at_once;
            const char *ahead = next + 2 * bytes * g / b->n;
            size_t share = 2 * bytes * at.q.n / b->n, half = at.k == packed[0] ? share / 2 : 0;
            at.score_ahead = (struct ahead){ahead, half};
            at.mix_ahead = (struct ahead){ahead + half, share - half};
            score(&at);
            b->k.weigh(&at);
            mix(&at);
        }
    }
}

/* A cache of `rows` positions. Units: GB that all threads read for few queries; multiply-adds of one
 * thread for many, for which a block is packed first, as in a prompt. */
static double bench_attend(struct bench *b)
{
    size_t blocks = b->rows / BLOCK;
    pool_run(is_packed(b) ? b->one : b->all, blocks, attend_blocks, b);
    return is_packed(b) ? 2.0 * (double)(b->n * b->rows * b->dim) * 1e-9
                        : 2.0 * (double)(blocks * attend_bytes(b->type, b->dim)) * 1e-9;
}

static double bench_quantize(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.quantize((int8_t *)b->y, b->y + b->dim, (int32_t *)(void *)(b->y + 2 * b->dim), b->x,
                      b->dim);
    return (double)(b->n * b->dim) * 1e-9;
}

static double bench_quantize_octets(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->k.quantize_octets((struct octet *)(void *)b->y, i % OCTET, b->x, b->dim);
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

/* Few rows of x meet weights in L2, and then 400 MB of them, which cost so many times what they cost
 * one row. */
#define FEW_ROWS(name, type, memory, n, rows)                                      \
    {"matmul " name " " rows ", L2", "GMAC/s", n, type, 1024, 1024, bench_matmul}, \
    {                                                                              \
        "matmul " name " " rows, "x 1 row", n, type, memory, WIDE_K, NULL          \
    }
#define FEW(name, type, memory)                                                           \
    FEW_ROWS(name, type, memory, 2, "2 rows"), FEW_ROWS(name, type, memory, 4, "4 rows"), \
        FEW_ROWS(name, type, memory, 8, "8 rows"), FEW_ROWS(name, type, memory, 16, "16 rows")

static const struct bench_case bench_cases[] = {
    {"matmul f32 1 row", "GB/s", 1, TERN_F32, 9 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul f16 1 row", "GB/s", 1, TERN_F16, 18 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul bf16 1 row", "GB/s", 1, TERN_BF16, 18 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q8 1 row", "GB/s", 1, TERN_Q8, 34 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q4 1 row", "GB/s", 1, TERN_Q4, 64 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q4c 1 row", "GB/s", 1, TERN_Q4C, 64 * WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul f32 1 row, L3", "GB/s", 1, TERN_F32, 2048, 1024, bench_matmul},
    {"matmul f16 1 row, L3", "GB/s", 1, TERN_F16, 2048, 1024, bench_matmul},
    {"matmul bf16 1 row, L3", "GB/s", 1, TERN_BF16, 2048, 1024, bench_matmul},
    {"matmul q8 1 row, L3", "GB/s", 1, TERN_Q8, 2048, 1024, bench_matmul},
    {"matmul q4 1 row, L3", "GB/s", 1, TERN_Q4, 2048, 1024, bench_matmul},
    {"matmul q4c 1 row, L3", "GB/s", 1, TERN_Q4C, 2048, 1024, bench_matmul},
    {"matmul f32 1 row, L2", "GB/s", 1, TERN_F32, 288, 288, bench_matmul},
    {"matmul f16 1 row, L2", "GB/s", 1, TERN_F16, 288, 288, bench_matmul},
    {"matmul bf16 1 row, L2", "GB/s", 1, TERN_BF16, 288, 288, bench_matmul},
    {"matmul q8 1 row, L2", "GB/s", 1, TERN_Q8, 288, 288, bench_matmul},
    {"matmul q4 1 row, L2", "GB/s", 1, TERN_Q4, 288, 288, bench_matmul},
    {"matmul q4c 1 row, L2", "GB/s", 1, TERN_Q4C, 288, 288, bench_matmul},
    FEW("f32", TERN_F32, 9 * WIDE_ROWS),
    FEW("f16", TERN_F16, 18 * WIDE_ROWS),
    FEW("bf16", TERN_BF16, 18 * WIDE_ROWS),
    FEW("q8", TERN_Q8, 34 * WIDE_ROWS),
    FEW("q4", TERN_Q4, 64 * WIDE_ROWS),
    FEW("q4c", TERN_Q4C, 64 * WIDE_ROWS),
    {"matmul f32 512 wide", "GMAC/s", 512, TERN_F32, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul f32 512 deep", "GMAC/s", 512, TERN_F32, WIDE_K, WIDE_ROWS, bench_matmul},
    {"matmul f16 512 wide", "GMAC/s", 512, TERN_F16, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul f16 512 deep", "GMAC/s", 512, TERN_F16, WIDE_K, WIDE_ROWS, bench_matmul},
    {"matmul bf16 512 wide", "GMAC/s", 512, TERN_BF16, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul bf16 512 deep", "GMAC/s", 512, TERN_BF16, WIDE_K, WIDE_ROWS, bench_matmul},
    {"matmul q8 512 wide", "GMAC/s", 512, TERN_Q8, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q8 512 deep", "GMAC/s", 512, TERN_Q8, WIDE_K, WIDE_ROWS, bench_matmul},
    {"matmul q4 512 wide", "GMAC/s", 512, TERN_Q4, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q4 512 deep", "GMAC/s", 512, TERN_Q4, WIDE_K, WIDE_ROWS, bench_matmul},
    {"matmul q4c 512 wide", "GMAC/s", 512, TERN_Q4C, WIDE_ROWS, WIDE_K, bench_matmul},
    {"matmul q4c 512 deep", "GMAC/s", 512, TERN_Q4C, WIDE_K, WIDE_ROWS, bench_matmul},
    {"attend f16 8 queries", "GB/s", 8, TERN_CACHE_F16, 1 << 20, 64, bench_attend},
    {"attend f16 1 query", "GB/s", 1, TERN_CACHE_F16, 1 << 20, 64, bench_attend},
    {"attend f32 8 queries", "GB/s", 8, TERN_CACHE_F32, 1 << 19, 64, bench_attend},
    {"attend q8 8 queries", "GB/s", 8, TERN_CACHE_Q8, 1 << 20, 64, bench_attend},
    {"attend q8 1 query", "GB/s", 1, TERN_CACHE_Q8, 1 << 20, 64, bench_attend},
    {"attend f16 8 q, L2", "GB/s", 8, TERN_CACHE_F16, 1 << 11, 64, bench_attend},
    {"attend q8 8 q, L2", "GB/s", 8, TERN_CACHE_Q8, 1 << 11, 64, bench_attend},
    {"attend f16 32 q, memory", "GMAC/s", 32, TERN_CACHE_F16, 1 << 20, 64, bench_attend},
    {"attend f16 192 q, memory", "GMAC/s", 192, TERN_CACHE_F16, 1 << 16, 64, bench_attend},
    {"attend f16 192 queries", "GMAC/s", 192, TERN_CACHE_F16, 4096, 64, bench_attend},
    {"attend f32 192 queries", "GMAC/s", 192, TERN_CACHE_F32, 4096, 64, bench_attend},
    {"attend q8 192 queries", "GMAC/s", 192, TERN_CACHE_Q8, 4096, 64, bench_attend},
    {"quantize", "G/s", 100, 0, 0, 2048, bench_quantize},
    {"quantize_octets", "G/s", 100, 0, 0, 2048, bench_quantize_octets},
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

enum { BENCH_BYTES = 420 << 20, BENCH_X = 512 * WIDE_ROWS };

/* Inputs of a case: bytes that are numbers of every format */
static void bench_fill(struct bench *b, const struct bench_case *c)
{
    bool f32 = strstr(c->name, "f32") != NULL;
    for (size_t i = 0; i < BENCH_BYTES / 4; i++)
        b->w[i] = f32 ? (float)(i % 253) * 0.01f - 1 : f32_of_bits(0x2c112a13u + (uint32_t)(i % 9));
    for (size_t i = 0; i < BENCH_X; i++)
        b->x[i] = (float)(i % 251) * 0.01f - 1;
    b->n = c->n, b->type = c->type, b->rows = c->rows, b->dim = c->dim;
    struct octet *octets = (struct octet *)(void *)(b->x + BENCH_X);
    int8_t *q = (int8_t *)(b->x + 2 * BENCH_X);
    float *scale = b->x + 2 * BENCH_X + c->dim;
    int32_t *sum = (int32_t *)(void *)(scale + c->dim);
    struct kernels ref;
    kernels_fill(&ref, 0);
    for (size_t i = 0; i < c->n && c->run != bench_attend; i++)
        ref.quantize_octets(octets + octet_at(i, 0, c->dim), i % OCTET, b->x + i * c->dim, c->dim);
    ref.quantize(q, scale, sum, b->x, c->dim);
    b->a = (struct activations){c->n, c->dim, c->dim, b->x, q, scale, sum, octets, NULL};
    static struct span see[QUERIES];
    for (size_t g = 0; g < QUERIES; g++)
        see[g] = (struct span){0, BLOCK};
    b->at = (struct attend){.v_dim = c->dim, .a_stride = c->dim, .see = see, .scale = 0.125f};
    static int8_t q8[QUERIES * 256];
    static float q_scale[QUERIES * 8];
    static int32_t q_sum[QUERIES * 8];
    for (size_t g = 0; g < QUERIES && c->run == bench_attend; g++)
        ref.quantize(q8 + g * c->dim, q_scale + g * 8, q_sum + g * 8, b->x + g * c->dim, c->dim);
    b->at.q = (struct queries){QUERIES, c->dim, c->dim, 8, b->x, q8, q_scale, q_sum};
}

static double matmul_seconds(struct bench *b, size_t n)
{
    double t = limit_seconds();
    b->a.n = n;
    bench_matmul(b);
    return limit_seconds() - t;
}

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of rounds in turns: the speed of memory changes from one moment to the next. */
static double bench_cost(struct bench *b)
{
    enum { ROUNDS = 15 };
    double ratio[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        double one = matmul_seconds(b, 1);
        ratio[i] = matmul_seconds(b, b->n) / one;
    }
    qsort(ratio, ROUNDS, sizeof *ratio, less);
    return ratio[ROUNDS / 2];
}

static double bench_best(struct bench *b, const struct bench_case *c)
{
    double best = 0, start = limit_seconds();
    if (!c->run)
        return bench_cost(b);
    for (int i = 0; i < 3 || (limit_seconds() - start < 0.15 && i < 1000); i++) {
        double t = limit_seconds(), work = c->run(b);
        t = limit_seconds() - t;
        best = work / t > best ? work / t : best;
    }
    return best;
}

/* The most that a level could reach in this case, or 0 */
static double bench_limit(struct bench *b, const struct bench_case *c, unsigned cpu)
{
    bool is_matmul = c->run == bench_matmul;
    struct pool *pool = is_matmul || !is_packed(b) ? b->all : b->one;
    if (!is_matmul && c->run != bench_attend)
        return 0;
    if (!strcmp(c->unit, "GMAC/s"))
        return limit_macs(pool, cpu, is_matmul ? (enum tern_type)c->type : TERN_F32);
    return limit_read(pool, cpu, b->w,
                      is_matmul ? matmul_bytes(c->type, c->rows, c->dim)
                                : 2 * c->rows * c->dim * (c->type == TERN_CACHE_F32 ? 4 : 2));
}

static void bench_one(struct bench *b, const struct bench_case *c)
{
    bench_fill(b, c);
    kernels_fill(&b->k, 0);
    printf("%-22s %-7s", c->name, c->unit);
    if (c->rows * c->dim * c->n < 1 << 24)
        printf(" %8.2f     ", bench_best(b, c));
    else
        printf(" %8s     ", "-");
    for (size_t l = 0; l < N_LEVELS; l++)
        if (level_find(l)) {
            double limit = bench_limit(b, c, levels[l].cpu), best;
            kernels_fill(&b->k, levels[l].cpu);
            printf(" %8.2f", best = bench_best(b, c));
            if (limit > 0)
                printf(" %3.0f%%", 100 * best / limit);
            else
                printf("     ");
            fflush(stdout);
        }
    printf("\n");
}

static void bench_limits(struct bench *b)
{
    printf("%d threads read %.1f GB/s from memory; GMAC/s of instructions for floats, q8, q4:",
           pool_threads(b->all), limit_read(b->all, cpu_detect(), b->w, BENCH_BYTES));
    for (size_t l = 0; l < N_LEVELS; l++)
        if (level_find(l))
            printf(" %s %.0f %.0f %.0f", levels[l].name,
                   limit_macs(b->all, levels[l].cpu, TERN_F32),
                   limit_macs(b->all, levels[l].cpu, TERN_Q8),
                   limit_macs(b->all, levels[l].cpu, TERN_Q4));
    printf("\n%-30s %8s     ", "", "ref");
    for (size_t l = 0; l < N_LEVELS; l++)
        if (level_find(l))
            printf(" %13s", levels[l].name);
    printf("\n");
}

int bench_all(const char *only, int threads)
{
    struct bench b = {0};
    struct tern_error e;
    b.w = aligned_alloc(64, BENCH_BYTES);
    b.x = aligned_alloc(64, sizeof(float) * (BENCH_X * 2 + (1 << 16)));
    size_t n_y = BENCH_X + (size_t)threads * ATTEND_FLOATS;
    b.y = aligned_alloc(64, sizeof(float) * n_y);
    int bad = !b.w || !b.x || !b.y || pool_open(&b.one, 1, &e) || pool_open(&b.all, threads, &e);
    if (!bad) {
        memset(b.y, 0, sizeof(float) * n_y);
        bench_fill(&b, &bench_cases[0]);
        bench_limits(&b);
        size_t n_run = 0;
        for (size_t i = 0; i < sizeof bench_cases / sizeof *bench_cases; i++)
            if (!only || strstr(bench_cases[i].name, only))
                n_run++, bench_one(&b, &bench_cases[i]);
        if (!n_run)
            fprintf(stderr, "prog_kernels: no case has '%s' in its name\n", only);
        bad = !n_run;
    }
    pool_close(b.all);
    pool_close(b.one);
    free(b.w);
    free(b.x);
    free(b.y);
    return bad;
}
