/* Laws of the forward pass that need no reference: what may and what may not change the logits,
 * what cutting, forking and cancelling leave behind, which rows are refused, what is flagged. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/formats.h"
#include "model/weights.h"
#include "toy.h"

enum { VOCAB = 96, MAX = 600, CTX = 1024, BATCH = 64 };

struct run {
    char path[256];
    struct toy toy;
    tern_model *model;
    tern_context *ctx;
};

typedef float logits_rows[MAX][VOCAB];

static struct toy small_toy(void)
{
    struct toy t = toy_default();
    t.vocab = VOCAB, t.dim = 48, t.hidden = 72, t.max_seq = CTX, t.untied = 1;
    return t;
}

static void run_write(struct run *r, struct toy toy)
{
    struct tern_error e = {0};
    *r = (struct run){.toy = toy};
    toy_path(r->path, sizeof r->path, "forward.bin");
    ck_assert_msg(!toy_write(r->path, &toy, &e), "%s", e.text);
}

static void run_start(struct run *r, enum tern_cache_type type, uint32_t n_seqs)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = 2};
    struct tern_context_params cp = {
        .n_ctx = CTX, .n_batch = BATCH, .n_seqs = n_seqs, .cache_type = type};
    ck_assert_msg(!tern_model_open(&r->model, r->path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&r->ctx, r->model, &cp, &e), "%s", e.text);
}

static void run_open(struct run *r, struct toy toy, uint32_t n_seqs)
{
    run_write(r, toy);
    run_start(r, TERN_CACHE_F32, n_seqs);
}

static void run_close(struct run *r)
{
    tern_context_close(r->ctx);
    tern_model_close(r->model);
    remove(r->path);
}

static void add(const struct run *r, uint32_t seq, tern_token token, unsigned flags)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_batch_add(r->ctx, seq, token, flags, &e), "%s", e.text);
}

/* Appends ids [n] to the sequence; out[i] gets the logits after ids[i]. */
static void feed(const struct run *r, uint32_t seq, const tern_token *ids, size_t n,
                 logits_rows out)
{
    for (size_t at = 0; at < n; at += TERN_MAX_LOGITS) {
        size_t end = at + TERN_MAX_LOGITS < n ? at + TERN_MAX_LOGITS : n;
        for (size_t i = at; i < end; i++)
            add(r, seq, ids[i], TERN_ROW_LOGITS);
        ck_assert_int_eq(tern_forward(r->ctx), TERN_OK);
        ck_assert_uint_eq(tern_n_logits(r->ctx), end - at);
        for (size_t i = at; i < end; i++)
            memcpy(out[i], tern_logits(r->ctx, i - at), sizeof out[i]);
    }
}

/* The same from an empty sequence. */
static void feed_fresh(const struct run *r, const tern_token *ids, size_t n, logits_rows out)
{
    tern_seq_keep(r->ctx, 0, 0);
    feed(r, 0, ids, n, out);
}

static void make_ids(tern_token *ids, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (tern_token)((i * i * 7 + i * 31 + seed * 13) % VOCAB);
}

static int same(const float *a, const float *b)
{
    return memcmp(a, b, VOCAB * sizeof *a) == 0;
}

/* max|a - b| / max|b| */
static float distance(const float *a, const float *b)
{
    float far = 0, most = 0;
    for (size_t i = 0; i < VOCAB; i++) {
        far = fmaxf(far, fabsf(a[i] - b[i]));
        most = fmaxf(most, fabsf(b[i]));
    }
    return far / most;
}

static logits_rows one, two; /* too large for a stack */

/* ---- what a token can reach ---------------------------------------------------------------- */

START_TEST(test_later_tokens_change_nothing_earlier)
{
    struct run r;
    tern_token ids[300];
    static const size_t places[] = {1, 17, 255, 256, 299};
    run_open(&r, small_toy(), 1);
    make_ids(ids, 300, 1);
    feed_fresh(&r, ids, 300, one);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        size_t at = places[k];
        ids[at] = (ids[at] + 1) % VOCAB;
        feed_fresh(&r, ids, 300, two);
        for (size_t i = 0; i < 300; i++)
            ck_assert_msg(same(one[i], two[i]) == (i < at), "token %zu, row %zu", at, i);
        ids[at] = (ids[at] + VOCAB - 1) % VOCAB;
    }
    run_close(&r);
}
END_TEST

