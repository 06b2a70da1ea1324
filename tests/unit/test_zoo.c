/* The attention zoo. On arrays: every kind against the engine's kernel on random shapes (equal bits
 * where the order is the same, else within BOUND of the largest value), relatives against what their
 * formulas promise. In a context: every kind over a whole model, for every golden model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "golden.h"
#include "suite.h"
#include "tern_lab.h"

enum { N_SHAPES = 60, N_ROWS = 20 };

/* Of the largest |v|: f32 sums of at most 700 terms whose weights add up to 1. Measured 8e-7. */
#define BOUND 3e-6

static uint64_t state;

static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static size_t from_to(size_t low, size_t high)
{
    return low + next() % (high - low + 1);
}

static float *randoms(size_t n, float size)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++)
        x[i] = size * ((float)(next() % 65536) / 32768 - 1);
    return x;
}

static float *room(size_t n)
{
    float *x = calloc(n + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

struct world { /* arrays of a random shape, owned */
    struct tern_zoo z;
    float *q, *k, *v, *sinks, *alibi;
    size_t n_out, n_weights;
};

static void world_open(struct world *w, uint64_t seed)
{
    static const size_t groups[] = {1, 2, 4, 7}, dims[] = {2, 8, 24, 64};
    state = seed * 0x9e3779b97f4a7c15u + 1;
    size_t kv = from_to(1, 3), heads = kv * groups[next() % 4], d = dims[next() % 4];
    size_t keys = seed % 3 ? from_to(1, 60) : from_to(200, 700), rows = from_to(1, keys);
    size_t most = golden_is_quick() && keys > 60 ? 5 : 40; /* over several blocks all the same */
    rows = rows > most ? most : rows;
    w->q = randoms(2 * rows * heads * d, 2), w->k = randoms(2 * keys * kv * d, 2);
    w->v = randoms(2 * keys * kv * d, 1), w->sinks = randoms(heads, 3);
    w->alibi = randoms(heads, 1);
    for (size_t h = 0; h < heads; h++)
        w->alibi[h] = fabsf(w->alibi[h]);
    w->z = (struct tern_zoo){.n_seqs = 2, .n_rows = rows, .n_keys = keys, .n_heads = heads};
    w->z.n_kv_heads = kv, w->z.head_dim = d, w->z.q = w->q, w->z.k = w->k, w->z.v = w->v;
    w->z.window = next() % 2 ? from_to(1, keys) : 0;
    w->z.cap = next() % 3 ? 0 : 4;
    w->z.sinks = next() % 2 ? w->sinks : NULL;
    w->z.alibi = next() % 3 ? NULL : w->alibi;
    w->n_out = 2 * rows * heads * d, w->n_weights = 2 * heads * rows * keys;
}

static void world_close(struct world *w)
{
    free(w->q);
    free(w->k);
    free(w->v);
    free(w->sinks);
    free(w->alibi);
}

/* Runs a kind on z; the result is the caller's to free. */
static float *run(struct tern_zoo z, const char *name, size_t n_out, float *weights,
                  struct tern_zoo_cost *cost)
{
    struct tern_error e = {0};
    float *out = room(n_out);
    z.out = out, z.weights = weights;
    ck_assert_msg(!tern_zoo(&z, name, cost, &e), "%s: %s", name, e.text);
    return out;
}

static void near(const char *what, const float *got, const float *want, size_t n, double bound)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound))
            ck_abort_msg("%s [%zu]: got %.8f, want %.8f", what, i, got[i], want[i]);
}

