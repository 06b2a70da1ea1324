/* The kernels: every slot of every target this machine has gives the bits of ref.c (random shapes
 * and numbers, kernel_trials.h; SEED varies them), ref.c is right in binary64, and kernels_init
 * finds a kernel that is not. KERNELS_EXHAUSTIVE=1 adds all 2^32 inputs of f32 to f16,
 * and all arguments of exp and tanh from -0 to -110. */
/* run-tests: long */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "kernel_trials.h"
#include "trials_attend.h"
#include "kernels/known_answers.h"
#include "kernels/math.h"
#include "kernels/math_constants.h"
#include "suite.h"

enum { TRIALS = 400, QUICK_TRIALS = 50 };

static uint64_t first_seed(void)
{
    const char *seed = getenv("SEED");
    return seed ? strtoull(seed, NULL, 10) : 1;
}

/* The level, or NULL and a skipped test */
static const struct level *find_level(size_t i)
{
    if (!level_find(i))
        suite_skip(levels[i].name, "not on this machine");
    return level_find(i);
}

/* _i: level and slot */
START_TEST(target_equals_ref)
{
    const struct level *level = find_level((size_t)_i / N_SLOTS);
    if (!level)
        return;
    struct trial t;
    trial_open(&t);
    size_t n = golden_is_quick() ? QUICK_TRIALS : TRIALS;
    ck_assert_int_eq(trial_run(&t, level, (size_t)_i % N_SLOTS, first_seed(), n), 0);
    trial_close(&t);
}
END_TEST

/* ---- ref.c in binary64 ---- */

static double bound_of(double magnitude)
{
    return 8 * 0x1p-24 * magnitude + 0x1p-140;
}

static void close_to(struct trial *t, double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        ck_abort_msg("%s: seed %llu: got %.9g, want %.9g, bound %.3g", t->slot,
                     (unsigned long long)t->seed, got, want, bound);
}

static void ref_matmul(struct trial *t, enum tern_type type)
{
    size_t k = trial_in(t, 1, 200), row = trial_in(t, 0, 15), up = (k + 63) / 64 * 64;
    float w[16 * 200], *x = trial_take(t, up * 4), y[16], scale[8], row_of_w[200];
    int8_t *q = trial_take(t, up);
    int32_t sum[8];
    const struct format *f = format_find(type);
    for (size_t i = 0; i < 16 * k; i++)
        w[i] = trial_float(t, PLAIN);
    for (size_t i = 0; i < k; i++)
        x[i] = trial_float(t, PLAIN);
    void *data = trial_take(t, format_tile_bytes(f, k));
    format_encode_matrix(f, data, w, 16, k);
    format_decode_row(f, row_of_w, data, row, k);
    t->ref.quantize(q, scale, sum, x, k);
    struct activations a = {
        .n = 1, .k = k, .stride = up, .x = x, .q = q, .scale = scale, .sum = sum};
    t->ref.matmul[type](y, 16, data, 0, 1, &a);
    double want = 0, size = 0;
    for (size_t i = 0; i < k; i++) {
        double xi = type_is_quantized(type) ? (double)q[i] * (double)scale[i / 32] : (double)x[i];
        want += row_of_w[i] * xi;
        size += fabs(row_of_w[i] * xi);
        close_to(t, xi, x[i], type_is_quantized(type) ? 0.5001 * (double)scale[i / 32] : 0);
    }
    close_to(t, y[row], want, bound_of(size));
}

static void ref_rows(struct trial *t)
{
    size_t n = trial_in(t, 1, 200);
    float *x = trial_floats(t, n, PLAIN), *w = trial_floats(t, n, PLAIN), *y = trial_take(t, n * 4);
    double squares = 0, exps = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (double)x[i] * x[i];
        exps += exp(x[i]);
    }
    t->slot = "rmsnorm";
    t->ref.rmsnorm(y, x, w, n, 1e-5f);
    for (size_t i = 0; i < n; i++) {
        double want = x[i] / sqrt(squares / (double)n + (double)1e-5f) * w[i];
        close_to(t, y[i], want, bound_of(fabs(want)));
    }
    t->slot = "log_sum_exp";
    close_to(t, t->ref.log_sum_exp(x, n), log(exps), bound_of(fabs(log(exps)) + 2));
    t->slot = "swiglu";
    t->ref.swiglu(y, x, w, n);
    for (size_t i = 0; i < n; i++)
        close_to(t, y[i], x[i] / (1 + exp(-(double)x[i])) * w[i], bound_of(fabs(x[i] * w[i])));
}