/* Position i sees j with i - W < j <= i: with one layer, token j reaches rows j .. j + W - 1. */
START_TEST(test_window)
{
    static const uint64_t windows[] = {1, 2, 5, 16, 20, 255, 256, 257};
    static const size_t places[] = {0, 3, 240, 255, 256, 500};
    struct toy toy = small_toy();
    tern_token ids[MAX];
    toy.n_layers = 1, toy.window[0] = windows[_i];
    struct run r;
    run_open(&r, toy, 1);
    make_ids(ids, MAX, 2);
    feed_fresh(&r, ids, MAX, one);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        size_t at = places[k];
        ids[at] = (ids[at] + 1) % VOCAB;
        feed_fresh(&r, ids, MAX, two);
        for (size_t i = 0; i < MAX; i++)
            ck_assert_msg(!same(one[i], two[i]) == (i >= at && i < at + toy.window[0]),
                          "window %d, token %zu, row %zu", (int)toy.window[0], at, i);
        ids[at] = (ids[at] + VOCAB - 1) % VOCAB;
    }
    run_close(&r);
}
END_TEST

/* A window as long as the context is no window. */
START_TEST(test_wide_window_is_none)
{
    struct toy toy = small_toy();
    struct run r;
    tern_token ids[MAX];
    make_ids(ids, MAX, 3);
    run_open(&r, toy, 1);
    feed_fresh(&r, ids, MAX, one);
    run_close(&r);
    toy.window[0] = MAX, toy.window[1] = 4 * CTX;
    run_open(&r, toy, 1);
    feed_fresh(&r, ids, MAX, two);
    for (size_t i = 0; i < MAX; i++)
        ck_assert_msg(same(one[i], two[i]), "row %zu", i);
    run_close(&r);
}
END_TEST

/* With a window, one layer and tokens that repeat every 32, only distances tell rows i and i + 32
 * apart, and RoPE knows nothing but distances. Angles are rounded, so not to the bit. */
START_TEST(test_rope_is_relative)
{
    struct toy toy = small_toy();
    struct run r;
    tern_token ids[MAX];
    make_ids(ids, 32, 4);
    for (size_t i = 32; i < MAX; i++)
        ids[i] = ids[i - 32];
    toy.n_layers = 1, toy.window[0] = 20;
    run_open(&r, toy, 1);
    feed_fresh(&r, ids, MAX, one);
    for (size_t i = 32; i < MAX; i++)
        ck_assert_msg(distance(one[i], one[32 + i % 32]) < 2e-5f, "row %zu", i);
    ck_assert_msg(distance(one[5], one[37]) > 1e-2f, "the start has fewer neighbours");
    run_close(&r);
}
END_TEST

/* One layer without RoPE: attention is a sum over a set, so earlier tokens may change places;
 * with RoPE they may not. */
START_TEST(test_order_matters_by_rope_alone)
{
    for (int rope = 0; rope < 2; rope++) {
        struct toy toy = small_toy();
        struct run r;
        tern_token ids[40], other[40];
        toy.n_layers = 1, toy.rope_theta = rope ? 10000 : 0;
        make_ids(ids, 40, 5);
        memcpy(other, ids, sizeof ids);
        other[3] = ids[30], other[30] = ids[3];
        run_open(&r, toy, 1);
        feed_fresh(&r, ids, 40, one);
        feed_fresh(&r, other, 40, two);
        ck_assert_int_eq(distance(two[39], one[39]) < 1e-5f, !rope);
        ck_assert(distance(two[29], one[29]) > 1e-3f);
        run_close(&r);
    }
}
END_TEST

/* ---- heads --------------------------------------------------------------------------------- */

