/* Fidelity: the golden models' logits and greedy tokens against those of transformers, which
 * tools/golden.py recorded. f32 weights and cache; per row max|a - b| <= 1e-4 max|b|. And the
 * forward pass against its definition: plain.c gives the same bits for every golden model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "suite.h"

enum { MAX_PROMPT = 4096, CHUNK = 100, PLAIN_POSITIONS = 300 };

static const double bound = 1e-4;

/* Fingerprints of every fourth of the first positions: model, weights, cache, number. Those of this run:
 * build/tests/test_golden | sed -n 's/^graph //p' */
#define GRAPHS "tests/golden/graphs.txt"

static tern_token argmax(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (tern_token)best;
}

static int recorded(const struct golden *g, size_t position)
{
    for (size_t i = 0; i < g->n_rows; i++)
        if (g->at[i] == position)
            return (int)i;
    return -1;
}

/* The next batch of ids [n], which begin at `at`; compares the recorded rows, and returns the
 * likeliest token after the last. */
static tern_token feed(tern_context *ctx, const struct golden *g, const tern_token *ids, size_t at,
                       size_t n, double *worst)
{
    struct tern_error e = {0};
    for (size_t i = 0; i < n; i++) {
        unsigned wants = recorded(g, at + i) >= 0 || i == n - 1 ? TERN_ROW_LOGITS : 0;
        ck_assert_msg(!tern_batch_add(ctx, 0, ids[i], wants, &e), "%s", e.text);
    }
    ck_assert_int_eq(tern_forward(ctx), TERN_OK);
    const float *logits = NULL;
    for (size_t i = 0, row = 0; i < n; i++) {
        int r = recorded(g, at + i);
        if (r < 0 && i < n - 1)
            continue;
        logits = tern_logits(ctx, row++);
        double d = r < 0 ? 0 : golden_distance(logits, g->row[r], g->vocab);
        ck_assert_msg(d <= bound, "%s: position %zu is off by %g", g->name, at + i, d);
        *worst = d > *worst ? d : *worst;
    }
    return argmax(logits, g->vocab);
}

static void follow(tern_context *ctx, const struct golden *g)
{
    static tern_token ids[MAX_PROMPT];
    double worst = 0;
    tern_token next = 0;
    golden_prompt(ids, g->n_prompt, g->prompt_seed, g->vocab);
    for (size_t at = 0; at < g->n_prompt; at += CHUNK) {
        size_t n = g->n_prompt - at < CHUNK ? g->n_prompt - at : CHUNK;
        next = feed(ctx, g, ids + at, at, n, &worst);
    }
    for (size_t i = 0; i < GOLDEN_GREEDY; i++) {
        ck_assert_msg(next == (tern_token)g->greedy[i], "%s: greedy token %zu is %d, not %d",
                      g->name, i, (int)next, (int)g->greedy[i]);
        if (i + 1 < GOLDEN_GREEDY)
            next = feed(ctx, g, &next, g->n_prompt + i, 1, &worst);
    }
    printf("%-14s within %.2g of transformers\n", g->name, worst);
}

START_TEST(test_logits_and_tokens)
{
    static struct golden g;
    struct tern_error e = {0};
    struct tern_context_params params = {.cache_type = TERN_CACHE_F32, .n_batch = CHUNK};
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    char path[256];
    if (golden_is_threaded() && _i % 4)
        return;
    golden_read(&g, golden_names[_i]);
    ck_assert_uint_ge(g.n_rows, 6);
    golden_write(path, sizeof path, &g, TERN_F32);
    params.n_ctx = (uint32_t)g.n_prompt + GOLDEN_GREEDY;
    ck_assert_msg(!tern_model_open(&model, path, NULL, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&ctx, model, &params, &e), "%s", e.text);
    follow(ctx, &g);
    ck_assert_int_eq(tern_numeric_status(ctx, &e), TERN_OK);
    tern_context_close(ctx);
    tern_model_close(model);
    golden_close(&g);
    remove(path);
}
END_TEST

/* Fingerprint of the first positions, every fourth of which gives logits, in batches. */
static uint64_t fingerprint(const char *path, const struct golden *g, const char *cpu,
                            enum tern_cache_type type)
{
    static tern_token ids[MAX_PROMPT];
    struct tern_error e = {0};
    struct tern_model_params how = {.n_threads = cpu ? 1 : 2, .cpu = cpu};
    size_t n = g->n_prompt < PLAIN_POSITIONS ? g->n_prompt : PLAIN_POSITIONS;
    struct tern_context_params params = {
        .cache_type = type, .n_ctx = (uint32_t)n, .n_batch = CHUNK, .fingerprint = 1};
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    golden_prompt(ids, n, g->prompt_seed, g->vocab);
    ck_assert_msg(!tern_model_open(&model, path, &how, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&ctx, model, &params, &e), "%s", e.text);
    for (size_t at = 0; at < n; at += CHUNK) {
        for (size_t i = at; i < n && i < at + CHUNK; i++)
            ck_assert_msg(!tern_batch_add(ctx, 0, ids[i], i % 4 == 3, &e), "%s", e.text);
        ck_assert_int_eq(tern_forward(ctx), TERN_OK);
    }
    uint64_t rows, hash = tern_fingerprint(ctx, &rows);
    ck_assert_uint_eq(rows, n / 4);
    tern_context_close(ctx);
    tern_model_close(model);
    return hash;
}

/* The line of GRAPHS that begins with `start` is `line`. */
static bool is_constant(const char *start, const char *line)
{
    char read[128] = "";
    FILE *file = fopen(GRAPHS, "r");
    ck_assert_msg(file != NULL, "cannot read %s", GRAPHS);
    while (fgets(read, sizeof read, file) && strncmp(read, start, strlen(start))) {}
    fclose(file);
    read[strcspn(read, "\n")] = 0;
    return !strcmp(read, line);
}

/* The fast path has the bits of plain.c, and both have those of the constants. */
START_TEST(test_plain_defines_the_graph)
{
    static struct golden g;
    static const enum tern_type types[] = {TERN_F32, TERN_Q8};
    enum tern_cache_type cache = (enum tern_cache_type)(strlen(golden_names[_i]) % 3);
    char path[256], line[128], start[128];
    bool good = true;
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    for (size_t i = 0; i < 2; i++) {
        golden_write(path, sizeof path, &g, types[i]);
        uint64_t plain = fingerprint(path, &g, "plain", cache);
        ck_assert_msg(plain == fingerprint(path, &g, NULL, cache), "%s %s", g.name,
                      tern_type_name(types[i]));
        int n = snprintf(line, sizeof line, "%s %s %s ", g.name, tern_type_name(types[i]),
                         tern_cache_type_name(cache));
        memcpy(start, line, sizeof start);
        snprintf(line + n, sizeof line - (size_t)n, "%016" PRIx64, plain);
        printf("graph %s\n", line);
        good &= is_constant(start, line);
        remove(path);
    }
    ck_assert_msg(good, "%s: other fingerprints than in %s", g.name, GRAPHS);
    golden_close(&g);
}
END_TEST

SUITE("golden", LOOP(test_logits_and_tokens, 0, golden_count()),
      LOOP(test_plain_defines_the_graph, 0, golden_count()))
