/* The encoder of q4 and q4c: never worse than rounding to nearest, exact where it can be, and the
 * factors that it is guided by. */
#include "toy.h"

#include "base/pool.h"
#include "kernels/kernels.h"
#include "quantize/encode.h"
#include "quantize/factor.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>

enum { TRIALS = 200, N = 70 };

static uint64_t state = 1;

/* Uniform in [-1, 1). */
static float uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(state >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Numbers of many magnitudes, with a few large ones, some zeros, and sometimes all alike. */
static float weight(int trial, unsigned r)
{
    float x = uniform();
    if (trial % 7 == 6)
        return r % 2 ? 0.5f : -0.5f;
    if (trial % 5 == 4 && x > 0.9f)
        x *= 40;
    return trial % 3 == 2 && x < -0.5f ? 0 : ldexpf(x, trial % 11 - 5);
}

/* sum over j of d_j (b_j - got_j - what the errors before j add)^2, in double */
static double loss_of(const struct group *g, unsigned r, const float *got)
{
    double loss = 0;
    for (unsigned j = 0; j < GROUP; j++) {
        double e = (double)g->w[j * TILE_ROWS + r] - (double)got[j];
        if (g->fix)
            e += (double)g->fix[j * TILE_ROWS + r];
        for (unsigned i = 0; g->u && i < j; i++)
            e += (double)g->u[j * g->u_stride + i] *
                 ((double)g->w[i * TILE_ROWS + r] - (double)got[i]);
        loss += (g->d ? (double)g->d[j] : 1) * e * e;
    }
    return loss;
}

/* GGUF's IQ4_NL, and the numbers of MXFP4 but for its second zero. */
static const int8_t iq4[CODES] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113},
                    mxfp4[CODES] = {-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12};

/* Of the table asked for last */
static const struct values *values_of(const int8_t *table)
{
    static struct values v;
    if (table)
        values_make(&v, table);
    return table ? &v : NULL;
}

static void nearest_rounding(float *back, const struct group *g, const int8_t *table)
{
    const struct format *f = format_find(table ? TERN_Q4C : TERN_Q4);
    float group[TILE_ROWS * GROUP];
    unsigned char tile[32 + 288];
    for (unsigned r = 0; r < TILE_ROWS; r++)
        for (unsigned j = 0; j < GROUP; j++)
            group[r * GROUP + j] = g->w[j * TILE_ROWS + r];
    format_start_tile(f, tile, table);
    f->encode(tile, 0, group, GROUP);
    f->decode(back, tile, 0, GROUP);
}

/* What a file has of these codes: that is their values times their scales. */
static void store_and_load(float *back, const struct codes *c, const int8_t *table)
{
    const struct format *f = format_find(table ? TERN_Q4C : TERN_Q4);
    unsigned char tile[32 + 288];
    uint8_t codes[GROUP][TILE_ROWS];
    format_start_tile(f, tile, table);
    for (unsigned j = 0; j < GROUP; j++)
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            const int8_t *values = format_values(f, tile);
            const int8_t *found = memchr(values, (int8_t)c->q[j][r], CODES);
            ck_assert_msg(found != NULL, "%g has no code", (double)c->q[j][r]);
            codes[j][r] = (uint8_t)(found - values);
        }
    f->store(tile, 0, (const uint8_t(*)[TILE_ROWS])codes, c->scale);
    f->decode(back, tile, 0, GROUP);
}

/* Compares one group with nearest rounding, with and without weights of the columns. */
static void compare(const struct group *g, const int8_t *table, int trial)
{
    float nearest[TILE_ROWS * GROUP], back[TILE_ROWS * GROUP];
    struct codes c;
    nearest_rounding(nearest, g, table);
    encode_group(g, &c);
    store_and_load(back, &c, table);
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        double ours = loss_of(g, r, back + r * GROUP), theirs = loss_of(g, r, nearest + r * GROUP);
        ck_assert_msg(ours <= theirs * (1 + 1e-5) + 1e-30, "trial %d row %u: %g, nearest %g", trial,
                      r, ours, theirs);
        for (unsigned j = 0; j < GROUP; j++)
            ck_assert(back[r * GROUP + j] == c.q[j][r] * c.scale[r]);
    }
}