START_TEST(kinds_agree_with_the_engine)
{
    static const char *const kinds[] = {"naive", "online", "split", "window", "sinks"};
    struct world w;
    if (!golden_is_due(_i) || golden_is_threaded()) /* it is of one thread */
        return;
    world_open(&w, (uint64_t)_i);
    struct tern_zoo_cost cost, own;
    float *want = run(w.z, "engine", w.n_out, NULL, &own);
    float *got = run(w.z, "blocked", w.n_out, NULL, &cost);
    ck_assert_msg(!memcmp(got, want, w.n_out * sizeof *got), "blocked has other bits");
    ck_assert_uint_eq(cost.macs, own.macs);
    free(got);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(kinds[i], "sinks") && !w.z.sinks)
            continue; /* it adds some */
        got = run(w.z, kinds[i], w.n_out, NULL, NULL);
        near(kinds[i], got, want, w.n_out, BOUND);
        free(got);
    }
    free(want);
    world_close(&w);
}
END_TEST

/* Weights are those by which v becomes out, and with what a sink takes they add up to 1. */
START_TEST(weights_make_the_output)
{
    static const char *const kinds[] = {"naive",  "online",        "blocked", "split",
                                        "window", "bidirectional", "linear"};
    struct world w;
    world_open(&w, (uint64_t)_i);
    struct tern_zoo *z = &w.z;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        float *weights = room(w.n_weights), *sum = room(z->head_dim);
        if (!strcmp(kinds[n], "linear"))
            z->window = 0, z->sinks = z->alibi = NULL, z->cap = 0;
        float *out = run(*z, kinds[n], w.n_out, weights, NULL);
        for (size_t r = 0; r < 2 * z->n_heads * z->n_rows; r++) {
            size_t seq = r / z->n_rows / z->n_heads, h = r / z->n_rows % z->n_heads;
            size_t kv = h / (z->n_heads / z->n_kv_heads), d = z->head_dim;
            float all = 0;
            memset(sum, 0, d * sizeof *sum);
            for (size_t j = 0; j < z->n_keys; j++) {
                float p = weights[r * z->n_keys + j];
                all += p;
                for (size_t c = 0; c < d; c++)
                    sum[c] += p * z->v[((seq * z->n_keys + j) * z->n_kv_heads + kv) * d + c];
            }
            size_t row = seq * z->n_rows + r % z->n_rows;
            near(kinds[n], out + (row * z->n_heads + h) * d, sum, d, 2 * BOUND);
            ck_assert_msg(z->sinks ? all < 1 : fabs(all - 1) < 2 * BOUND, "%s: %f", kinds[n], all);
        }
        free(out);
        free(sum);
        free(weights);
    }
    world_close(&w);
}
END_TEST

/* A causal mask is what no mask is; a row that sees nothing is 0. */
START_TEST(masks)
{
    static const char *const kinds[] = {"naive", "online", "blocked", "split", "window"};
    struct world w;
    world_open(&w, 5);
    w.z.window = 0, w.z.sinks = NULL;
    size_t rows = w.z.n_rows, keys = w.z.n_keys;
    unsigned char *mask = calloc(rows, keys), *nothing = malloc(rows * keys);
    ck_assert(mask && nothing);
    memset(nothing, 1, rows * keys);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < keys; j++)
            mask[i * keys + j] = j > keys - rows + i;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        struct tern_zoo z = w.z;
        float *want = run(z, kinds[n], w.n_out, NULL, NULL);
        z.bidirectional = 1, z.mask = mask;
        float *got = run(z, kinds[n], w.n_out, NULL, NULL);
        ck_assert_msg(!memcmp(got, want, w.n_out * sizeof *got), "%s", kinds[n]);
        free(got);
        z.mask = nothing;
        got = run(z, kinds[n], w.n_out, NULL, NULL);
        for (size_t i = 0; i < w.n_out; i++)
            ck_assert_msg(got[i] == 0, "%s: %f", kinds[n], got[i]);
        free(got);
        free(want);
    }
    free(mask);
    free(nothing);
    world_close(&w);
}
END_TEST

