/* Models whose texts turn by other frequencies beyond a limit: whatever led to a sequence, its
 * logits are those of a fresh one. What they should be is test_golden.c's affair (phi3-grows). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern_lab.h"
#include "toy.h"
#include "suite.h"

enum { LIMIT = 40, N_CTX = 120, N_SEQS = 3, VOCAB = 259, N_TYPES = 3 };

static char path[256], session[256];
static tern_model *model;
static uint64_t state;

static unsigned dice(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static tern_context *open_context(enum tern_cache_type type, uint32_t n_batch)
{
    struct tern_error e = {0};
    struct tern_context_params p = {
        .n_ctx = N_CTX, .n_batch = n_batch, .n_seqs = N_SEQS, .cache_type = type};
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_context_open(&ctx, model, &p, &e), "%s", e.text);
    return ctx;
}

static void add(tern_context *ctx, uint32_t seq, const tern_token *tokens, size_t n)
{
    struct tern_error e = {0};
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!tern_batch_add(ctx, seq, tokens[i], i + 1 == n ? TERN_ROW_LOGITS : 0, &e),
                      "%s", e.text);
}

/* The logits after tokens [n], all in one batch. */
static void fresh(enum tern_cache_type type, const tern_token *tokens, size_t n, float *logits)
{
    static tern_context *contexts[N_TYPES];
    if (!model) {
        for (int i = 0; i < N_TYPES; i++)
            tern_context_close(contexts[i]), contexts[i] = NULL;
        return;
    }
    if (!contexts[type])
        contexts[type] = open_context(type, N_CTX);
    tern_seq_keep(contexts[type], 0, 0);
    add(contexts[type], 0, tokens, n);
    ck_assert(!tern_forward(contexts[type]));
    memcpy(logits, tern_logits(contexts[type], 0), VOCAB * sizeof *logits);
}

static void compare(tern_context *ctx, size_t row, enum tern_cache_type type, uint32_t seq)
{
    float want[VOCAB];
    fresh(type, tern_seq_tokens(ctx, seq), tern_seq_length(ctx, seq), want);
    ck_assert_msg(!memcmp(tern_logits(ctx, row), want, sizeof want), "sequence %u of %u tokens",
                  seq, tern_seq_length(ctx, seq));
}

START_TEST(the_limit_matters)
{
    float near[VOCAB], again[VOCAB];
    tern_token tokens[LIMIT + 1];
    tern_context *ctx = open_context(TERN_CACHE_F32, 7);
    for (size_t i = 0; i <= LIMIT; i++)
        tokens[i] = (tern_token)dice(VOCAB);
    fresh(TERN_CACHE_F32, tokens, LIMIT, near);
    for (size_t at = 0; at < LIMIT; at += 5)
        add(ctx, 0, tokens + at, 5), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F32, 0);
    tern_seq_keep(ctx, 0, 0);
    tern_seq_expect(ctx, 0, LIMIT + 1); /* the same rows, of a text that will be longer */
    for (size_t at = 0; at < LIMIT; at += 5)
        add(ctx, 0, tokens + at, 5), ck_assert(!tern_forward(ctx));
    memcpy(again, tern_logits(ctx, 0), sizeof again);
    ck_assert(memcmp(near, again, sizeof near));
    add(ctx, 0, tokens + LIMIT, 1), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F32, 0);
    tern_context_close(ctx);
}
END_TEST

static void cancel_at_once(void *arg, const struct tern_observation *o)
{
    (void)o;
    tern_cancel(arg);
}

/* The tokens that are evaluated again are all there when that is cancelled, and the batch is not.
 */
