/* Laws of the forward pass that need no reference: what may and what may not change the logits, and
 * what cutting and forking leave behind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward_run.h"
#include "kernels/formats.h"
#include "suite.h"

static logits_rows one, two;

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

/* ---- what a token can reach ---------------------------------------------------------------- */

START_TEST(test_later_tokens_change_nothing_earlier)
{
    struct run r;
    tern_token ids[300];
    static const size_t places[] = {1, 17, 255, 256, 299};
    run_open(&r, run_toy(), 1);
    run_ids(ids, 300, 1);
    run_feed_fresh(&r, ids, 300, one);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        size_t at = places[k];
        ids[at] = (ids[at] + 1) % VOCAB;
        run_feed_fresh(&r, ids, 300, two);
        for (size_t i = 0; i < 300; i++)
            ck_assert_msg(run_same(one[i], two[i]) == (i < at), "token %zu, row %zu", at, i);
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
    struct toy toy = run_toy();
    tern_token ids[MAX];
    toy.n_layers = 1, toy.window[0] = windows[_i];
    struct run r;
    run_open(&r, toy, 1);
    run_ids(ids, MAX, 2);
    run_feed_fresh(&r, ids, MAX, one);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        size_t at = places[k];
        ids[at] = (ids[at] + 1) % VOCAB;
        run_feed_fresh(&r, ids, MAX, two);
        for (size_t i = 0; i < MAX; i++)
            ck_assert_msg(!run_same(one[i], two[i]) == (i >= at && i < at + toy.window[0]),
                          "window %d, token %zu, row %zu", (int)toy.window[0], at, i);
        ids[at] = (ids[at] + VOCAB - 1) % VOCAB;
    }
    run_close(&r);
}
END_TEST

/* A window as long as the context is no window. */
START_TEST(test_wide_window_is_none)
{
    struct toy toy = run_toy();
    struct run r;
    tern_token ids[MAX];
    run_ids(ids, MAX, 3);
    run_open(&r, toy, 1);
    run_feed_fresh(&r, ids, MAX, one);
    run_close(&r);
    toy.window[0] = MAX, toy.window[1] = 4 * CTX;
    run_open(&r, toy, 1);
    run_feed_fresh(&r, ids, MAX, two);
    for (size_t i = 0; i < MAX; i++)
        ck_assert_msg(run_same(one[i], two[i]), "row %zu", i);
    run_close(&r);
}
END_TEST

/* With a window, one layer and tokens that repeat every 32, only distances tell rows i and i + 32
 * apart, and RoPE knows nothing but distances. Angles are rounded, so not to the bit. */
START_TEST(test_rope_is_relative)
{
    struct toy toy = run_toy();
    struct run r;
    tern_token ids[MAX];
    run_ids(ids, 32, 4);
    for (size_t i = 32; i < MAX; i++)
        ids[i] = ids[i - 32];
    toy.n_layers = 1, toy.window[0] = 20;
    run_open(&r, toy, 1);
    run_feed_fresh(&r, ids, MAX, one);
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
        struct toy toy = run_toy();
        struct run r;
        tern_token ids[40], other[40];
        toy.n_layers = 1, toy.rope_theta = rope ? 10000 : 0;
        run_ids(ids, 40, 5);
        memcpy(other, ids, sizeof ids);
        other[3] = ids[30], other[30] = ids[3];
        run_open(&r, toy, 1);
        run_feed_fresh(&r, ids, 40, one);
        run_feed_fresh(&r, other, 40, two);
        ck_assert_int_eq(distance(two[39], one[39]) < 1e-5f, !rope);
        ck_assert(distance(two[29], one[29]) > 1e-3f);
        run_close(&r);
    }
}
END_TEST

/* ---- heads --------------------------------------------------------------------------------- */

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
    run_patch(many->path, name, 0, tiles, n_many * head * sizeof *tiles);
    free(from);
    free(to);
    free(tiles);
}

/* Grouped heads are a saving, not another function: GQA and MQA equal MHA with repeated heads. */
START_TEST(test_gqa_is_mha_of_repeated_heads)
{
    struct toy gqa = run_toy(), mha = gqa;
    struct run r;
    tern_token ids[280];
    gqa.n_heads = mha.n_heads = mha.n_kv_heads = 6, gqa.n_kv_heads = (uint64_t)_i;
    run_ids(ids, 280, 6);
    run_open(&r, gqa, 1);
    run_feed_fresh(&r, ids, 280, one);
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
    run_feed_fresh(&r, ids, 280, two);
    for (size_t i = 0; i < 280; i++)
        ck_assert_msg(run_same(one[i], two[i]), "%d kv heads, row %zu", _i, i);
    run_close(&r);
}
END_TEST

/* ---- batches and sequences ------------------------------------------------------------------ */

START_TEST(test_order_of_sequences)
{
    struct run r;
    tern_token ids[2][20];
    run_open(&r, run_toy(), 3);
    run_ids(ids[0], 20, 7);
    run_ids(ids[1], 20, 8);
    run_feed_fresh(&r, ids[0], 20, one);
    run_feed(&r, 1, ids[1], 20, two);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t s = 0; s < 3; s++)
            tern_seq_keep(r.ctx, s, 0);
        for (size_t k = 0; k < 2; k++)
            for (size_t i = 0; i < 20; i++)
                run_add(&r, 2 - (uint32_t)k, ids[(k + turn) % 2][i], i == 19 ? TERN_ROW_LOGITS : 0);
        ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
        ck_assert(run_same(tern_logits(r.ctx, turn), one[19]));
        ck_assert(run_same(tern_logits(r.ctx, 1 - turn), two[19]));
    }
    run_close(&r);
}
END_TEST