/* The same with keys and values made from the latents, and no head of their own */
START_TEST(latent_is_naive_on_what_it_stands_for)
{
    enum { T = 9, S = 23, H = 3, R = 5, PLAIN = 6, ROPE = 2, D = PLAIN + ROPE, E = 4 };
    state = 3;
    float *q = randoms(T * H * D, 1), *c = randoms(S * (R + ROPE), 1);
    float *up_k = randoms(H * PLAIN * R, 1), *up_v = randoms(H * E * R, 1);
    float *k = room(S * H * D), *v = room(S * H * E);
    for (size_t i = 0; i < S * H; i++) {
        const float *from = c + i / H * (R + ROPE);
        for (size_t d = 0; d < D; d++)
            for (size_t r = 0; r < R && d < PLAIN; r++)
                k[i * D + d] += up_k[(i % H * PLAIN + d) * R + r] * from[r];
        for (size_t d = 0; d < ROPE; d++)
            k[i * D + PLAIN + d] = from[R + d];
        for (size_t d = 0; d < E * R; d++)
            v[i * E + d / R] += up_v[i % H * E * R + d] * from[d % R];
    }
    struct tern_zoo z = {.n_rows = T, .n_keys = S, .n_heads = H, .head_dim = D, .v_dim = E};
    z.q = q, z.k = k, z.v = v;
    float *want = run(z, "naive", T * H * E, NULL, NULL);
    z.k = c, z.v = NULL, z.latent_dim = R, z.rope_dim = ROPE, z.up_k = up_k, z.up_v = up_v;
    float *got = run(z, "latent", T * H * E, NULL, NULL);
    near("latent", got, want, T * H * E, 4 * BOUND);
    float *all[] = {q, c, up_k, up_v, k, v, want, got};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}
END_TEST