static void ref_rope(struct trial *t)
{
    enum { HALF = 40 };
    float *freq = trial_take(t, HALF * 4), *x = trial_floats(t, 2 * HALF, PLAIN), c[HALF], s[HALF];
    float before[2 * HALF];
    uint32_t position = (uint32_t)trial_in(t, 0, 1000000);
    memcpy(before, x, sizeof before);
    for (size_t i = 0; i < HALF; i++)
        freq[i] = (float)pow(10000, -(double)i / HALF);
    t->slot = "rope";
    t->ref.rope_angles(c, s, freq, HALF, position, 1);
    t->ref.rope(x, c, s, HALF);
    for (size_t i = 0; i < HALF; i++) {
        double angle = (float)position * freq[i], a = before[i], b = before[i + HALF];
        close_to(t, x[i], a * cos(angle) - b * sin(angle), bound_of(2));
        close_to(t, x[i + HALF], b * cos(angle) + a * sin(angle), bound_of(2));
    }
}

/* slope * position, each step of it in bf16 */
static double alibi_of(float slope, size_t position)
{
    float x = (float)position;
    for (int i = 0; i < 2; i++) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof x);
        bits += 0x7fff + (bits >> 16 & 1);
        bits &= 0xffff0000;
        memcpy(&x, &bits, sizeof x);
        x = i ? x : slope * x;
    }
    return x;
}

static void ref_attend(struct trial *t)
{
    enum { DIM = 24 };
    float *q = trial_floats(t, DIM, PLAIN), scores[BLOCK], m, l, a[DIM];
    struct span see = {.lo = (uint16_t)trial_in(t, 0, 255)};
    see.hi = (uint16_t)trial_in(t, see.lo + 1u, 256);
    struct attend b = {.q = {.n = 1, .k = DIM, .x = q}, .v_dim = DIM, .see = &see, .scale = 0.3f};
    float *k = trials_take_cache(t, TERN_CACHE_F32, DIM, see.lo, see.hi, true);
    float *v = trials_take_cache(t, TERN_CACHE_F32, DIM, see.lo, see.hi, false);
    b.k = k, b.v = v, b.m = &m, b.l = &l, b.a = a, b.scores = scores;
    size_t row = BLOCK * trial_in(t, 0, 4000) + see.hi - 1;
    struct alibi alibi = {(float)trial_in(t, 0, 100) / 100, (float)row};
    b.alibi = t->seed % 2 ? &alibi : NULL, b.first = row / BLOCK * BLOCK;
    attend_block(&t->ref, TERN_CACHE_F32, &b);
    double total = 0, want[DIM] = {0};
    for (size_t p = see.lo; p < see.hi; p++) {
        double s = 0;
        for (size_t d = 0; d < DIM; d++)
            s += (double)q[d] * k[(p / 16 * DIM + d) * 16 + p % 16];
        if (b.alibi)
            s += alibi_of(alibi.slope, b.first + p) - alibi_of(alibi.slope, row);
        total += exp(s * 0.3f);
        for (size_t d = 0; d < DIM; d++)
            want[d] += exp(s * 0.3f) * v[p * DIM + d];
    }
    t->slot = "attend";
    for (size_t d = 0; d < DIM; d++)
        close_to(t, a[d] / l, want[d] / total, 1e-5);
    close_to(t, m + log(l), log(total), 1e-5);
}

START_TEST(ref_is_right)
{
    struct trial t;
    trial_open(&t);
    for (t.seed = first_seed(); t.seed < first_seed() + 200; t.seed++) {
        t.state = t.seed;
        for (int type = 0; type < N_TYPES; type++) {
            t.used = 0;
            t.slot = format_find((uint64_t)type)->name;
            ref_matmul(&t, (enum tern_type)type);
        }
        t.used = 0;
        ref_rows(&t);
        t.used = 0;
        ref_rope(&t);
        t.used = 0;
        ref_attend(&t);
    }
    trial_close(&t);
}
END_TEST

/* ---- elementary steps inside kernels, one by one ---- */

