/* Texts that change: what is kept of a sequence, and the shift of a full context. Both give the bits of
 * a fresh run, for every golden model and type of cache. */
#include <stdbool.h>
#include <string.h>

#include "golden.h"
#include "sequence_run.h"
#include "suite.h"

START_TEST(what_a_sequence_holds_is_not_evaluated_again)
{
    struct toy toy = toy_default();
    tern_token other[40];
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(40, 40, TERN_CACHE_F16);
    memcpy(other, seq_text, sizeof other);
    other[20] = (other[20] + 1) % 259;
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, seq_text, 30), 0);
    seq_feed(ctx, seq_text, 0, 30, false);
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, seq_text, 40), 30);
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, seq_text, 30),
                      29); /* the last one's logits are wanted */
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, seq_text, 0), 0);
    seq_feed(ctx, seq_text, 0, 30, false);
    ck_assert_uint_eq(tern_seq_fork(ctx, 0, 1, 25), 25);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 1), seq_text, 25 * sizeof *seq_text));
    ck_assert_ptr_null(tern_seq_tokens(ctx, 2));
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, other, 40), 20);
    ck_assert_uint_eq(seq_mark(ctx, other, 20, 40), seq_fresh_mark(0, other, 20, 40));
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), other, sizeof other));
    ck_assert_uint_eq(tern_seq_reuse(ctx, 2, other, 40), 0);
    tern_context_close(ctx);
    seq_close();
}
END_TEST

/* ---- shift ---------------------------------------------------------------------------------- */

static int mirostat; /* of generate() */
static uint32_t lookup = 5;

static struct tern_generate_result generate(tern_context *ctx, const tern_token *prompt, size_t n,
                                            int64_t n_predict, int shift, uint32_t keep)
{
    struct tern_error e = {0};
    struct tern_sampler_params sampler = {
        .temperature = 1.2f, .repeat_penalty = 1.3f, .repeat_last_n = 64, .top_p = 1, .seed = 3};
    sampler.mirostat = mirostat, sampler.mirostat_tau = 3, sampler.mirostat_eta = 0.5f;
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result r;
    p.tokens = prompt, p.n_tokens = n, p.n_predict = n_predict, p.ignore_end = 1;
    p.shift = shift, p.keep = keep, p.sampler = &sampler, p.lookup = lookup;
    ck_assert_msg(!tern_generate(ctx, &p, &r, &e), "%s", e.text);
    return r;
}

/* Fills a context, with `more` tokens beyond; compares with a new text of what should remain. */
static void check_shift(enum tern_cache_type type, uint32_t n_ctx, uint32_t keep, size_t more)
{
    enum { N = 40 };
    tern_token kept[800];
    tern_context *ctx = seq_context(n_ctx, 64, type);
    struct tern_generate_result r = generate(ctx, seq_text, N, n_ctx - N + 1, 1, keep);
    ck_assert(r.n_shifts == 0 && r.reason == TERN_STOP_LENGTH);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n_ctx); /* and one beyond it */
    const tern_token *full = tern_seq_tokens(ctx, 0);
    size_t newest = (n_ctx + 1 - keep) / 2, n = keep + newest;
    memcpy(kept, full, keep * sizeof *kept);
    memcpy(kept + keep, full + n_ctx + 1 - newest, (newest - 1) * sizeof *kept);
    kept[n - 1] = r.last;
    tern_seq_keep(ctx, 0, 0);
    r = generate(ctx, seq_text, N, (int64_t)(n_ctx - N + 1 + more), 1, keep);
    ck_assert_uint_eq(r.n_shifts, 1);
    ck_assert(r.n_shifted > 0 && r.n_shifted <= n && r.shift_seconds <= r.generate_seconds);
    tern_context *fresh = seq_context(n_ctx, 11, type);
    struct tern_generate_result f = generate(fresh, kept, n, (int64_t)more, 1, keep);
    ck_assert(f.n_shifts == 0 && f.last == r.last);
    ck_assert_uint_eq(tern_seq_length(fresh, 0), n + more - 1);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n + more - 1);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), tern_seq_tokens(fresh, 0), 4 * (n + more - 1)));
    ck_assert(!memcmp(tern_logits(ctx, tern_n_logits(ctx) - 1),
                      tern_logits(fresh, tern_n_logits(fresh) - 1), 4 * seq_info.vocab));
    ck_assert_uint_eq(seq_mark(ctx, seq_text, 0, 5), seq_mark(fresh, seq_text, 0, 5));
    tern_context_close(ctx);
    tern_context_close(fresh);
}