START_TEST(never_worse_than_nearest)
{
    float w[GROUP * TILE_ROWS], d[GROUP];
    for (int trial = 0; trial < TRIALS; trial++) {
        for (unsigned j = 0; j < GROUP; j++) {
            d[j] = expf(3 * uniform());
            for (unsigned r = 0; r < TILE_ROWS; r++)
                w[j * TILE_ROWS + r] = weight(trial, r);
        }
        for (unsigned i = 0; i < 3; i++) {
            const int8_t *table = i == 0 ? NULL : i == 1 ? iq4 : mxfp4;
            compare(&(struct group){.w = w, .values = values_of(table)}, table, trial);
            compare(&(struct group){.w = w, .values = values_of(table), .d = d}, table, trial);
        }
    }
}
END_TEST

/* Numbers of a table times a scale of f16 come back as they were, when one is at an end of it. */
START_TEST(numbers_of_the_table_are_kept)
{
    float w[GROUP * TILE_ROWS], back[TILE_ROWS * GROUP];
    struct codes c;
    for (int trial = 0; trial < TRIALS; trial++) {
        const int8_t *table = trial % 2 ? iq4 : mxfp4;
        for (unsigned i = 0; i < GROUP * TILE_ROWS; i++) {
            unsigned r = i % TILE_ROWS, at = i / TILE_ROWS == r ? r % 2 * (CODES - 1)
                                                                : (unsigned)(8 + 7.99f * uniform());
            float scale = f16_to_f32((uint16_t)(0x0400 + 37 * r + 251 * (unsigned)(trial % 100)));
            w[i] = (float)table[at] * (r == 7 ? 0 : r % 3 ? scale : -scale);
        }
        encode_group(&(struct group){.w = w, .values = values_of(table)}, &c);
        store_and_load(back, &c, table);
        for (unsigned i = 0; i < GROUP * TILE_ROWS; i++)
            ck_assert_msg(back[i % TILE_ROWS * GROUP + i / TILE_ROWS] == w[i], "trial %d", trial);
    }
}
END_TEST

/* One huge value among small ones is kept as well as f16 holds its scale. */
START_TEST(one_huge_value)
{
    for (int i = 0; i < 2; i++) {
        float w[GROUP * TILE_ROWS], got[GROUP];
        struct codes c;
        for (unsigned j = 0; j < GROUP * TILE_ROWS; j++)
            w[j] = 1e-3f * uniform();
        for (unsigned r = 0; r < TILE_ROWS; r++)
            w[r * TILE_ROWS + r] = r % 2 ? 30000 : -30000;
        struct group g = {.w = w, .values = values_of(i ? mxfp4 : NULL)};
        encode_group(&g, &c);
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            for (unsigned j = 0; j < GROUP; j++)
                got[j] = c.scale[r] * c.q[j][r];
            ck_assert(fabsf(got[r] - w[r * TILE_ROWS + r]) < 30000 * 0x1p-10f);
        }
    }
}
END_TEST

/* ---- polish ---- */

/* e^T H e of row r */
static double whole_loss(const float (*h)[GROUP], const float (*e)[TILE_ROWS], unsigned r)
{
    double loss = 0;
    for (unsigned i = 0; i < GROUP; i++)
        for (unsigned j = 0; j < GROUP; j++)
            loss += (double)e[i][r] * (double)h[i][j] * (double)e[j][r];
    return loss;
}

/* H = sum of 40 squares of vectors whose neighbours are alike */
static void make_h(float (*h)[GROUP])
{
    memset(h, 0, GROUP * sizeof *h);
    for (int n = 0; n < 40; n++) {
        float x[GROUP], last = 0;
        for (unsigned i = 0; i < GROUP; i++)
            x[i] = last = uniform() + 0.8f * last;
        for (unsigned i = 0; i < GROUP; i++)
            for (unsigned j = 0; j < GROUP; j++)
                h[i][j] += x[i] * x[j];
    }
}

static void multiply(float (*he)[TILE_ROWS], const float (*h)[GROUP], const float (*e)[TILE_ROWS])
{
    memset(he, 0, GROUP * sizeof *he);
    for (unsigned i = 0; i < GROUP; i++)
        for (unsigned j = 0; j < GROUP; j++)
            for (unsigned r = 0; r < TILE_ROWS; r++)
                he[i][r] += h[i][j] * e[j][r];
}