START_TEST(a_cancelled_turn_leaves_the_sequence_as_it_was)
{
    tern_token tokens[LIMIT + 1];
    for (int i = 0; i <= LIMIT; i++)
        tokens[i] = (tern_token)dice(VOCAB);
    tern_context *ctx = open_context(TERN_CACHE_F16, 7);
    for (size_t at = 0; at < LIMIT; at += 5)
        add(ctx, 0, tokens + at, 5), ck_assert(!tern_forward(ctx));
    add(ctx, 0, tokens + LIMIT, 1);
    ck_assert(!tern_observe(ctx, cancel_at_once, ctx, NULL));
    ck_assert_int_eq(tern_forward(ctx), TERN_CANCELLED);
    ck_assert(!tern_observe(ctx, NULL, NULL, NULL));
    ck_assert_uint_eq(tern_seq_length(ctx, 0), LIMIT);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), tokens, LIMIT * sizeof *tokens));
    add(ctx, 0, tokens + LIMIT, 1), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F16, 0);
    tern_seq_keep(ctx, 0, LIMIT);
    ck_assert(!tern_observe(ctx, cancel_at_once, ctx, NULL));
    ck_assert(!tern_session_save(ctx, 0, session, NULL)); /* which turns it back */
    ck_assert(!tern_observe(ctx, NULL, NULL, NULL));
    ck_assert(!tern_session_load(ctx, 1, session, NULL));
    ck_assert_uint_eq(tern_seq_length(ctx, 1), LIMIT);
    tern_context_close(ctx);
}
END_TEST

/* Batches of several sequences, truncations, forks, sessions and cancels, at random. */
static void step(tern_context *ctx, enum tern_cache_type type, uint32_t n_batch)
{
    uint32_t seq = dice(N_SEQS), other = dice(N_SEQS), length = tern_seq_length(ctx, seq);
    size_t rows = 0, room = n_batch;
    uint32_t order[N_SEQS];
    switch (dice(8)) {
    case 0:
        tern_seq_keep(ctx, seq, dice(length + 1));
        return;
    case 1:
        tern_seq_fork(ctx, seq, other, dice(length + 1));
        return;
    case 2:
        if (length && !tern_session_save(ctx, seq, session, NULL))
            ck_assert(!tern_session_load(ctx, other, session, NULL));
        return;
    case 3:
        tern_cancel(ctx);
    }
    for (uint32_t s = seq; s < N_SEQS; s++) {
        tern_token tokens[12];
        size_t n = dice(12);
        length = tern_seq_length(ctx, s);
        n = n > N_CTX - length ? N_CTX - length : n;
        n = n > room ? room : n;
        room -= n;
        for (size_t i = 0; i < n; i++)
            tokens[i] = (tern_token)dice(VOCAB);
        add(ctx, s, tokens, n);
        if (n)
            order[rows++] = s;
    }
    uint32_t before[N_SEQS];
    for (uint32_t s = 0; s < N_SEQS; s++)
        before[s] = tern_seq_length(ctx, s);
    if (tern_forward(ctx))
        for (uint32_t s = 0; s < N_SEQS; s++)
            ck_assert_uint_eq(tern_seq_length(ctx, s), before[s]);
    else
        for (size_t i = 0; i < rows; i++)
            compare(ctx, i, type, order[i]);
}

START_TEST(every_way_gives_the_bits_of_a_fresh_run)
{
    enum tern_cache_type type = (enum tern_cache_type)(_i % N_TYPES);
    uint32_t n_batch = _i < N_TYPES ? 30 : 4;
    tern_context *ctx = open_context(type, n_batch);
    state = (uint64_t)_i;
    for (int i = 0; i < 300; i++)
        step(ctx, type, n_batch);
    ck_assert(!tern_numeric_status(ctx, NULL));
    tern_context_close(ctx);
}
END_TEST