/* Overwrites `bytes` of a tensor from byte `offset` on. */
static void patch(const char *path, const char *name, size_t offset, const void *data, size_t bytes)
{
    struct tern_error e = {0};
    struct weights *w = NULL;
    ck_assert_msg(!weights_open(&w, path, &e), "%s", e.text);
    const struct tensor *t = weights_find(w, name);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_le(offset + bytes, t->bytes);
    long at = (long)(t->offset + offset);
    weights_close(w);
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

/* Writes the key or value matrix of `few` (a toy with fewer heads) into the file of `many`, each
 * head as often as its query heads are. */
static void repeat_heads(const struct run *many, const struct toy *few, const char *name)
{
    size_t k = (size_t)few->dim, head = (size_t)few->head_dim * k;
    size_t n_few = (size_t)few->n_kv_heads, n_many = (size_t)many->toy.n_kv_heads;
    float *from = malloc(n_few * head * sizeof *from), *to = malloc(n_many * head * sizeof *to);
    float *tiles = malloc(n_many * head * sizeof *tiles);
    ck_assert(from && to && tiles);
    toy_values(from, n_few * head, few->seed, name, k);
    for (size_t h = 0; h < n_many; h++)
        memcpy(to + h * head, from + h / (n_many / n_few) * head, head * sizeof *to);
    format_encode_matrix(format_find(TERN_F32), tiles, to, n_many * few->head_dim, k);
    patch(many->path, name, 0, tiles, n_many * head * sizeof *tiles);
    free(from);
    free(to);
    free(tiles);
}

/* Grouped heads are a saving, not another function: GQA and MQA equal MHA with repeated heads. */
START_TEST(test_gqa_is_mha_of_repeated_heads)
{
    struct toy gqa = small_toy(), mha = gqa;
    struct run r;
    tern_token ids[280];
    gqa.n_heads = mha.n_heads = mha.n_kv_heads = 6, gqa.n_kv_heads = (uint64_t)_i;
    make_ids(ids, 280, 6);
    run_open(&r, gqa, 1);
    feed_fresh(&r, ids, 280, one);
    run_close(&r);
    run_write(&r, mha);
    for (int l = 0; l < 2; l++) {
        char name[2][32];
        snprintf(name[0], sizeof *name, "layer.%d.k", l);
        snprintf(name[1], sizeof *name, "layer.%d.v", l);
        repeat_heads(&r, &gqa, name[0]);
        repeat_heads(&r, &gqa, name[1]);
    }
    run_start(&r, TERN_CACHE_F32, 1);
    feed_fresh(&r, ids, 280, two);
    for (size_t i = 0; i < 280; i++)
        ck_assert_msg(same(one[i], two[i]), "%d kv heads, row %zu", _i, i);
    run_close(&r);
}
END_TEST

/* ---- batches and sequences ------------------------------------------------------------------ */

START_TEST(test_order_of_sequences)
{
    struct run r;
    tern_token ids[2][20];
    run_open(&r, small_toy(), 3);
    make_ids(ids[0], 20, 7);
    make_ids(ids[1], 20, 8);
    feed_fresh(&r, ids[0], 20, one);
    feed(&r, 1, ids[1], 20, two);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t s = 0; s < 3; s++)
            tern_seq_keep(r.ctx, s, 0);
        for (size_t k = 0; k < 2; k++)
            for (size_t i = 0; i < 20; i++)
                add(&r, 2 - (uint32_t)k, ids[(k + turn) % 2][i], i == 19 ? TERN_ROW_LOGITS : 0);
        ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
        ck_assert(same(tern_logits(r.ctx, turn), one[19]));
        ck_assert(same(tern_logits(r.ctx, 1 - turn), two[19]));
    }
    run_close(&r);
}
END_TEST

START_TEST(test_keep)
{
    struct run r;
    tern_token ids[280];
    run_open(&r, small_toy(), 1);
    make_ids(ids, 280, 9);
    feed_fresh(&r, ids, 280, one);
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 1000), 280);
    for (size_t n = 280; n-- > 0;) {
        ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, (uint32_t)n), n);
        ck_assert_uint_eq(tern_seq_length(r.ctx, 0), n);
        feed(&r, 0, ids + n, n < 278 ? 3 : 280 - n, two);
        ck_assert_msg(same(two[0], one[n]), "kept %zu", n);
    }
    run_close(&r);
}
END_TEST

