/* See trials_attend.h. */
#include "trials_attend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One value of K or V: number i of the block, or for q8 what its integer and scale are */
static void put_value(struct trial *t, enum tern_cache_type type, char *cache, size_t i,
                      size_t kind)
{
    if (type == TERN_CACHE_F32)
        ((float *)(void *)cache)[i] = trial_float(t, kind);
    else
        trial_halves(t, (uint16_t *)(void *)cache + i, 1, 0x7c00, kind);
}

/* Position p of K or V of a q8 cache, padding of the dims included */
static void put_q8(struct trial *t, char *cache, size_t dim, size_t p, bool is_k, size_t kind)
{
    size_t groups = (dim + 31) / 32, extreme = trial_in(t, 0, 3);
    for (size_t d = 0; d < groups * 32; d++) {
        size_t tile = (p / 16 * groups + d / 32) * 544;
        size_t at = is_k ? tile + d % 32 / 4 * 64 + p % 16 * 4 + d % 4 : p * groups * 32 + d;
        cache[at] = (char)(d >= dim       ? 0
                           : extreme == 0 ? (trial_in(t, 0, 1) ? 127 : -127)
                                          : (int)trial_in(t, 0, 254) - 127);
        at = is_k ? tile + 512 + p % 16 * 2 : (BLOCK * 16 * groups + d / 32 * BLOCK + p) * 2;
        if (d % 32 == 0)
            trial_halves(t, (uint16_t *)(void *)(cache + at), 1, 0x7c00, kind);
    }
}

void *trials_take_cache(struct trial *t, enum tern_cache_type type, size_t dim, size_t lo,
                        size_t hi, bool is_k)
{
    size_t kind = trial_in(t, 0, 3) ? PLAIN : TINY;
    char *cache = trial_take(t, attend_bytes(type, dim));
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
    struct span *see = trial_take(t, n * sizeof *see);
    size_t lo = trial_in(t, 0, 3) ? trial_in(t, 0, 255) : 0;
    size_t hi = trial_in(t, 0, 3) ? trial_in(t, lo + 1, 256) : trial_in(t, 0, 1) ? 256 : lo + 1;
    bool window = trial_in(t, 0, 2) == 0, causal = trial_in(t, 0, 1);
    size_t rows = trial_in(t, 1, 4), pace = trial_in(t, 0, 3) ? 1 : 20;
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
        x.stride = dim + trial_in(t, 0, 20);
        float *q = trial_take(t, ((n - 1) * x.stride + dim) * 4);
        for (size_t i = 0; i < n * dim; i++)
            q[i / dim * x.stride + i % dim] = trial_float(t, PLAIN);
        x.x = q;
        return x;
    }
    x.stride = up + trial_in(t, 0, 20), x.group_stride = groups + trial_in(t, 0, 3);
    int8_t *q = trial_take(t, (n - 1) * x.stride + up);
    float *scale = trial_take(t, ((n - 1) * x.group_stride + groups) * 4);
    int32_t *sum = trial_take(t, ((n - 1) * x.group_stride + groups) * 4);
    size_t extreme = trial_in(t, 0, 7), kind = trial_in(t, 0, TINY);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < up; d++) {
            int v = extreme == 0 ? -127 : extreme == 1 ? 127 : (int)trial_in(t, 0, 254) - 127;
            int32_t *total = &sum[i * x.group_stride + d / 32];
            v = d < dim ? v : 0;
            q[i * x.stride + d] = (int8_t)v;
            *total = d % 32 ? *total + v : v;
            float s = trial_float(t, kind); /* small enough that scores are finite */
            scale[i * x.group_stride + d / 32] = fabsf(s) > 0x1p68f ? s * 0x1p-60f : s;
        }
    x.q = q, x.scale = scale, x.sum = sum;
    return x;
}

/* Slopes of some heads and the rows of their queries, or NULL */
static struct alibi *take_alibi(struct trial *t, size_t n, size_t *first)
{
    struct alibi *alibi = trial_take(t, n * sizeof *alibi);
    *first = trial_in(t, 0, trial_in(t, 0, 1) ? 9 : 65535) * BLOCK;
    for (size_t g = 0; g < n; g++) {
        alibi[g].slope = fabsf(trial_float(t, PLAIN)) / 16;
        alibi[g].position = (float)(*first + trial_in(t, 0, 300));
    }
    return trial_in(t, 0, 1) ? alibi : NULL;
}