/* A prompt goes through a step in pieces of rows: any number of them gives the logits of a few. */
START_TEST(test_pieces_of_a_prompt)
{
    static const enum tern_type types[] = {TERN_F32, TERN_Q4};
    static const size_t lengths[] = {96, 97, 111, 112, 113, 256, 257, 271, 272, 273, 529, MAX};
    struct toy toy = run_toy();
    struct tern_error e = {0};
    tern_token ids[MAX];
    struct run r;
    toy.type = types[_i], toy.hidden = 3072;
    run_open(&r, toy, 1);
    run_ids(ids, MAX, 12);
    run_feed_fresh(&r, ids, MAX, one);
    tern_context_close(r.ctx);
    struct tern_context_params cp = {.n_ctx = CTX, .n_batch = MAX, .cache_type = TERN_CACHE_F32};
    ck_assert_msg(!tern_context_open(&r.ctx, r.model, &cp, &e), "%s", e.text);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t n = lengths[k], first = n - TERN_DEFAULT_LOGITS;
        tern_seq_keep(r.ctx, 0, 0);
        for (size_t i = 0; i < n; i++)
            run_add(&r, 0, ids[i], i < first ? 0 : TERN_ROW_LOGITS);
        ck_assert_int_eq(tern_forward(r.ctx), TERN_OK);
        for (size_t i = first; i < n; i++)
            ck_assert_msg(run_same(tern_logits(r.ctx, i - first), one[i]), "%zu rows, row %zu", n,
                          i);
    }
    run_close(&r);
}
END_TEST

START_TEST(test_keep)
{
    struct run r;
    tern_token ids[280];
    run_open(&r, run_toy(), 1);
    run_ids(ids, 280, 9);
    run_feed_fresh(&r, ids, 280, one);
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 1000), 280);
    for (size_t n = 280; n-- > 0;) {
        ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, (uint32_t)n), n);
        ck_assert_uint_eq(tern_seq_length(r.ctx, 0), n);
        run_feed(&r, 0, ids + n, n < 278 ? 3 : 280 - n, two);
        ck_assert_msg(run_same(two[0], one[n]), "kept %zu", n);
    }
    run_close(&r);
}
END_TEST

START_TEST(test_fork)
{
    struct run r;
    tern_token ids[280], other[8];
    run_open(&r, run_toy(), 2);
    run_ids(ids, 280, 10);
    run_ids(other, 8, 11);
    run_feed_fresh(&r, ids, 280, one);
    for (size_t n = 0; n < 280; n++) {
        ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, (uint32_t)n), n);
        ck_assert_uint_eq(tern_seq_length(r.ctx, 1), n);
        run_feed(&r, 1, ids + n, 1, two);
        ck_assert_msg(run_same(two[0], one[n]), "forked at %zu", n);
        run_feed(&r, 1, other, 8, two); /* its own way, which the origin must not notice */
        ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 279), 279);
        run_feed(&r, 0, ids + 279, 1, two);
        ck_assert_msg(run_same(two[0], one[279]), "origin after a fork at %zu", n);
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
        run_open(&r, run_toy(), 2);
        run_ids(ids, 520, 16);
        run_ids(other, 8, 17);
        run_feed_fresh(&r, ids, 520, one);
        ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, 520), 520);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 300), 300);
        run_feed(&r, back, other, 8, two);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 100), 100);
        run_feed(&r, back, other, 8, two);
        ck_assert_uint_eq(tern_seq_keep(r.ctx, stays, 519), 519);
        run_feed(&r, stays, ids + 519, 1, two);
        ck_assert(run_same(two[0], one[519]));
        ck_assert_uint_eq(tern_seq_keep(r.ctx, back, 100), 100);
        run_feed(&r, back, ids + 100, 420, two);
        for (size_t i = 100; i < 520; i++)
            ck_assert_msg(run_same(two[i - 100], one[i]), "row %zu", i);
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
    struct toy toy = run_toy();
    struct run r;
    tern_token ids[N];
    toy.window[0] = 10;
    run_open(&r, toy, 2);
    run_ids(ids, N, 12);
    run_feed_fresh(&r, ids, N, one);
    ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, 5), 0);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), N);
    ck_assert_uint_eq(tern_seq_fork(r.ctx, 0, 1, N - BACK), N - BACK);
    run_feed(&r, 1, ids + N - BACK, BACK, two);
    ck_assert(run_same(two[0], one[N - BACK]) && run_same(two[BACK - 1], one[N - 1]));
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, N - BACK), N - BACK);
    run_feed(&r, 0, ids + N - BACK, BACK, two);
    ck_assert(run_same(two[0], one[N - BACK]) && run_same(two[BACK - 1], one[N - 1]));
    ck_assert_uint_eq(tern_seq_keep(r.ctx, 0, 100), 0);
    ck_assert_uint_eq(tern_seq_length(r.ctx, 0), 0);
    run_feed(&r, 0, ids, N, two);
    ck_assert(run_same(two[N - 1], one[N - 1]));
    run_close(&r);
}
END_TEST

SUITE("forward", TEST(test_later_tokens_change_nothing_earlier), LOOP(test_window, 0, 8),
      TEST(test_wide_window_is_none), TEST(test_rope_is_relative),
      TEST(test_order_matters_by_rope_alone), LOOP(test_gqa_is_mha_of_repeated_heads, 1, 4),
      TEST(test_order_of_sequences), LOOP(test_pieces_of_a_prompt, 0, 2), TEST(test_keep),
      TEST(test_fork), TEST(test_keep_inside_a_shared_page), TEST(test_keep_with_a_window))