/* exp (and tanh) of a target, out of attention: V is the identity, so a[p] = exp(s[p] - m). */
static void exps_of(const struct kernels *k, float *e, const float *s, float softcap)
{
    static float keys[BLOCK], identity[BLOCK * BLOCK], scores[BLOCK];
    float one = 1, m, l;
    for (size_t p = 0; p < BLOCK; p++)
        identity[p * BLOCK + p] = 1;
    memcpy(keys, s, sizeof keys);
    struct span see = {0, BLOCK};
    struct attend b = {.q = {.n = 1, .k = 1, .x = &one}, .v_dim = BLOCK, .scale = 1, .see = &see};
    b.k = keys, b.v = identity, b.softcap = softcap;
    b.m = &m, b.l = &l, b.a = e, b.scores = scores;
    attend_block(k, TERN_CACHE_F32, &b);
}

/* s[0] is 0, the largest */
static void check_exps(const struct kernels *k, const float *s)
{
    float e[BLOCK];
    for (int capped = 0; capped < 2; capped++) {
        exps_of(k, e, s, capped ? 5 : 0);
        for (size_t i = 0; i < BLOCK; i++) {
            float want = math_exp(capped ? 5 * math_tanh(s[i] / 5) : s[i]);
            if (f32_bits(e[i]) != f32_bits(want))
                ck_abort_msg("%s: exp(%a), capped %d: got %a, want %a", k->name, s[i], capped, e[i],
                             want);
        }
    }
}

START_TEST(exp_and_tanh)
{
    const struct level *level = find_level((size_t)_i);
    if (!level)
        return;
    struct kernels k;
    float s[BLOCK] = {0};
    kernels_fill(&k, level->cpu);
    uint32_t edges[] = {f32_bits(EXP_MIN), f32_bits(5 * -TANH_SMALL)};
    for (size_t i = 1; i < BLOCK; i++) /* numbers around both edges */
        s[i] = f32_of_bits(edges[i / 128] + (uint32_t)(i % 128) - 64);
    check_exps(&k, s);
    uint32_t u = 0x80000000, step = getenv("KERNELS_EXHAUSTIVE") ? 1 : 8191;
    while (u < 0xc2dc0000) { /* from -0 to -110 */
        for (size_t i = 1; i < BLOCK; i++, u += step)
            s[i] = f32_of_bits(u);
        check_exps(&k, s);
    }
}
END_TEST

START_TEST(halves)
{
    const struct level *level = find_level((size_t)_i);
    if (!level)
        return;
    struct kernels k;
    kernels_fill(&k, level->cpu);
    uint32_t step = getenv("KERNELS_EXHAUSTIVE") ? 1 : 2039;
    for (uint64_t u = 0; u < (uint64_t)1 << 32;) {
        float x[256];
        uint16_t y[256];
        for (size_t i = 0; i < 256; i++, u += step)
            x[i] = f32_of_bits((uint32_t)u);
        k.to_f16(y, x, 256);
        for (size_t i = 0; i < 256; i++)
            if (y[i] != f16_of_f32(x[i]))
                ck_abort_msg("%s: f16 of bits %08x is %04x, want %04x", level->name, f32_bits(x[i]),
                             y[i], f16_of_f32(x[i]));
    }
    float one[16] = {1}, y[16];
    struct activations a = {.n = 1, .k = 1, .stride = 16, .x = one};
    for (uint32_t h = 0; h < 65536; h += 16) {
        uint16_t w[16];
        for (size_t i = 0; i < 16; i++)
            w[i] = (uint16_t)(h + i);
        k.matmul[TERN_F16](y, 16, w, 0, 1, &a);
        for (size_t i = 0; i < 16; i++) {
            float want = f16_to_f32(w[i]) + 0.0f;
            ck_assert(f32_bits(y[i]) == f32_bits(want) || (y[i] != y[i] && want != want));
        }
    }
}
END_TEST

/* ---- choosing a target ---- */