static void try_attend(struct trial *t, enum tern_cache_type type)
{
    struct span all;
    size_t n = trial_in(t, 1, 17), k_dim = trial_in(t, 1, 100);
    struct attend b = {.v_dim = trial_in(t, 0, 1) ? k_dim : trial_in(t, 1, 100)};
    b.q = take_queries(t, type, n, k_dim);
    b.see = take_spans(t, n, &all);
    b.a_stride = b.v_dim + trial_in(t, 0, 20);
    b.scale = trial_float(t, trial_in(t, 0, 7) ? PLAIN : TINY); /* TINY: scores of both zeros */
    b.softcap = trial_in(t, 0, 2) ? 0 : 3;
    b.alibi = take_alibi(t, n, &b.first);
    snprintf(t->shape, sizeof t->shape,
             "n_q %zu k_dim %zu v_dim %zu lo %u hi %u cap %g first %zu alibi %d", n, k_dim, b.v_dim,
             all.lo, all.hi, (double)b.softcap, b.first, b.alibi != NULL);
    size_t n_a = ((n - 1) * b.a_stride + b.v_dim) * 4;
    b.k = trials_take_cache(t, type, k_dim, all.lo, all.hi, true);
    b.v = trials_take_cache(t, type, b.v_dim, all.lo, all.hi, false);
    b.next = trial_in(t, 0, 1) ? b.k : NULL;
    struct attend want = b;
    b.scores = trial_take(t, n * BLOCK * 4), want.scores = trial_take(t, n * BLOCK * 4);
    b.m = trial_take(t, n * 4), want.m = trial_take(t, n * 4);
    b.l = trial_take(t, n * 4), want.l = trial_take(t, n * 4);
    b.a = trial_take(t, n_a), want.a = trial_take(t, n_a);
    attend_block(&t->k, type, &b);
    attend_block(&t->ref, type, &want);
    trial_same_floats(t, "m", b.m, want.m, n);
    trial_same_floats(t, "l", b.l, want.l, n);
    trial_same_floats(t, "a", b.a, want.a, n_a / 4);
}

void try_attend_f16(struct trial *t)
{
    try_attend(t, TERN_CACHE_F16);
}

void try_attend_f32(struct trial *t)
{
    try_attend(t, TERN_CACHE_F32);
}

void try_attend_q8(struct trial *t)
{
    try_attend(t, TERN_CACHE_Q8);
}

/* The same by way of packed K and V, for queries that are many; or with the V of latent attention */
void try_attend_packed(struct trial *t)
{
    struct span all;
    enum tern_cache_type type = (enum tern_cache_type)trial_in(t, 0, N_CACHE_TYPES - 1);
    size_t n = trial_in(t, 1, 30), k_dim = trial_in(t, 0, 1) ? trial_in(t, 1, 150) : 64;
    struct attend b = {.v_dim = trial_in(t, 0, 1) ? k_dim : trial_in(t, 1, 150)};
    b.q = take_queries(t, type, n, k_dim);
    b.see = take_spans(t, n, &all);
    size_t seen = (all.hi + 15u) / 16 * 16, up = (b.v_dim + 15) / 16 * 16;
    b.a_stride = up + trial_in(t, 0, 20), b.scale = trial_float(t, PLAIN);
    bool latent = trial_in(t, 0, 3) == 0 && b.v_dim <= k_dim;
    snprintf(t->shape, sizeof t->shape, "type %d n_q %zu k_dim %zu v_dim %zu lo %u hi %u latent %d",
             type, n, k_dim, b.v_dim, all.lo, all.hi, latent);
    b.k = trials_take_cache(t, type, k_dim, latent ? 0 : all.lo, latent ? seen : all.hi, true);
    b.v = latent ? NULL : trials_take_cache(t, type, b.v_dim, all.lo, all.hi, false);
    struct attend want = b;
    if (trial_in(t, 0, 1))
        b.score_ahead = b.mix_ahead = (struct ahead){b.k, attend_bytes(type, k_dim)};
    b.scores = trial_take(t, n * BLOCK * 4), want.scores = trial_take(t, n * BLOCK * 4);
    b.m = trial_take(t, n * 4), want.m = trial_take(t, n * 4);
    b.l = trial_take(t, n * 4), want.l = trial_take(t, n * 4);
    b.a = trial_take(t, n * b.a_stride * 4), want.a = trial_take(t, n * b.a_stride * 4);
    float *k = trial_take(t, BLOCK * ((k_dim + 15) / 16 * 16) * 4);
    attend_packed(&t->k, type, b, seen, k, trial_take(t, BLOCK * up * 4));
    if (latent)
        attend_packed(&t->ref, type, want, seen, NULL, trial_take(t, BLOCK * b.v_dim * 4));
    else
        attend_block(&t->ref, type, &want);
    trial_same_floats(t, "m", b.m, want.m, n);
    trial_same_floats(t, "l", b.l, want.l, n);
    for (size_t g = 0; g < n; g++)
        trial_same_floats(t, "a", b.a + g * b.a_stride, want.a + g * b.a_stride, b.v_dim);
}