START_TEST(test_fork)
{
    struct run r;
    tern_token ids[280], other[8];
    run_open(&r, small_toy(), 2);
    make_ids(ids, 280, 10);
    make_ids(other, 8, 11);
    feed_fresh(&r, ids, 280, one);
    for (size_t n = 0; n < 280; n++) {
        ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, (uint32_t)n), n);
        ck_assert_uint_eq(tern_seq_length(r.ctx, 1), n);
        feed(&r, 1, ids + n, 1, two);
        ck_assert_msg(same(two[0], one[n]), "forked at %zu", n);
        feed(&r, 1, other, 8, two); /* its own way, which the origin must not notice */
        ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 279), 279);
        feed(&r, 0, ids + 279, 1, two);
        ck_assert_msg(same(two[0], one[279]), "origin after a fork at %zu", n);
    }
    run_close(&r);
}
END_TEST

/* A sequence that is truncated inside a shared page gets its own before it writes there. */
START_TEST(test_keep_inside_a_shared_page)
{
    for (uint32_t back = 0; back < 2; back++) {
        struct run r;
        tern_token ids[520], other[8];
        uint32_t stays = 1 - back;
        run_open(&r, small_toy(), 2);
        make_ids(ids, 520, 16);
        make_ids(other, 8, 17);
        feed_fresh(&r, ids, 520, one);
        ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, 520), 520);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 300), 300);
        feed(&r, back, other, 8, two);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 100), 100);
        feed(&r, back, other, 8, two);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, stays, 519), 519);
        feed(&r, stays, ids + 519, 1, two);
        ck_assert(same(two[0], one[519]));
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 100), 100);
        feed(&r, back, ids + 100, 420, two);
        for (size_t i = 100; i < 520; i++)
            ck_assert_msg(same(two[i - 100], one[i]), "row %zu", i);
        run_close(&r);
    }
}
END_TEST

/* A window lets go of the past, but for 64 positions that keep and fork may go back. Beyond that
 * they answer 0, and leave the sequence empty. At 530 the first block of a window of 10 is gone
 * from sight, at 530 - 64 it is not. */
START_TEST(test_keep_with_a_window)
{
    enum { N = 530, BACK = 64 };
    struct toy toy = small_toy();
    struct run r;
    tern_token ids[N];
    toy.window[0] = 10;
    run_open(&r, toy, 2);
    make_ids(ids, N, 12);
    feed_fresh(&r, ids, N, one);
    ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, 5), 0);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), N);
    ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, N - BACK), N - BACK);
    feed(&r, 1, ids + N - BACK, BACK, two);
    ck_assert(same(two[0], one[N - BACK]) && same(two[BACK - 1], one[N - 1]));
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, N - BACK), N - BACK);
    feed(&r, 0, ids + N - BACK, BACK, two);
    ck_assert(same(two[0], one[N - BACK]) && same(two[BACK - 1], one[N - 1]));
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 100), 0);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 0);
    feed(&r, 0, ids, N, two);
    ck_assert(same(two[N - 1], one[N - 1]));
    run_close(&r);
}
END_TEST

/* ---- cancelling ------------------------------------------------------------------------------ */