START_TEST(a_shift_gives_the_bits_of_a_new_text)
{
    if (!golden_is_due(_i))
        return;
    seq_open_golden(golden_names[_i]);
    for (int type = seq_is_slow() ? 2 : 0; tern_cache_type_name(type); type++)
        check_shift(type, type == 1 && seq_info.max_seq >= 100 ? 100 : 63, type == 2 ? 0 : 17, 9);
    if (seq_info.max_seq > 400 && !seq_is_slow())
        check_shift(TERN_CACHE_F32, 400, 4, 30);
    seq_close();
}
END_TEST

START_TEST(a_shift_begins_mirostat_anew)
{
    struct toy toy = toy_default();
    seq_open_toy(&toy);
    for (mirostat = 2, lookup = 0; lookup <= 5; lookup += 5)
        check_shift(TERN_CACHE_F16, 63, 17, 9);
    mirostat = 0, lookup = 5;
    seq_close();
}
END_TEST

struct shift_canceller {
    tern_context *ctx;
    uint32_t full,
        at; /* cancels in the batch that begins there, after one that reached `full`; how many
                        * rows that one has is for the clock to decide */
    bool shifted;
};

static void cancel_in_shift(void *arg, const struct tern_observation *o)
{
    struct shift_canceller *c = arg;
    c->shifted |= o->at[o->rows - 1].position + 1 == c->full; /* maybe behind guesses */
    if (c->shifted && o->at[0].position == c->at)
        tern_cancel(c->ctx);
}

/* Wherever a shift is cancelled, the sequence is the text that it makes, whole. */
START_TEST(a_cancelled_shift_is_a_whole_text)
{
    enum { N = 20, FULL = 50, KEEP = 6, LEFT = KEEP + (FULL + 1 - KEEP) / 2 };
    struct toy toy = toy_default();
    struct tern_error e = {0};
    tern_token kept[FULL];
    seq_open_toy(&toy);
    for (uint32_t at = KEEP; at < LEFT; at += 5) {
        tern_context *ctx = seq_context(FULL, 5, TERN_CACHE_F16);
        struct tern_generate_result r = generate(ctx, seq_text, N, FULL - N + 1, 1, KEEP);
        memcpy(kept, tern_seq_tokens(ctx, 0), KEEP * sizeof *kept);
        memcpy(kept + KEEP, tern_seq_tokens(ctx, 0) + FULL - (LEFT - KEEP - 1),
               (LEFT - KEEP - 1) * sizeof *kept);
        kept[LEFT - 1] = r.last;
        tern_seq_keep(ctx, 0, 0);
        struct shift_canceller c = {ctx, FULL, at, false};
        ck_assert(!tern_observe(ctx, cancel_in_shift, &c, &e));
        r = generate(ctx, seq_text, N, -1, 1, KEEP);
        ck_assert(r.reason == TERN_STOP_CANCELLED && r.n_shifts == 1 &&
                  r.n_generated == FULL - N + 1);
        ck_assert_int_eq(r.last, -1);
        ck_assert_uint_eq(tern_seq_length(ctx, 0), LEFT);
        ck_assert(!memcmp(tern_seq_tokens(ctx, 0), kept, LEFT * sizeof *kept));
        memcpy(kept + LEFT, seq_text + LEFT, (FULL - LEFT) * sizeof *kept);
        ck_assert(!tern_observe(ctx, NULL, NULL, &e));
        ck_assert_uint_eq(seq_mark(ctx, seq_text, LEFT, FULL), seq_fresh_mark(0, kept, LEFT, FULL));
        tern_context_close(ctx);
    }
    seq_close();
}
END_TEST

START_TEST(contexts_of_any_size_shift_and_full_ones_stop)
{
    struct toy toy = toy_default();
    seq_open_toy(&toy);
    for (uint32_t n_ctx = 1; n_ctx < 30; n_ctx += 1 + n_ctx / (seq_is_slow() ? 1 : 6))
        for (uint32_t keep = 0; keep <= n_ctx + 1; keep++) {
            tern_context *ctx = seq_context(n_ctx, 64, TERN_CACHE_F16);
            struct tern_generate_result r = generate(ctx, seq_text, 1 + n_ctx / 3, 100, 1, keep);
            ck_assert(r.n_generated == 100 && r.n_shifts > 0 && r.reason == TERN_STOP_LENGTH);
            tern_seq_keep(ctx, 0, 0);
            r = generate(ctx, seq_text, n_ctx, -1, 0, keep);
            ck_assert(r.n_generated == 1 && !r.n_shifts && r.reason == TERN_STOP_CONTEXT);
            tern_context_close(ctx);
        }
    seq_close();
}
END_TEST

SUITE("shift", TEST(what_a_sequence_holds_is_not_evaluated_again),
      LOOP(a_shift_gives_the_bits_of_a_new_text, 0, golden_count()),
      TEST(a_shift_begins_mirostat_anew), TEST(a_cancelled_shift_is_a_whole_text),
      TEST(contexts_of_any_size_shift_and_full_ones_stop))