/* Orthogonal keys read back their values; a key written twice reads back the second. */
START_TEST(delta_remembers_and_corrects)
{
    static const float keys[4][3] = {{2, 0, 0}, {0, 3, 0}, {0, 0, 1}, {1, 0, 0}};
    static const float values[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    static const float queries[2][3] = {{1, 0, 0}, {1, 0, 0}};
    float out[2][2];
    struct tern_error e;
    struct tern_zoo z = {.n_rows = 2, .n_keys = 4, .n_heads = 1, .head_dim = 3, .v_dim = 2};
    z.scale = 1, z.q = queries[0], z.k = keys[0], z.v = values[0], z.out = out[0];
    ck_assert(!tern_zoo(&z, "delta", NULL, &e));
    ck_assert(out[0][0] == 1 && out[0][1] == 2 && out[1][0] == 7 && out[1][1] == 8);
    static const float half[4] = {1, 1, 1, 0.5f};
    z.beta = half;
    ck_assert(!tern_zoo(&z, "delta", NULL, &e));
    ck_assert(out[1][0] == 4 && out[1][1] == 5);
}
END_TEST

START_TEST(wrong_sizes_are_refused)
{
    float x[64] = {0};
    const struct tern_zoo good = {
        .n_rows = 2, .n_heads = 2, .head_dim = 4, .q = x, .k = x, .v = x, .out = x};
    struct tern_error e;
    struct tern_zoo z = good;
    ck_assert(!tern_zoo(&z, "naive", NULL, &e));
    ck_assert(tern_zoo(&z, "fast", NULL, &e) == TERN_USAGE && strstr(e.text, "'fast'"));
    ck_assert(tern_zoo(&z, NULL, NULL, &e) == TERN_USAGE);
    ck_assert(tern_zoo(&z, "latent", NULL, &e) == TERN_USAGE && strstr(e.text, "latent_dim"));
    z.n_kv_heads = 3;
    ck_assert(tern_zoo(&z, "naive", NULL, &e) == TERN_USAGE && strstr(e.text, "do not divide"));
    z = good, z.n_keys = 1;
    ck_assert(tern_zoo(&z, "naive", NULL, &e) == TERN_USAGE && strstr(e.text, "no places"));
    z = good, z.head_dim = 0;
    ck_assert(tern_zoo(&z, "naive", NULL, &e) == TERN_USAGE && strstr(e.text, "head_dim is 0"));
    z = good, z.window = 1;
    ck_assert(tern_zoo(&z, "linear", NULL, &e) == TERN_USAGE && strstr(e.text, "no window"));
    z = good, z.weights = x;
    ck_assert(tern_zoo(&z, "delta", NULL, &e) == TERN_USAGE && strstr(e.text, "no weights"));
    ck_assert(tern_zoo(&z, "engine", NULL, &e) == TERN_USAGE && strstr(e.text, "no weights"));
    z = good, z.v = NULL;
    ck_assert(tern_zoo(&z, "online", NULL, &e) == TERN_USAGE && strstr(e.text, "NULL"));
}
END_TEST

/* ---- whole models ------------------------------------------------------------------------- */

struct whole {
    char path[256];
    tern_model *model;
    tern_context *ctx;
    uint64_t vocab;
    tern_token ids[N_ROWS];
};

static void whole_open(struct whole *w, const char *name, enum tern_cache_type type)
{
    static struct golden g;
    struct tern_error e;
    struct tern_model_params mp = {.n_threads = 2};
    struct tern_context_params cp = {
        .n_ctx = 64, .n_batch = N_ROWS, .n_seqs = 2, .cache_type = type};
    golden_read(&g, name);
    golden_write(w->path, sizeof w->path, &g, TERN_F32);
    golden_prompt(w->ids, N_ROWS, g.prompt_seed, g.vocab);
    w->vocab = g.vocab;
    golden_close(&g);
    ck_assert_msg(!tern_model_open(&w->model, w->path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&w->ctx, w->model, &cp, &e), "%s", e.text);
}

static void whole_close(struct whole *w)
{
    tern_context_close(w->ctx);
    tern_model_close(w->model);
    unlink(w->path);
}

/* The first row of logits of the prompt and those of its end, [16, vocab], where n_batch rows are
 * evaluated at a time and another sequence shares the batches; the caller's to free */
static float *evaluate(const struct whole *w, const char *attention, size_t n_batch)
{
    struct tern_error e;
    float *out = room(16 * w->vocab);
    ck_assert_msg(!tern_attention_use(w->ctx, attention, &e), "%s", e.text);
    tern_seq_keep(w->ctx, 0, 0);
    tern_seq_keep(w->ctx, 1, 0);
    for (size_t i = 0; i < 16; i += n_batch) {
        for (size_t j = i; j < i + n_batch; j++)
            ck_assert(!tern_batch_add(w->ctx, 0, w->ids[j], TERN_ROW_LOGITS, &e));
        if (n_batch < 16)
            ck_assert(!tern_batch_add(w->ctx, 1, w->ids[i % 7], 0, &e));
        ck_assert(!tern_forward(w->ctx));
        for (size_t j = 0; j < n_batch; j++)
            memcpy(out + (i + j) * w->vocab, tern_logits(w->ctx, j), w->vocab * sizeof *out);
    }
    ck_assert_msg(!tern_numeric_status(w->ctx, &e), "%s", e.text);
    return out;
}

static double largest(const float *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    return most;
}

/* Attention is the engine's bit for bit, or as near as f32 is: the least difference can round a key of
 * the next layer the other way in an f16 or q8 cache. Measured 3e-6, 6e-5 and 3e-4. */
START_TEST(whole_models)
{
    static const char *const kinds[] = {"blocked", "naive",  "online",
                                        "split",   "latent", "window=64"};
    static const enum tern_cache_type types[] = {TERN_CACHE_F32, TERN_CACHE_F16, TERN_CACHE_Q8};
    static const double bounds[] = {2e-5, 2e-3, 2e-3}; /* of the largest logit */
    struct whole w;
    for (size_t t = 0; t < 3 && golden_is_due(_i); t++) {
        whole_open(&w, golden_names[_i], types[t]);
        size_t n = 16 * w.vocab;
        float *want = evaluate(&w, NULL, 16);
        double bound = largest(want, n) * bounds[t];
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            float *got = evaluate(&w, kinds[i], i % 2 ? 16 : 4);
            near(kinds[i], got, want, n, bound);
            if (!i && types[t] != TERN_CACHE_Q8)
                ck_assert_msg(!memcmp(got, want, n * sizeof *got), "blocked has other bits");
            free(got);
        }
        float *again = evaluate(&w, NULL, 8);
        ck_assert(!memcmp(again, want, n * sizeof *again));
        free(again);
        free(want);
        whole_close(&w);
    }
}
END_TEST

