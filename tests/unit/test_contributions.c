/* Direct contributions: for every golden model, with whole and quantized matrices, the terms sum to
 * the logit before the cap; each term is there once; keeping the row changes no bit. Their values
 * are compared with numpy by tests/convert/test_trace.py. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "suite.h"
#include "tern_lab.h"

enum { N_ROWS = 20, ASKED = 17, MAX_TERMS = 512, N_KINDS = TERN_TERM_LAUREL + 1 };

static const double bound = 1e-5; /* of the largest logit; 1e-4 is promised */

struct opened {
    tern_model *model;
    tern_context *ctx;
};

static struct opened open_model(const char *path, int threads)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = threads};
    struct tern_context_params cp = {.n_ctx = 2 * N_ROWS, .n_batch = N_ROWS, .fingerprint = 1};
    struct opened m = {0};
    ck_assert_msg(!tern_model_open(&m.model, path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&m.ctx, m.model, &cp, &e), "%s", e.text);
    return m;
}

static void close_model(struct opened m)
{
    tern_context_close(m.ctx);
    tern_model_close(m.model);
}

/* Rows 3 and ASKED give logits; rows after them do not. */
static void evaluate(tern_context *ctx, const struct golden *g)
{
    struct tern_error e = {0};
    tern_token ids[N_ROWS];
    golden_prompt(ids, N_ROWS, g->prompt_seed, g->vocab);
    tern_seq_keep(ctx, 0, 0);
    for (size_t i = 0; i < N_ROWS; i++)
        ck_assert_msg(!tern_batch_add(ctx, 0, ids[i], i == 3 || i == ASKED, &e), "%s", e.text);
    ck_assert(!tern_forward(ctx));
}

struct terms {
    struct tern_term all[MAX_TERMS];
    size_t n, count[N_KINDS];
    double sum;
    float logit;
};

static void ask(tern_context *ctx, tern_token token, struct terms *t)
{
    struct tern_error e = {0};
    *t = (struct terms){0};
    ck_assert_msg(!tern_contributions(ctx, token, t->all, MAX_TERMS, &t->n, &t->logit, &e), "%s",
                  e.text);
    ck_assert_uint_le(t->n, MAX_TERMS);
    for (size_t i = 0; i < t->n; i++)
        t->sum += (double)t->all[i].value, t->count[t->all[i].kind]++;
}

static void check_sums(tern_context *ctx, const struct golden *g)
{
    static struct terms t[GOLDEN_VOCAB];
    double largest = 0;
    for (size_t i = 0; i < g->vocab; i += 5) {
        ask(ctx, (tern_token)i, &t[i]);
        largest = fmax(largest, fabs((double)t[i].logit));
    }
    for (size_t i = 0; i < g->vocab; i += 5)
        ck_assert_msg(fabs(t[i].sum - (double)t[i].logit) <= bound * largest,
                      "%s: the terms of token %zu sum to %.9g, not %.9g", g->name, i, t[i].sum,
                      (double)t[i].logit);
}

/* Without a cap the logit is the engine's, in all bits. */
static void check_logit(tern_context *ctx, const struct golden *g)
{
    static struct terms t;
    if (!strcmp(g->name, "gemma2") || !strcmp(g->name, "vaultgemma") || !strcmp(g->name, "gemma4-e2b") ||
        !strcmp(g->name, "nanochat") || !strcmp(g->name, "gemma3n"))
        return;
    for (tern_token token = 0; token < (tern_token)g->vocab; token++) {
        ask(ctx, token, &t);
        ck_assert_msg(t.logit == tern_logits(ctx, 1)[token], "%s: %.9g is not the logit %.9g",
                      g->name, (double)t.logit, (double)tern_logits(ctx, 1)[token]);
    }
}

START_TEST(terms_sum_to_the_logit)
{
    static const enum tern_type types[] = {TERN_F32, TERN_Q8, TERN_Q4C};
    static struct golden g;
    static struct terms one, two;
    struct tern_error e = {0};
    char path[256];
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        golden_write(path, sizeof path, &g, types[i]);
        struct opened m = open_model(path, 2), single = open_model(path, 1);
        evaluate(m.ctx, &g);
        uint64_t blind = tern_fingerprint(m.ctx, NULL);
        tern_fingerprint_begin(m.ctx);
        ck_assert(!tern_keep_terms(m.ctx, 1, &e) && !tern_keep_terms(single.ctx, 1, &e));
        evaluate(m.ctx, &g);
        evaluate(single.ctx, &g);
        ck_assert(tern_fingerprint(m.ctx, NULL) == blind);
        check_sums(m.ctx, &g);
        check_logit(m.ctx, &g);
        ask(m.ctx, 11, &one);
        ask(single.ctx, 11, &two);
        ck_assert(one.n == two.n && !memcmp(one.all, two.all, one.n * sizeof *one.all));
        bool rounds = types[i] != TERN_F32;
        ck_assert(!one.count[TERN_TERM_ROUND_O] == !rounds);
        if (!strstr(g.name, "nemotron-h") && strcmp(g.name, "nemotron3") && strcmp(g.name, "mamba2")) /* whose layers are a mixer or a feed-forward step */
            ck_assert(one.count[TERN_TERM_ROUND_O] == one.count[TERN_TERM_ROUND_DOWN]);
        ck_assert_uint_eq(one.count[TERN_TERM_ROUND_HEAD], rounds);
        ck_assert_uint_eq(one.count[TERN_TERM_EDITS], 0);
        close_model(single);
        close_model(m);
        remove(path);
    }
    golden_close(&g);
}
END_TEST