/* Never a loss for any row, a quarter or more gained in all; errors and H e stay true. */
START_TEST(polish_descends)
{
    float w[GROUP * TILE_ROWS], h[GROUP][GROUP], e[GROUP][TILE_ROWS], he[GROUP][TILE_ROWS];
    double before = 0, after = 0;
    for (int trial = 0; trial < 40; trial++) {
        struct group g = {.w = w, .values = values_of(trial % 2 ? iq4 : NULL)};
        struct codes c;
        double was[TILE_ROWS];
        make_h(h);
        for (unsigned i = 0; i < GROUP * TILE_ROWS; i++)
            w[i] = i % TILE_ROWS == 3 ? 0 : uniform() + uniform();
        encode_group(&g, &c);
        for (unsigned j = 0; j < GROUP; j++)
            for (unsigned r = 0; r < TILE_ROWS; r++)
                e[j][r] = w[j * TILE_ROWS + r] - c.scale[r] * c.q[j][r];
        multiply(he, (const float(*)[GROUP])h, (const float(*)[TILE_ROWS])e);
        for (unsigned r = 0; r < TILE_ROWS; r++)
            before += was[r] =
                whole_loss((const float(*)[GROUP])h, (const float(*)[TILE_ROWS])e, r);
        polish_group(&c, g.values, (const float(*)[GROUP])h, e, he);
        for (unsigned j = 0; j < GROUP; j++)
            for (unsigned r = 0; r < TILE_ROWS; r++) {
                float true_e = w[j * TILE_ROWS + r] - c.scale[r] * c.q[j][r];
                ck_assert(fabsf(e[j][r] - true_e) < 1e-5f);
                e[j][r] = true_e;
            }
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            double now = whole_loss((const float(*)[GROUP])h, (const float(*)[TILE_ROWS])e, r);
            ck_assert_msg(now <= was[r] * (1 + 1e-5), "trial %d row %u: %g, was %g", trial, r, now,
                          was[r]);
            after += now;
        }
        float again[GROUP][TILE_ROWS];
        multiply(again, (const float(*)[GROUP])h, (const float(*)[TILE_ROWS])e);
        for (unsigned j = 0; j < GROUP; j++)
            for (unsigned r = 0; r < TILE_ROWS; r++)
                ck_assert(fabsf(he[j][r] - again[j][r]) < 1e-3f);
    }
    ck_assert_msg(after < 0.75 * before, "%g of %g", after, before);
}
END_TEST

/* On average it is much better: a third less squared error on uniform numbers, more on normal. */
START_TEST(much_better_on_average)
{
    float w[GROUP * TILE_ROWS], got[GROUP];
    double ours = 0, steps = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct group g = {.w = w};
        struct codes c;
        for (unsigned i = 0; i < GROUP * TILE_ROWS; i++)
            w[i] = uniform() + uniform() + uniform();
        encode_group(&g, &c);
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            float m = 0;
            for (unsigned j = 0; j < GROUP; j++) {
                got[j] = c.q[j][r] * c.scale[r];
                m = fmaxf(m, fabsf(w[j * TILE_ROWS + r]));
            }
            ours += loss_of(&g, r, got);
            steps += GROUP * (double)m * (double)m / 64 / 12; /* errors uniform in a step m / 8 */
        }
    }
    ck_assert_msg(ours < 0.9 * steps, "%g of %g", ours, steps);
}
END_TEST

/* ---- factors ---- */

struct setting {
    struct pool *pool;
    struct kernels kernels;
    struct gram gram;
    struct gram_scratch scratch;
    struct factor factor;
    float *x; /* [N, k] */
    size_t k;
};

static void open_setting(struct setting *s, size_t k, int n_threads)
{
    struct tern_error e;
    ck_assert(!pool_open(&s->pool, n_threads, &e) && !kernels_init(&s->kernels, NULL, &e));
    s->k = k;
    s->gram = gram_shape(k);
    s->gram.h = calloc(s->gram.k * s->gram.stride, sizeof(float));
    s->x = malloc(N * k * sizeof(float));
    ck_assert(!gram_scratch_open(&s->scratch, N, k, n_threads, &e));
    ck_assert(!factor_open(&s->factor, k, &e));
    state = k;
    for (size_t i = 0; i < N * k; i++) /* neighbours are alike */
        s->x[i] = uniform() + (i ? 0.7f * s->x[i - 1] : 0);
    for (size_t i = 0; i < N; i++)
        memcpy(s->scratch.x + i * s->scratch.x_stride, s->x + i * k, k * sizeof(float));
    gram_add(&s->gram, &s->scratch, N, k, &s->kernels, s->pool);
}