void try_mix_heads(struct trial *t)
{
    enum { MOST = 9 };
    struct attend got[MOST], want[MOST];
    size_t heads = trial_in(t, 1, MOST), n = trial_in(t, 1, 3), dim = trial_in(t, 1, 40), in_a = 0;
    size_t lo = trial_in(t, 0, 255), hi = trial_in(t, lo + 1, 256);
    struct span *see = trial_take(t, n * sizeof *see);
    for (size_t g = 0; g < n; g++)
        see[g] = (struct span){(uint16_t)lo, (uint16_t)hi};
    dim = trial_in(t, 0, 2) ? dim : trial_in(t, 1, 2) * 8;
    snprintf(t->shape, sizeof t->shape, "heads %zu n_q %zu v_dim %zu lo %zu hi %zu", heads, n, dim,
             lo, hi);
    for (size_t h = 0; h < heads; h++) {
        struct attend b = {
            .q.n = n, .v_dim = dim, .see = see, .a_stride = dim + trial_in(t, 0, 20)};
        b.a_stride = h ? got[0].a_stride : b.a_stride;
        in_a = ((n - 1) * b.a_stride + dim) * 4;
        b.v = trials_take_cache(t, TERN_CACHE_F16, dim, lo, hi, false);
        b.scores = trial_take(t, n * BLOCK * 4);
        for (size_t g = 0; g < n; g++)
            for (size_t p = lo; p < hi; p++)
                b.scores[g * BLOCK + p] = trial_float(t, PLAIN);
        got[h] = want[h] = b;
        got[h].a = trial_take(t, in_a), want[h].a = trial_take(t, in_a);
    }
    t->k.mix_heads(got, heads);
    t->ref.mix_heads(want, heads);
    for (size_t h = 0; h < heads; h++)
        trial_same_floats(t, "a", got[h].a, want[h].a, in_a / 4);
}

void try_widen(struct trial *t)
{
    for (int type = 0; type < N_CACHE_TYPES; type++) {
        size_t dim = trial_in(t, 1, 100), n = 16 * trial_in(t, 1, 16);
        if (!t->ref.widen[type])
            continue;
        snprintf(t->shape, sizeof t->shape, "dim %zu n %zu", dim, n);
        void *v = trials_take_cache(t, (enum tern_cache_type)type, dim, 0, n, false);
        float *got = trial_take(t, n * dim * 4), *want = trial_take(t, n * dim * 4);
        t->k.widen[type](got, v, dim, n);
        t->ref.widen[type](want, v, dim, n);
        trial_same_floats(t, "y", got, want, n * dim);
    }
}

void try_merge(struct trial *t)
{
    size_t n = trial_length(t);
    float *a = trial_floats(t, n, trial_in(t, 0, ZEROS)), *got = trial_floats(t, n, PLAIN);
    float *want = trial_take(t, n * 4), m = 20 * trial_float(t, PLAIN), l = trial_float(t, PLAIN);
    float M[2] = {20 * trial_float(t, PLAIN)}, L[2] = {trial_float(t, PLAIN)};
    if (trial_in(t, 0, 7) == 0)
        m = M[0];
    M[1] = M[0], L[1] = L[0];
    memcpy(want, got, n * 4);
    t->k.merge(&M[0], &L[0], got, m, l, a, n);
    t->ref.merge(&M[1], &L[1], want, m, l, a, n);
    trial_same_floats(t, "M", &M[0], &M[1], 1);
    trial_same_floats(t, "L", &L[0], &L[1], 1);
    trial_same_floats(t, "A", got, want, n);
}