/* A short sequence comes where a long one was, and grows at once. */
START_TEST(a_session_brings_its_own_frequencies)
{
    tern_token tokens[LIMIT + 20];
    tern_context *ctx = open_context(TERN_CACHE_F16, N_CTX);
    for (size_t i = 0; i < LIMIT + 20; i++)
        tokens[i] = (tern_token)dice(VOCAB);
    add(ctx, 0, tokens, 30), ck_assert(!tern_forward(ctx));
    add(ctx, 1, tokens, LIMIT + 10), ck_assert(!tern_forward(ctx));
    ck_assert(!tern_session_save(ctx, 0, session, NULL));
    ck_assert(!tern_session_load(ctx, 1, session, NULL));
    add(ctx, 1, tokens + 30, LIMIT - 10), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F16, 1);
    ck_assert(!tern_session_save(ctx, 1, session, NULL));
    ck_assert(!tern_session_load(ctx, 0, session, NULL));
    add(ctx, 0, tokens, 5), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F16, 0);
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_generated_text_expects_nothing_of_the_next)
{
    tern_token prompt[LIMIT + 5];
    struct tern_generate_params p = tern_generate_defaults();
    tern_context *ctx = open_context(TERN_CACHE_F16, 16);
    for (size_t i = 0; i < LIMIT + 5; i++)
        prompt[i] = (tern_token)dice(VOCAB);
    p.tokens = prompt, p.n_tokens = LIMIT + 5, p.n_predict = 2;
    ck_assert(!tern_generate(ctx, &p, NULL, NULL));
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, 10), 10);
    add(ctx, 0, prompt, 3), ck_assert(!tern_forward(ctx));
    compare(ctx, 0, TERN_CACHE_F16, 0);
    tern_context_close(ctx);
}
END_TEST

/* A text that is generated over the limit. */
static uint64_t generate(uint32_t n_batch, const tern_token *prompt, size_t n, int all,
                         struct tern_generate_result *result)
{
    struct tern_context_params cp = {.n_ctx = N_CTX, .n_batch = n_batch, .fingerprint = 1};
    struct tern_generate_params p = tern_generate_defaults();
    tern_context *ctx = NULL;
    p.tokens = prompt, p.n_tokens = n, p.n_predict = 60, p.ignore_end = 1, p.logits_all = all;
    ck_assert(!tern_context_open(&ctx, model, &cp, NULL));
    ck_assert(!tern_generate(ctx, &p, result, NULL));
    uint64_t fingerprint = tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    return fingerprint;
}

START_TEST(texts_do_not_depend_on_the_batch)
{
    tern_token prompt[50];
    struct tern_generate_result r;
    for (size_t i = 0; i < 50; i++)
        prompt[i] = (tern_token)dice(VOCAB);
    for (int all = 0; all < 2; all++)
        for (size_t n = 20; n <= 50; n += 30) {
            uint64_t want = generate(64, prompt, n, all, &r);
            ck_assert_uint_eq(r.n_again, n < LIMIT ? LIMIT : 0);
            for (uint32_t n_batch = 1; n_batch < 64; n_batch += 9)
                ck_assert_uint_eq(generate(n_batch, prompt, n, all, &r), want);
        }
}
END_TEST

static void setup(void)
{
    struct tern_error e = {0};
    struct tern_model_params params = {.n_threads = 2};
    struct toy toy = toy_default();
    toy.max_seq = N_CTX, toy.rope_limit = LIMIT, toy.window[1] = 30;
    toy_path(path, sizeof path, "rope");
    toy_path(session, sizeof session, "rope-session");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    ck_assert_msg(!tern_model_open(&model, path, &params, &e), "%s", e.text);
}

static void teardown(void)
{
    tern_model *opened = model;
    model = NULL;
    fresh(TERN_CACHE_F16, NULL, 0, NULL);
    tern_model_close(opened);
    unlink(path);
    unlink(session);
}

SUITE("rope", AROUND_EACH(setup, teardown), TEST(the_limit_matters),
      LOOP(every_way_gives_the_bits_of_a_fresh_run, 0, 2 * N_TYPES),
      TEST(a_cancelled_turn_leaves_the_sequence_as_it_was),
      TEST(a_session_brings_its_own_frequencies),
      TEST(a_generated_text_expects_nothing_of_the_next), TEST(texts_do_not_depend_on_the_batch))