START_TEST(cpu_bits_follow_from_the_name)
{
    const unsigned have = cpu_detect();
    struct tern_error e = {0};
    unsigned bits = ~0u;
    ck_assert_int_eq(kernels_cpu(NULL, &bits, &e), TERN_OK);
    ck_assert_uint_eq(bits, have);
    ck_assert_int_eq(kernels_cpu("ref", &bits, &e), TERN_OK);
    ck_assert_uint_eq(bits, 0);
    ck_assert_int_eq(kernels_cpu("pentium", &bits, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "'pentium'"));
    ck_assert_ptr_nonnull(strstr(e.text, "it can run: plain, ref"));
    ck_assert_int_eq(kernels_cpu("", &bits, NULL), TERN_USAGE);
    for (size_t i = 0; i < N_LEVELS; i++) {
        bool can = level_find(i) != NULL;
        ck_assert_int_eq(kernels_cpu(levels[i].name, &bits, &e), can ? TERN_OK : TERN_USAGE);
        if (can)
            ck_assert_uint_eq(bits, levels[i].cpu);
    }
}
END_TEST

START_TEST(init_chooses)
{
    struct kernels k;
    struct tern_error e = {0};
    ck_assert_int_eq(kernels_init(&k, "ref", &e), TERN_OK);
    ck_assert_str_eq(k.name, "ref");
    ck_assert_int_eq(kernels_init(&k, NULL, &e), TERN_OK);
    const char *best = k.name, *widest = "ref";
    size_t i = 0;
    for (size_t l = 0; l < N_LEVELS; l++)
        widest = level_find(l) ? levels[l].name : widest;
    ck_assert_str_eq(best, widest);
    for (const char *const *name = kernels_targets(); *name; name++, i++)
        if (kernels_init(&k, *name, &e) == TERN_OK)
            ck_assert_str_eq(k.name, *name);
        else
            ck_assert_int_eq(e.code, TERN_USAGE);
    ck_assert_uint_ge(i, 1);
    ck_assert_int_eq(kernels_init(&k, best, &e), TERN_OK);
    ck_assert_int_eq(kernels_init(&k, "nonsense", &e), TERN_USAGE);
}
END_TEST

/* A processor that errs in one slot: its rmsnorm skips the last element, and so on. */
static void wrong_add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        y[i] += x[i];
}

static void wrong_divide(float *y, const float *x, float d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * (1 / d);
}

static struct kernels good;

static void wrong_layernorm(float *y, const float *x, const float *w, const float *b, size_t n,
                            float eps)
{
    (void)b;
    good.layernorm(y, x, w, NULL, n, eps);
}

static void wrong_activate(float *y, const float *gate, const float *up, size_t n,
                           enum activation kind, float limit)
{
    good.activate(y, gate, up, n, kind == ACT_GELU ? ACT_GELU_TANH : kind, limit);
}

static void wrong_row(float *x, float c, size_t n)
{
    (void)x, (void)c, (void)n;
}

static void wrong_add_scaled(float *y, const float *x, float c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i] * c; /* two roundings */
}

static void wrong_mix_heads(const struct attend *b, size_t n)
{
    good.mix_heads(b, n - 1);
}

static void wrong_widen(float *y, const void *v, size_t dim, size_t n)
{
    good.widen[TERN_CACHE_F16](y, v, dim, n - 16);
}

static void wrong_pack(float *y, const void *v, size_t dim, size_t n)
{
    for (size_t i = 0; i < n * dim; i++)
        y[i] = ((const float *)v)[i];
}

static void wrong_turn(float *y, const void *k, enum tern_cache_type type, size_t k_dim,
                       size_t v_dim, size_t n)
{
    good.turn(y, k, type, k_dim, v_dim, n - 16);
}

static bool has_known_answer(const struct kernels *k, const char *slot, const char *type)
{
    char want[32];
    const char *name;
    uint64_t answer;
    snprintf(want, sizeof want, "%s %s", slot, type);
    for (size_t i = 0; (name = known_answer(k, i, &answer)); i++)
        if (!strcmp(name, want))
            return true;
    return false;
}

START_TEST(every_format_has_known_answers)
{
    struct kernels k;
    kernels_fill(&k, 0);
    for (size_t type = 0; type < N_TYPES; type++) {
        const char *name = format_find(type)->name;
        ck_assert_msg(has_known_answer(&k, "matmul", name), "%s", name);
        ck_assert_msg(has_known_answer(&k, "get_row", name), "%s", name);
    }
}
END_TEST