/* Changing the last token changes no earlier row, unless every row sees every row. */
START_TEST(only_bidirectional_sees_what_comes)
{
    static const char *const kinds[] = {NULL, "naive", "linear", "delta", "bidirectional"};
    struct whole w;
    whole_open(&w, "llama-gqa", TERN_CACHE_F32);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tern_token last = w.ids[15];
        float *a = evaluate(&w, kinds[i], 16);
        w.ids[15] = last ? 0 : 1;
        float *b = evaluate(&w, kinds[i], 16);
        w.ids[15] = last;
        int same = !memcmp(a, b, 15 * w.vocab * sizeof *a);
        const char *kind = kinds[i] ? kinds[i] : "engine";
        ck_assert_msg(same == !!strcmp(kind, "bidirectional"), "%s", kind);
        ck_assert(memcmp(a + 15 * w.vocab, b + 15 * w.vocab, w.vocab * sizeof *a));
        free(a);
        free(b);
    }
    whole_close(&w);
}
END_TEST

/* Kinds that compute something else do so: batch by batch or at once. */
START_TEST(other_kinds_differ)
{
    static const char *const kinds[] = {"window=3", "sinks", "linear", "delta"};
    struct whole w;
    whole_open(&w, "llama-gqa", TERN_CACHE_F32);
    size_t n = 16 * w.vocab;
    float *own = evaluate(&w, NULL, 16);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        float *whole = evaluate(&w, kinds[i], 16), *parts = evaluate(&w, kinds[i], 2);
        near(kinds[i], parts, whole, n, 2e-5 * largest(whole, n));
        ck_assert_msg(memcmp(whole, own, n * sizeof *own), "%s", kinds[i]);
        free(whole);
        free(parts);
    }
    free(own);
    whole_close(&w);
}
END_TEST

START_TEST(wrong_names_are_refused)
{
    struct tern_error e;
    struct whole w;
    whole_open(&w, "mistral", TERN_CACHE_F32);
    ck_assert(tern_attention_use(w.ctx, "fast", &e) == TERN_USAGE && strstr(e.text, "'fast'"));
    ck_assert(tern_attention_use(w.ctx, "engine", &e) == TERN_USAGE);
    ck_assert(tern_attention_use(w.ctx, "window", &e) == TERN_USAGE && strstr(e.text, "window=64"));
    ck_assert(tern_attention_use(w.ctx, "window=", &e) == TERN_USAGE);
    ck_assert(tern_attention_use(w.ctx, "window=3x", &e) == TERN_USAGE);
    ck_assert(tern_attention_use(w.ctx, "window=99999999999999999999", &e) == TERN_USAGE);
    ck_assert(tern_attention_use(w.ctx, "linear", &e) == TERN_USAGE && strstr(e.text, "window"));
    ck_assert(!tern_attention_use(w.ctx, NULL, &e));
    ck_assert(!tern_altered(w.ctx));
    ck_assert(!tern_attention_use(w.ctx, "naive", &e) && tern_altered(w.ctx));
    ck_assert(!tern_attention_use(w.ctx, NULL, &e) && tern_altered(w.ctx));
    whole_close(&w);
}
END_TEST

SUITE("zoo", LOOP(kinds_agree_with_the_engine, 0, N_SHAPES), LOOP(weights_make_the_output, 0, 6),
      TEST(masks), TEST(latent_is_naive_on_what_it_stands_for), TEST(delta_remembers_and_corrects),
      TEST(wrong_sizes_are_refused), LOOP(whole_models, 0, golden_count()),
      TEST(only_bidirectional_sees_what_comes), TEST(other_kinds_differ),
      TEST(wrong_names_are_refused))