static struct opened open_golden(struct golden *g, const char *name, char *path, size_t size)
{
    golden_read(g, name);
    golden_write(path, size, g, TERN_Q8);
    return open_model(path, 2);
}

static int edit(void *arg, const struct tern_observation *o, float *values)
{
    if (strcmp(arg, o->operation) || o->layer != 1)
        return 0;
    for (size_t i = 0; i < o->rows; i++)
        for (size_t c = 0; c < 8; c++)
            values[i * o->stride + c] = 0;
    return 1;
}

/* What an editor takes away is no term of a head or expert; what it writes into the stream is a
 * term of its own. */
START_TEST(edits_are_told_apart)
{
    static const char *const operations[] = {"attend", "o", "middle", "router", "out"};
    static struct golden g;
    static struct terms t;
    struct tern_error e = {0};
    char path[256], operation[16];
    struct opened m = open_golden(&g, "mixtral", path, sizeof path);
    ck_assert(!tern_keep_terms(m.ctx, 1, &e));
    snprintf(operation, sizeof operation, "%s", operations[_i]);
    ck_assert(!tern_edit(m.ctx, edit, operation, &e));
    evaluate(m.ctx, &g);
    check_sums(m.ctx, &g);
    ask(m.ctx, 11, &t);
    ck_assert_uint_eq(t.count[TERN_TERM_EDITS], 1);
    bool into_stream = _i != 0 && _i != 3;
    for (size_t i = 0; i < t.n; i++) {
        double value = fabs((double)t.all[i].value);
        if (t.all[i].kind == TERN_TERM_EDITS)
            ck_assert_msg(into_stream == (value > 1e-3), "%s: edits are %g", operation, value);
        if (t.all[i].kind == TERN_TERM_EXPERT && t.all[i].layer == 1 &&
            !strcmp(operation, "router"))
            ck_assert(value == 0);
    }
    close_model(m);
    golden_close(&g);
    remove(path);
}
END_TEST

static void cancel_at_q(void *arg, const struct tern_observation *o)
{
    if (o->layer == 1 && !strcmp(o->operation, "q"))
        tern_cancel(arg);
}

START_TEST(the_row_is_the_last_that_gave_logits)
{
    static struct golden g;
    static struct terms before, after;
    struct tern_error e = {0};
    struct tern_term few[2] = {{.kind = TERN_TERM_BIAS}, {.kind = TERN_TERM_BIAS}};
    char path[256];
    size_t n;
    struct opened m = open_golden(&g, "qwen2-moe", path, sizeof path);
    ck_assert_int_eq(tern_contributions(m.ctx, 1, NULL, 0, &n, NULL, &e), TERN_USAGE);
    ck_assert(!tern_keep_terms(m.ctx, 1, &e) && !tern_keep_terms(m.ctx, 1, &e));
    ck_assert_int_eq(tern_contributions(m.ctx, 1, NULL, 0, &n, NULL, &e), TERN_USAGE);
    evaluate(m.ctx, &g);
    ask(m.ctx, 1, &before);
    ck_assert(before.count[TERN_TERM_SHARED] && before.count[TERN_TERM_EXPERT]);
    ck_assert(!tern_contributions(m.ctx, 1, NULL, 0, &n, NULL, &e) && n == before.n);
    ck_assert(!tern_contributions(m.ctx, 1, few, 1, &n, NULL, &e) && n == before.n);
    ck_assert(few[0].kind == TERN_TERM_EMBED && few[1].kind == TERN_TERM_BIAS);
    ck_assert_int_eq(tern_contributions(m.ctx, (tern_token)g.vocab, few, 1, &n, NULL, &e),
                     TERN_USAGE);
    ck_assert_int_eq(tern_contributions(m.ctx, -1, few, 1, &n, NULL, &e), TERN_USAGE);
    /* a batch without logits keeps nothing, one that was cancelled leaves no half row */
    ck_assert(!tern_batch_add(m.ctx, 0, 9, 0, &e) && !tern_forward(m.ctx));
    ask(m.ctx, 1, &after);
    ck_assert(!memcmp(before.all, after.all, before.n * sizeof *before.all));
    ck_assert(!tern_batch_add(m.ctx, 0, 9, TERN_ROW_LOGITS, &e));
    ck_assert(!tern_observe(m.ctx, cancel_at_q, m.ctx, &e));
    ck_assert_int_eq(tern_forward(m.ctx), TERN_CANCELLED);
    ck_assert(!tern_observe(m.ctx, NULL, NULL, &e));
    ck_assert_int_eq(tern_contributions(m.ctx, 1, NULL, 0, &n, NULL, &e), TERN_USAGE);
    evaluate(m.ctx, &g);
    ask(m.ctx, 1, &after);
    ck_assert(!memcmp(before.all, after.all, before.n * sizeof *before.all));
    ck_assert(!tern_keep_terms(m.ctx, 0, &e));
    ck_assert_int_eq(tern_contributions(m.ctx, 1, NULL, 0, &n, NULL, &e), TERN_USAGE);
    close_model(m);
    golden_close(&g);
    remove(path);
}
END_TEST

SUITE("contributions", LOOP(terms_sum_to_the_logit, 0, golden_count()),
      LOOP(edits_are_told_apart, 0, 5), TEST(the_row_is_the_last_that_gave_logits))