START_TEST(known_answers_find_faults)
{
    struct kernels k;
    kernels_fill(&good, 0);
    ck_assert_ptr_null(known_wrong(&good));
    for (size_t i = 0; i < N_LEVELS; i++)
        if (level_find(i)) {
            kernels_fill(&k, levels[i].cpu);
            ck_assert_ptr_null(known_wrong(&k));
        }
    k = good;
    k.add = wrong_add;
    ck_assert_str_eq(known_wrong(&k), "add");
    k = good;
    k.divide = wrong_divide;
    ck_assert_str_eq(known_wrong(&k), "divide");
    k = good;
    k.matmul[TERN_F16] = good.matmul[TERN_BF16];
    ck_assert_str_eq(known_wrong(&k), "matmul f16");
    k = good;
    k.score[TERN_CACHE_F32] = good.score[TERN_CACHE_F16];
    ck_assert_str_eq(known_wrong(&k), "attend f32");
    k = good;
    k.mix[TERN_CACHE_Q8] = good.mix[TERN_CACHE_F16];
    ck_assert_str_eq(known_wrong(&k), "attend q8");
    k = good;
    k.layernorm = wrong_layernorm;
    ck_assert_str_eq(known_wrong(&k), "layernorm");
    k = good;
    k.activate = wrong_activate;
    ck_assert_str_eq(known_wrong(&k), "gelu");
    k = good;
    k.add_scaled = wrong_add_scaled;
    ck_assert_str_eq(known_wrong(&k), "add_scaled");
    k = good;
    k.clamp = wrong_row;
    ck_assert_str_eq(known_wrong(&k), "clamp");
    k.softcap = wrong_row;
    ck_assert_str_eq(known_wrong(&k), "softcap");
    k.scale = wrong_row;
    ck_assert_str_eq(known_wrong(&k), "scale");
    k = good;
    k.pack_v[TERN_CACHE_F16] = k.pack_v[TERN_CACHE_F32] = k.pack_v[TERN_CACHE_Q8] = wrong_pack;
    k.mix_packed = good.mix[TERN_CACHE_F32];
    ck_assert_str_eq(known_wrong(&k), "packed f16");
    k = good;
    k.turn = wrong_turn;
    ck_assert_str_eq(known_wrong(&k), "turned f16");
    k = good;
    k.mix_heads = wrong_mix_heads;
    ck_assert_str_eq(known_wrong(&k), "mix_heads");
    k = good;
    k.widen[TERN_CACHE_F16] = wrong_widen;
    ck_assert_str_eq(known_wrong(&k), "widen f16");
    k = good;
    k.widen[TERN_CACHE_Q8] = wrong_widen;
    ck_assert_str_eq(known_wrong(&k), "widen q8");
}
END_TEST

/* A NaN is never cut to a number, or it would pass for success. _i: level */
START_TEST(nan_stays)
{
    enum { N = 37 };
    const struct level *level = level_find((size_t)_i);
    struct kernels k;
    float x[N], y[N], one[N];
    if (!level)
        return;
    kernels_fill(&k, level->cpu);
    for (size_t i = 0; i < N; i++)
        x[i] = NAN, one[i] = 1;
    for (int kind = 0; kind < N_ACTIVATIONS; kind++) {
        k.activate(y, x, NULL, N, (enum activation)kind, 7);
        ck_assert_msg(isnan(y[0]) && isnan(y[N - 1]), "activation %d", kind);
        k.activate(y, one, x, N, (enum activation)kind, 7);
        ck_assert_msg(isnan(y[0]) && isnan(y[N - 1]), "activation %d, up", kind);
    }
    memcpy(y, x, sizeof y);
    k.clamp(y, 8, N);
    ck_assert(isnan(y[0]) && isnan(y[N - 1]));
    k.softcap(y, 8, N);
    ck_assert(isnan(y[0]) && isnan(y[N - 1]));
}
END_TEST

SUITE("kernels", LOOP(target_equals_ref, 0, N_LEVELS *N_SLOTS), TEST(ref_is_right),
      LOOP(exp_and_tanh, 0, N_LEVELS), LOOP(halves, 0, N_LEVELS), LOOP(nan_stays, 0, N_LEVELS),
      TEST(cpu_bits_follow_from_the_name), TEST(init_chooses), TEST(every_format_has_known_answers),
      TEST(known_answers_find_faults))
