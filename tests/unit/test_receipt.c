/* ldflags: -Wl,@tests/support/allocs.ld */
/* Receipts: what was generated is proven, by any machine. test_receipt_wrong has what is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "each_allocation.h"
#include "golden.h"
#include "receipt_story.h"
#include "suite.h"

/* The receipt is made by one way of computing and proven by others. */
START_TEST(answers_with_any_options_are_proven)
{
    if (!golden_is_due(_i))
        return;
    struct story *s = malloc(sizeof *s);
    story_begin(s, _i % 2 ? "The cat sat" : "Once upon a time there was a little girl.");
    if (_i % 3 == 0)
        story_bind(s, (size_t)_i / 3);
    story_draw(s, 1000 + (uint64_t)_i);
    story_make(s);
    story_must_hold(s);
    tern_model *other = story_open_model(story_fable, _i % 8 ? NULL : "ref", 1 + _i % 3);
    ck_assert(story_proven_by(other, s->text, s->n).holds);
    tern_model_close(other);
    free(s);
}
END_TEST

START_TEST(any_end_of_a_text_is_proven)
{
    static const char *const word[] = {"the"};
    struct story *s = malloc(sizeof *s);
    story_begin(s, "The cat");
    s->sampler.temperature = 0;
    s->p.n_predict = -1, s->n_ctx = 50; /* full */
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_CONTEXT);
    story_must_hold(s);
    s->n_ctx = STORY_MOST;
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_END);
    story_must_hold(s);
    s->p.stop = word, s->p.n_stop = 1;
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_STRING);
    story_must_hold(s);
    s->p.n_stop = 0, s->cancel_at = 7;
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_CANCELLED);
    story_must_hold(s);
    s->p.n_predict = 0;
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_LENGTH);
    story_must_hold(s);
    s->p.n_predict = 300, s->cancel_at = 0;
    story_bind(s, 4);
    story_make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_COMPLETE);
    story_must_hold(s);
    free(s);
}
END_TEST

START_TEST(every_kind_of_model_is_proven)
{
    char path[256];
    static struct golden g;
    if (!golden_is_due(_i))
        return;
    golden_read(&g, golden_names[_i]);
    golden_write(path, sizeof path, &g, TERN_F32);
    story_model = story_open_model(path, NULL, 2);
    struct story *s = malloc(sizeof *s);
    struct tern_model_info info;
    tern_model_info(story_model, &info);
    story_begin(s, NULL);
    s->n_prompt = 21;
    golden_prompt(s->prompt, s->n_prompt, 9, info.vocab);
    s->n_batch = 1 + (uint32_t)_i % 9, s->n_ctx = info.max_seq < 120 ? (uint32_t)info.max_seq : 120;
    s->p.n_predict = (int64_t)s->n_ctx - 22 < 80 ? (int64_t)s->n_ctx - 22 : 80, s->p.ignore_end = 1;
    story_make(s);
    story_must_hold(s);
    s->answer[30 % s->n_answer] ^= 1;
    ck_assert(!story_receipt(s, NULL));
    ck_assert_uint_eq(story_proven_by(story_model, s->text, s->n).first_wrong, 30 % s->n_answer);
    tern_model_close(story_model);
    golden_close(&g);
    unlink(path);
    free(s);
}
END_TEST

/* Keys and values become those of other frequencies where a text crosses a limit. */
START_TEST(answers_that_cross_a_rope_limit_are_proven)
{
    char path[256];
    struct toy toy = toy_default();
    struct tern_error e = {0};
    toy.rope_theta = 100, toy.rope_limit = 40, toy.max_seq = 128;
    toy_path(path, sizeof path, "receipt.bin");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    story_model = story_open_model(path, NULL, 1);
    struct story *s = malloc(sizeof *s);
    for (size_t n = 5; n < 45; n += 1 + n % 7) {
        story_begin(s, NULL);
        s->n_prompt = n;
        golden_prompt(s->prompt, n, n, toy.vocab);
        s->n_ctx = 128, s->p.n_predict = 60, s->p.ignore_end = 1;
        story_make(s);
        story_must_hold(s);
    }
    tern_model_close(story_model);
    unlink(path);
    free(s);
}
END_TEST

/* ---- models and chat templates ------------------------------------------------------------------- */

START_TEST(another_chat_template_is_refused_where_it_has_a_part)
{
    struct story *s = malloc(sizeof *s);
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    story_begin(s, "The cat sat");
    s->p.stop = story_stops, s->p.n_stop = 1;
    story_make(s);
    story_must_hold(s);
    ck_assert(!tern_chat_use(story_model, "chatml", NULL));
    ck_assert_int_eq(tern_receipt_verify(story_model, s->text, s->n, &v, &e), TERN_USAGE);
    ck_assert(strstr(e.text, "chat template"));
    story_make(s);
    story_must_hold(s);
    s->p.n_stop = 0;
    story_make(s);
    ck_assert(!tern_chat_use(story_model, "zephyr", NULL));
    story_must_hold(s);
    free(s);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------------- */

static struct story held, again;

static void prove_held(void)
{
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    enum tern_status s = tern_receipt_verify(story_model, held.text, held.n, &v, &e);
    if (s != TERN_NO_MEMORY && (s || !v.holds))
        fprintf(stderr, "%d %s %s", (int)s, e.text, v.why), abort();
    s = story_receipt(&again, &e);
    if (s ? s != TERN_NO_MEMORY : again.n != held.n || memcmp(again.text, held.text, held.n) != 0)
        abort();
}

START_TEST(every_allocation_may_fail)
{
    if (golden_is_threaded())
        return;
    story_long(&held);
    again = held;
    ck_assert_uint_gt(each_allocation(prove_held), 20);
}
END_TEST

static int stop_at;

static int stop(void *arg)
{
    (void)arg;
    return !--stop_at;
}

START_TEST(a_proof_can_be_stopped)
{
    struct tern_model_params p = {.n_threads = 1, .stop = stop};
    struct story *s = malloc(sizeof *s);
    struct tern_receipt_verdict v;
    story_long(s);
    tern_model *m;
    stop_at = -1;
    ck_assert(!tern_model_open(&m, story_fable, &p, NULL));
    ck_assert(story_proven_by(m, s->text, s->n).holds);
    for (int i = 1; i < 3; i++) {
        struct tern_error e = {0};
        stop_at = i;
        ck_assert_int_eq(tern_receipt_verify(m, s->text, s->n, &v, &e), TERN_CANCELLED);
        ck_assert(e.code == TERN_CANCELLED && !v.holds);
    }
    tern_model_close(m);
    free(s);
}
END_TEST

SUITE("receipt", LOOP(every_kind_of_model_is_proven, 0, golden_count()),
      TEST(answers_that_cross_a_rope_limit_are_proven),
      AROUND_EACH(story_open_fable, story_close_model),
      LOOP(answers_with_any_options_are_proven, 0, 32), TEST(any_end_of_a_text_is_proven),
      TEST(another_chat_template_is_refused_where_it_has_a_part), TEST(every_allocation_may_fail),
      TEST(a_proof_can_be_stopped))