START_TEST(test_cancel_leaves_sequences)
{
    struct run r;
    tern_token ids[300];
    run_open(&r, small_toy(), 2);
    make_ids(ids, 300, 13);
    feed_fresh(&r, ids, 300, one);
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 240), 240);
    for (size_t i = 0; i < 30; i++) /* other tokens, over the end of a block */
        add(&r, 0, ids[i], 0);
    add(&r, 1, ids[0], TERN_ROW_LOGITS);
    tern_cancel(r.ctx);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_CANCELLED);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 240);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 1), 0);
    ck_assert_uint_eq(tern_n_logits(r.ctx), 0);
    feed(&r, 0, ids + 240, 60, two);
    for (size_t i = 240; i < 300; i++)
        ck_assert_msg(same(two[i - 240], one[i]), "row %zu", i);
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
    run_open(&r, small_toy(), 1);
    make_ids(ids, 300, 14);
    feed_fresh(&r, ids, 300, one);
    tern_seq_keep(r.ctx, 0, 0);
    struct canceller c = {.ctx = r.ctx};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_often, &c), 0);
    for (uint32_t at = 0; at < 300;) {
        for (uint32_t i = at; i < at + 10; i++)
            add(&r, 0, ids[i], i == at + 9 ? TERN_ROW_LOGITS : 0);
        if (cancelled == 2000)
            atomic_store(&c.stop, 1);
        enum tern_status s = tern_forward(r.ctx);
        cancelled += s == TERN_CANCELLED;
        at += s ? 0 : 10;
        ck_assert_uint_eq(tern_seq_length(r.ctx, 0), at);
        if (!s)
            ck_assert_msg(same(tern_logits(r.ctx, 0), one[at - 1]), "row %u", at - 1);
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
    run_open(&r, small_toy(), 3);
    make_ids(ids, 40, 15);
    feed_fresh(&r, ids, 40, one);
    tern_seq_keep(r.ctx, 0, 0);
    for (size_t i = 0; i < 40; i++)
        add(&r, 0, ids[i], i < TERN_MAX_LOGITS ? TERN_ROW_LOGITS : 0);
    refused(&r, 0, ids[0], TERN_ROW_LOGITS, TERN_LIMIT, "32");
    refused(&r, 3, 0, 0, TERN_USAGE, "sequence 3");
    refused(&r, 0, -1, 0, TERN_USAGE, "-1");
    refused(&r, 0, VOCAB, 0, TERN_USAGE, "96");
    add(&r, 1, 5, 0);
    refused(&r, 0, 5, 0, TERN_USAGE, "neighbours");
    for (size_t i = 41; i < BATCH; i++)
        add(&r, 1, 6, 0);
    refused(&r, 1, 6, 0, TERN_LIMIT, "batch is full");
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 40);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 1), BATCH - 40);
    ck_assert_uint_eq(tern_n_logits(r.ctx), TERN_MAX_LOGITS);
    for (size_t i = 0; i < TERN_MAX_LOGITS; i++)
        ck_assert(same(tern_logits(r.ctx, i), one[i]));
    run_close(&r);
}
END_TEST

START_TEST(test_full_context)
{
    struct run r;
    run_open(&r, small_toy(), 2);
    for (uint32_t at = 0; at < CTX; at += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            add(&r, 0, (tern_token)(i % VOCAB), 0);
        if (at + BATCH == CTX)
            break;
        ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    }
    tern_batch_clear(r.ctx);
    for (uint32_t i = 0; i < BATCH - 1; i++)
        add(&r, 0, 1, 0);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    add(&r, 0, 1, TERN_ROW_LOGITS);
    refused(&r, 0, 1, 0, TERN_LIMIT, "context is full");
    add(&r, 1, 1, 0);
    ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), CTX);
    refused(&r, 0, 1, 0, TERN_LIMIT, "1024");
    run_close(&r);
}
END_TEST

START_TEST(test_empty_batch)
{
    struct run r;
    run_open(&r, small_toy(), 1);
    add(&r, 0, 1, TERN_ROW_LOGITS);
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
    struct toy toy = small_toy();
    struct run r;
    tern_token ids[2] = {1, 2};
    toy.attn_bias = 15;
    run_write(&r, toy);
    patch(r.path, tensor, i * sizeof value, &value, sizeof value);
    run_start(&r, cache, 1);
    *e = (struct tern_error){0};
    feed_fresh(&r, ids, 2, one);
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

int main(void)
{
    Suite *suite = suite_create("forward");
    TCase *reach = tcase_create("reach"), *rows = tcase_create("rows");
    tcase_add_test(reach, test_later_tokens_change_nothing_earlier);
    tcase_add_loop_test(reach, test_window, 0, 8);
    tcase_add_test(reach, test_wide_window_is_none);
    tcase_add_test(reach, test_rope_is_relative);
    tcase_add_test(reach, test_order_matters_by_rope_alone);
    tcase_add_loop_test(reach, test_gqa_is_mha_of_repeated_heads, 1, 4);
    tcase_add_test(rows, test_order_of_sequences);
    tcase_add_test(rows, test_keep);
    tcase_add_test(rows, test_fork);
    tcase_add_test(rows, test_keep_inside_a_shared_page);
    tcase_add_test(rows, test_keep_with_a_window);
    tcase_add_test(rows, test_cancel_leaves_sequences);
    tcase_add_test(rows, test_cancel_from_another_thread);
    tcase_add_test(rows, test_refused_rows);
    tcase_add_test(rows, test_full_context);
    tcase_add_test(rows, test_empty_batch);
    tcase_add_test(rows, test_numeric_status);
    tcase_set_timeout(reach, 120);
    tcase_set_timeout(rows, 120);
    suite_add_tcase(suite, reach);
    suite_add_tcase(suite, rows);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
