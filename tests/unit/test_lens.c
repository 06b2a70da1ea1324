/* The logit lens: the last layer's `out` gives the engine's own logits, in all bits, for every golden
 * model; and the context does not notice. Hidden states are what the final norm gives. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "suite.h"
#include "tern_lab.h"

enum { N_ROWS = 20, N_BATCH = 7, MAX_DIM = 256 };

struct streams {                   /* what the observer copies */
    float last[N_ROWS * MAX_DIM];  /* [N_ROWS, stride] `out` of the last layer */
    float first[N_ROWS * MAX_DIM]; /* of the first */
    float normed[N_ROWS * MAX_DIM]; /* `final_norm` */
    size_t n_layers, dim, stride;
};

static void copy(void *arg, const struct tern_observation *o)
{
    struct streams *s = arg;
    bool normed = !strcmp(o->operation, "final_norm");
    if (!normed && (strcmp(o->operation, "out") || (o->layer && o->layer + 1 < s->n_layers)))
        return;
    s->dim = o->columns, s->stride = o->columns + 3;
    ck_assert_uint_le(s->stride, MAX_DIM);
    for (size_t i = 0; i < o->rows; i++) {
        float *to = (normed ? s->normed : o->layer ? s->last : s->first) + o->at[i].position * s->stride;
        memcpy(to, o->values + i * o->stride, o->columns * sizeof *to);
    }
}

static void evaluate(tern_context *ctx, const struct golden *g, float *logits)
{
    struct tern_error e = {0};
    tern_token ids[N_ROWS];
    golden_prompt(ids, N_ROWS, g->prompt_seed, g->vocab);
    for (size_t i = 0, first = 0; i < N_ROWS; first = i) {
        for (size_t n = 0; n < N_BATCH && i < N_ROWS; n++)
            ck_assert_msg(!tern_batch_add(ctx, 0, ids[i++], TERN_ROW_LOGITS, &e), "%s", e.text);
        ck_assert(!tern_forward(ctx));
        for (size_t r = first; r < i; r++)
            memcpy(logits + r * g->vocab, tern_logits(ctx, r - first), g->vocab * sizeof *logits);
    }
}

static void check_lens(tern_context *ctx, const struct golden *g, struct streams *s)
{
    static float logits[N_ROWS * GOLDEN_VOCAB], seen[N_ROWS * GOLDEN_VOCAB];
    struct tern_error e = {0};
    size_t bytes = N_ROWS * g->vocab * sizeof *logits;
    evaluate(ctx, g, logits);
    uint64_t hash = tern_fingerprint(ctx, NULL);
    ck_assert(!tern_lens(ctx, s->last, N_ROWS, s->stride, seen, &e));
    ck_assert_msg(!memcmp(seen, logits, bytes), "%s: other bits than the engine's", g->name);
    ck_assert(!tern_lens(ctx, s->last + s->stride, 1, 0, seen, &e)); /* one row, any stride */
    ck_assert_msg(!memcmp(seen, logits + g->vocab, bytes / N_ROWS), "%s: one row", g->name);
    ck_assert(!tern_lens(ctx, s->first, N_ROWS, s->stride, seen, &e));
    ck_assert_msg(memcmp(seen, logits, bytes), "%s: the first layer says all", g->name);
    /* what tern_forward left is still there */
    const float *last = logits + (N_ROWS - 1) * g->vocab;
    ck_assert(!memcmp(tern_logits(ctx, tern_n_logits(ctx) - 1), last, bytes / N_ROWS));
    ck_assert(tern_fingerprint(ctx, NULL) == hash);
}

