/* Batches that are not run to their end: cancelled, or made of rows that are refused; and what is
 * flagged when numbers leave their range. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "forward_run.h"
#include "golden.h"
#include "suite.h"

static logits_rows one, two;

/* ---- cancelling ------------------------------------------------------------------------------ */

START_TEST(test_cancel_leaves_sequences)
{
    struct run r;
    tern_token ids[300];
    run_open(&r, run_toy(), 2);
    run_ids(ids, 300, 13);
    run_feed_fresh(&r, ids, 300, one);
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 240), 240);
    for (size_t i = 0; i < 30; i++) /* other tokens, over the end of a block */
        run_add(&r, 0, ids[i], 0);
    run_add(&r, 1, ids[0], TERN_ROW_LOGITS);
    tern_cancel(r.ctx);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_CANCELLED);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 240);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 1), 0);
    ck_assert_uint_eq(tern_n_logits(r.ctx), 0);
    run_feed(&r, 0, ids + 240, 60, two);
    for (size_t i = 240; i < 300; i++)
        ck_assert_msg(run_same(two[i - 240], one[i]), "row %zu", i);
    run_close(&r);
}
END_TEST

struct canceller {
    tern_context *ctx;
    atomic_int stop;
};

static void *cancel_often(void *arg)
{
    struct canceller *c = arg;
    while (!atomic_load(&c->stop)) {
        tern_cancel(c->ctx);
        for (volatile int i = 0; i < 20000; i++)
            ;
    }
    return NULL;
}

/* Cancelled at any moment by another thread: each step is done whole or not at all. */
START_TEST(test_cancel_from_another_thread)
{
    struct run r;
    tern_token ids[300];
    unsigned cancelled = 0;
    run_open(&r, run_toy(), 1);
    run_ids(ids, 300, 14);
    run_feed_fresh(&r, ids, 300, one);
    tern_seq_keep(r.ctx, 0, 0);
    struct canceller c = {.ctx = r.ctx};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_often, &c), 0);
    for (uint32_t at = 0; at < 300;) {
        for (uint32_t i = at; i < at + 10; i++)
            run_add(&r, 0, ids[i], i == at + 9 ? TERN_ROW_LOGITS : 0);
        if (cancelled == 2000)
            atomic_store(&c.stop, 1);
        enum tern_status s = tern_forward(r.ctx);
        cancelled += s == TERN_CANCELLED;
        at += s ? 0 : 10;
        ck_assert_uint_eq(tern_seq_length(r.ctx, 0), at);
        if (!s)
            ck_assert_msg(run_same(tern_logits(r.ctx, 0), one[at - 1]), "row %u", at - 1);
    }
    atomic_store(&c.stop, 1);
    pthread_join(thread, NULL);
    run_close(&r);
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const struct run *r, uint32_t seq, tern_token token, unsigned flags,
                    enum tern_status status, const char *word)
{
    struct tern_error e = {0};
    ck_assert_int_eq(tern_batch_add(r->ctx, seq, token, flags, &e), status);
    ck_assert_int_eq(e.code, status);
    ck_assert_msg(strstr(e.text, word) != NULL, "\"%s\" says nothing of \"%s\"", e.text, word);
}

/* What is refused leaves the batch as it was. */
START_TEST(test_refused_rows)
{
    struct run r;
    tern_token ids[40];
    run_open(&r, run_toy(), 3);
    run_ids(ids, 40, 15);
    run_feed_fresh(&r, ids, 40, one);
    tern_seq_keep(r.ctx, 0, 0);
    for (size_t i = 0; i < 40; i++)
        run_add(&r, 0, ids[i], i < TERN_DEFAULT_LOGITS ? TERN_ROW_LOGITS : 0);
    refused(&r, 0, ids[0], TERN_ROW_LOGITS, TERN_LIMIT, "32");
    refused(&r, 3, 0, 0, TERN_USAGE, "sequence 3");
    refused(&r, 0, -1, 0, TERN_USAGE, "-1");
    refused(&r, 0, VOCAB, 0, TERN_USAGE, "96");
    run_add(&r, 1, 5, 0);
    refused(&r, 0, 5, 0, TERN_USAGE, "neighbours");
    for (size_t i = 41; i < BATCH; i++)
        run_add(&r, 1, 6, 0);
    refused(&r, 1, 6, 0, TERN_LIMIT, "batch is full");
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 40);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 1), BATCH - 40);
    ck_assert_uint_eq(tern_n_logits(r.ctx), TERN_DEFAULT_LOGITS);
    for (size_t i = 0; i < TERN_DEFAULT_LOGITS; i++)
        ck_assert(run_same(tern_logits(r.ctx, i), one[i]));
    run_close(&r);
}
END_TEST

START_TEST(test_full_context)
{
    struct run r;
    run_open(&r, run_toy(), 2);
    for (uint32_t at = 0; at < CTX; at += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            run_add(&r, 0, (tern_token)(i % VOCAB), 0);
        if (at + BATCH == CTX)
            break;
        ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    }
    tern_batch_clear(r.ctx);
    for (uint32_t i = 0; i < BATCH - 1; i++)
        run_add(&r, 0, 1, 0);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    run_add(&r, 0, 1, TERN_ROW_LOGITS);
    refused(&r, 0, 1, 0, TERN_LIMIT, "context is full");
    run_add(&r, 1, 1, 0);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), CTX);
    refused(&r, 0, 1, 0, TERN_LIMIT, "1024");
    run_close(&r);
}
END_TEST

START_TEST(test_empty_batch)
{
    struct run r;
    run_open(&r, run_toy(), 1);
    run_add(&r, 0, 1, TERN_ROW_LOGITS);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_n_logits(r.ctx), 1);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_n_logits(r.ctx), 0);
    ck_assert_ptr_null(tern_logits(r.ctx, 0));
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 1);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 7), 0);
    run_close(&r);
}
END_TEST