static void close_setting(struct setting *s)
{
    pool_close(s->pool);
    gram_scratch_close(&s->scratch);
    factor_close(&s->factor);
    free(s->gram.h);
    free(s->x);
}

static const size_t widths[] = {32, 40, 172, 256};

START_TEST(factors_multiply_back)
{
    struct setting s;
    open_setting(&s, widths[_i], 2);
    ck_assert(factor_make(&s.factor, &s.gram, 0.01, s.pool));
    double mean = 0, d = 0;
    for (size_t i = 0; i < s.gram.k; i++)
        mean += (double)s.gram.h[i * s.gram.stride + i] / (double)s.gram.k;
    for (size_t i = 0; i < s.k; i++)
        for (size_t j = 0; j <= i; j++) {
            double h = 0;
            for (size_t n = 0; n < N; n++)
                h += (double)s.x[n * s.k + i] * (double)s.x[n * s.k + j];
            ck_assert(fabs(h - (double)s.gram.h[i * s.gram.stride + j]) < 1e-4 * mean);
        }
    /* D is stored up to a factor: take it from the last column, where U D U^T is D alone. */
    size_t last = s.gram.k - 1;
    d = ((double)s.gram.h[last * s.gram.stride + last] + 0.01 * mean) / (double)s.factor.d[last];
    for (size_t i = 0; i < s.gram.k; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = i; c < s.gram.k; c++)
                sum += (c == i ? 1 : (double)s.factor.u[c * s.factor.stride + i]) *
                       (c == j ? 1 : (double)s.factor.u[c * s.factor.stride + j]) *
                       (double)s.factor.d[c];
            double want = (double)s.gram.h[i * s.gram.stride + j] + (i == j ? 0.01 * mean : 0);
            ck_assert_msg(fabs(sum * d - want) < 2e-4 * mean, "%zu %zu: %g, want %g", i, j, sum * d,
                          want);
        }
    close_setting(&s);
}
END_TEST

START_TEST(threads_change_no_bit)
{
    struct setting a, b;
    open_setting(&a, 172, 1);
    ck_assert(factor_make(&a.factor, &a.gram, 0.01, a.pool));
    for (int n_threads = 2; n_threads <= 5; n_threads++) {
        open_setting(&b, 172, n_threads);
        ck_assert(factor_make(&b.factor, &b.gram, 0.01, b.pool));
        ck_assert(!memcmp(a.factor.d, b.factor.d, a.gram.k * sizeof(float)));
        for (size_t j = 0; j < a.gram.k; j++)
            ck_assert(!memcmp(a.factor.u + j * a.factor.stride, b.factor.u + j * b.factor.stride,
                              j * sizeof(float)));
        close_setting(&b);
    }
    close_setting(&a);
}
END_TEST

START_TEST(zeros_and_infinities)
{
    struct setting s;
    open_setting(&s, 64, 1);
    memset(s.gram.h, 0, s.gram.k * s.gram.stride * sizeof(float));
    ck_assert(factor_make(&s.factor, &s.gram, 0.01, s.pool));
    for (size_t j = 0; j < 64; j++) {
        ck_assert(s.factor.d[j] == 1);
        for (size_t i = 0; i < j; i++)
            ck_assert(s.factor.u[j * s.factor.stride + i] == 0);
    }
    s.gram.h[5 * s.gram.stride + 5] = INFINITY;
    ck_assert(!factor_make(&s.factor, &s.gram, 0.01, s.pool));
    s.gram.h[5 * s.gram.stride + 5] = NAN;
    ck_assert(!factor_make(&s.factor, &s.gram, 0.01, s.pool));
    close_setting(&s);
}
END_TEST

/* Wide matrices: bands of at most 4096 columns, multiples of 32, all columns in one of them. */
START_TEST(bands_are_bounded)
{
    for (size_t k = 1; k < 40000; k += 37) {
        struct gram g = gram_shape(k);
        ck_assert(g.k >= k && g.k < k + 32 && g.k % 32 == 0 && g.band % 32 == 0);
        ck_assert(g.band <= 4096 && g.band <= g.k && g.stride >= g.band && g.stride % 64 == 0);
    }
}
END_TEST

SUITE("encode", TEST(never_worse_than_nearest), TEST(numbers_of_the_table_are_kept),
      TEST(one_huge_value), TEST(polish_descends), TEST(much_better_on_average),
      LOOP(factors_multiply_back, 0, 4), TEST(threads_change_no_bit), TEST(zeros_and_infinities),
      TEST(bands_are_bounded))