/* Only rows that ask for it, in any batch, and none for their logits */
static void check_hidden(const char *path, const char *cpu, const struct golden *g,
                         const struct streams *s)
{
    struct tern_model_params mp = {.n_threads = 2, .cpu = cpu};
    struct tern_context_params cp = {.n_ctx = N_ROWS, .n_batch = N_BATCH};
    tern_token ids[N_ROWS];
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    ck_assert(!tern_model_open(&model, path, &mp, NULL) &&
              !tern_context_open(&ctx, model, &cp, NULL));
    golden_prompt(ids, N_ROWS, g->prompt_seed, g->vocab);
    for (size_t i = 0, first = 0; i < N_ROWS; first = i) {
        size_t n = 0;
        for (; i < N_ROWS && i < first + N_BATCH; i++)
            ck_assert(!tern_batch_add(ctx, 0, ids[i], i % 3 ? TERN_ROW_HIDDEN : 0, NULL));
        ck_assert(!tern_forward(ctx));
        ck_assert_uint_eq(tern_n_logits(ctx), 0);
        for (size_t r = first; r < i; r++)
            ck_assert_msg(r % 3 == 0 || !memcmp(tern_hidden(ctx, n++), s->normed + r * s->stride,
                                                s->dim * sizeof(float)),
                          "%s: hidden state %zu", g->name, r);
        ck_assert_uint_eq(tern_n_hidden(ctx), n);
        ck_assert_ptr_null(tern_hidden(ctx, n));
    }
    ck_assert(!tern_forward(ctx) && tern_n_hidden(ctx) == 0);
    tern_context_close(ctx);
    tern_model_close(model);
}

START_TEST(the_last_layer_says_what_the_engine_says)
{
    static const enum tern_type types[] = {TERN_F32, TERN_Q8};
    static struct golden g;
    static struct streams s;
    struct tern_error e = {0};
    char path[256];
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct tern_model_params mp = {.n_threads = 2};
        struct tern_context_params cp = {.n_ctx = N_ROWS, .n_batch = N_BATCH, .fingerprint = 1};
        struct tern_model_info info;
        tern_model *model = NULL;
        tern_context *ctx = NULL;
        golden_write(path, sizeof path, &g, types[t]);
        ck_assert_msg(!tern_model_open(&model, path, &mp, &e), "%s", e.text);
        ck_assert_msg(!tern_context_open(&ctx, model, &cp, &e), "%s", e.text);
        tern_model_info(model, &info);
        s.n_layers = info.n_layers;
        ck_assert(!tern_observe(ctx, copy, &s, &e));
        check_lens(ctx, &g, &s);
        tern_context_close(ctx);
        tern_model_close(model);
        check_hidden(path, NULL, &g, &s);
        if (types[t] == TERN_F32)
            check_hidden(path, "plain", &g, &s);
        remove(path);
    }
    golden_close(&g);
}
END_TEST

START_TEST(the_context_does_not_notice)
{
    struct tern_error e = {0};
    struct toy toy = toy_default();
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    struct tern_op before[32], after[32];
    char path[256];
    static float x[64], logits[259];
    toy_path(path, sizeof path, "lens");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&model, path, NULL, &e) &&
              !tern_context_open(&ctx, model, NULL, &e) && !tern_profile_start(ctx, &e));
    ck_assert(!tern_batch_add(ctx, 0, 5, TERN_ROW_LOGITS, &e) && !tern_forward(ctx));
    size_t n = tern_profile(ctx, before, 32);
    x[0] = NAN;
    ck_assert(!tern_batch_add(ctx, 0, 6, TERN_ROW_LOGITS, &e)); /* a batch in the making */
    ck_assert(!tern_lens(ctx, x, 1, 64, logits, &e) && isnan(logits[0]));
    ck_assert(!tern_lens(ctx, x, 0, 64, logits, &e));
    ck_assert_int_eq(tern_lens(ctx, x, 2, 63, logits, &e), TERN_USAGE);
    ck_assert_int_eq(tern_numeric_status(ctx, &e), TERN_OK);
    ck_assert_uint_eq(tern_profile(ctx, after, 32), n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(before[i].calls, after[i].calls);
    ck_assert(!tern_forward(ctx));
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 2);
    tern_context_close(ctx);
    tern_model_close(model);
    remove(path);
}
END_TEST

SUITE("lens", LOOP(the_last_layer_says_what_the_engine_says, 0, golden_count()),
      TEST(the_context_does_not_notice))