/* ---- flags ----------------------------------------------------------------------------------- */

/* Runs two tokens through a toy with one number changed; returns the status and its sentence. */
static enum tern_status status_with(const char *tensor, size_t i, float value,
                                    enum tern_cache_type cache, struct tern_error *e)
{
    struct toy toy = run_toy();
    struct run r;
    tern_token ids[2] = {1, 2};
    toy.attn_bias = 15;
    run_write(&r, toy);
    run_patch(r.path, tensor, i * sizeof value, &value, sizeof value);
    run_start(&r, cache, 1);
    *e = (struct tern_error){0};
    run_feed_fresh(&r, ids, 2, one);
    enum tern_status s = tern_numeric_status(r.ctx, e);
    run_close(&r);
    return s;
}

START_TEST(test_numeric_status)
{
    struct tern_error e;
    ck_assert_int_eq(status_with("layer.1.k_bias", 3, 1e4f, TERN_CACHE_F16, &e), TERN_OK);
    ck_assert_int_eq(status_with("layer.1.k_bias", 3, 1e6f, TERN_CACHE_F16, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "layer 1"));
    ck_assert_ptr_nonnull(strstr(e.text, "key"));
    ck_assert_int_eq(status_with("layer.1.k_bias", 3, 1e6f, TERN_CACHE_F32, &e), TERN_OK);
    ck_assert_int_eq(status_with("layer.0.v_bias", 7, -1e6f, TERN_CACHE_F16, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "layer 0"));
    ck_assert_ptr_nonnull(strstr(e.text, "value"));
    ck_assert_int_eq(status_with("layer.0.v_bias", 7, -1e6f, TERN_CACHE_F32, &e), TERN_OK);
    ck_assert_int_eq(status_with("layer.0.v_bias", 7, -8e6f, TERN_CACHE_Q8, &e), TERN_OK);
    ck_assert_int_eq(status_with("layer.0.v_bias", 7, -9e6f, TERN_CACHE_Q8, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "value"));
    ck_assert_int_eq(status_with("layer.1.k_bias", 3, 9e6f, TERN_CACHE_Q8, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "q8 cache: try --cache-type f32"));
    ck_assert_int_eq(status_with("head", 5, INFINITY, TERN_CACHE_F16, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "logit"));
    ck_assert_int_eq(status_with("final_norm", 5, NAN, TERN_CACHE_F32, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "logit"));
    ck_assert_int_eq(status_with("layer.0.attn_norm", 5, NAN, TERN_CACHE_F32, &e), TERN_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "layer 0"));
}
END_TEST

/* The status after two tokens through the file, which is removed. */
static enum tern_status status_of(const char *path, const char *cpu, enum tern_cache_type cache,
                                  struct tern_error *e)
{
    const struct tern_model_params mp = {.n_threads = 1, .cpu = cpu};
    const struct tern_context_params cp = {.n_ctx = 8, .n_batch = 2, .cache_type = cache};
    tern_model *m;
    tern_context *c;
    ck_assert_msg(!tern_model_open(&m, path, &mp, e), "%s", e->text);
    ck_assert_msg(!tern_context_open(&c, m, &cp, e), "%s", e->text);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(tern_batch_add(c, 0, 1 + i, TERN_ROW_LOGITS, e), TERN_OK);
    ck_assert_int_eq(tern_forward(c), TERN_OK);
    enum tern_status s = tern_numeric_status(c, e);
    tern_context_close(c);
    tern_model_close(m);
    remove(path);
    return s;
}

static const char *const cpus[] = {NULL, "ref", "plain"};

/* A query becomes whole numbers for a q8 cache, and a cap of scores hides what is infinite. */
START_TEST(test_query_not_finite)
{
    static const enum tern_cache_type types[] = {TERN_CACHE_F32, TERN_CACHE_F16, TERN_CACHE_Q8};
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            struct toy toy = run_toy();
            struct run r;
            struct tern_error e = {0};
            toy.attn_bias = 15;
            run_write(&r, toy);
            run_patch(r.path, "layer.1.q_bias", 3 * sizeof *values, &values[j], sizeof *values);
            enum tern_status s = status_of(r.path, cpus[_i], types[i], &e);
            ck_assert_int_eq(s, isfinite(values[j]) ? TERN_OK : TERN_LIMIT);
            ck_assert_msg(!s || strstr(e.text, "layer 1: a query is not finite"), "%s", e.text);
        }
}
END_TEST

/* A sigmoid turns infinity into 1; an expert whose score is no number is never chosen. */
START_TEST(test_router_not_finite)
{
    static const float values[] = {NAN, INFINITY};
    static struct golden g;
    for (size_t j = 0; j < 2; j++) {
        char path[256];
        struct tern_error e = {0};
        golden_read(&g, "gpt-oss");
        golden_write(path, sizeof path, &g, TERN_F32);
        run_patch(path, "layer.1.router", 3 * sizeof *values, &values[j], sizeof *values);
        ck_assert_int_eq(status_of(path, cpus[_i], TERN_CACHE_Q8, &e), TERN_LIMIT);
        ck_assert_msg(strstr(e.text, "layer 1: the score of an expert") != NULL, "%s", e.text);
        golden_close(&g);
    }
}
END_TEST

SUITE("batch", TEST(test_cancel_leaves_sequences), TEST(test_cancel_from_another_thread),
      TEST(test_refused_rows), TEST(test_full_context), TEST(test_empty_batch),
      TEST(test_numeric_status),
      LOOP(test_query_not_finite, 0, sizeof cpus / sizeof *cpus),
      LOOP(test_router_not_finite, 0, sizeof cpus / sizeof *cpus))
