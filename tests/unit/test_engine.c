/* ldflags: -Wl,@tests/support/allocs.ld */
/* The public interface: contexts of one model in several threads, generation, memory plans. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocs.h"
#include "base/bytes.h"
#include "image.h"
#include "tern_lab.h"
#include "toy.h"
#include "suite.h"

static char path[256];
static tern_model *model;

static void open_model(int n_threads)
{
    struct tern_error e = {0};
    struct toy toy = toy_default();
    struct tern_model_params p = {.n_threads = n_threads};
    toy_path(path, sizeof path, "engine");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    ck_assert_msg(!tern_model_open(&model, path, &p, &e), "%s", e.text);
}

static void setup(void)
{
    open_model(2);
}

static void teardown(void)
{
    tern_model_close(model);
    unlink(path);
}

static tern_context *open_context(const struct tern_context_params *p)
{
    struct tern_error e = {0};
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_context_open(&ctx, model, p, &e), "%s", e.text);
    return ctx;
}

/* ---- threads ------------------------------------------------------------------------------ */

struct job {
    int seed;
    uint64_t fingerprint;
};

/* Generates greedily from a prompt of the job's own; asserts nothing, for it runs in any thread. */
static void *generate_job(void *arg)
{
    struct job *job = arg;
    struct tern_context_params cp = {.fingerprint = 1};
    struct tern_sampler_params greedy = {0};
    struct tern_generate_params p = tern_generate_defaults();
    tern_token prompt[5];
    tern_context *ctx = NULL;
    for (int i = 0; i < 5; i++)
        prompt[i] = (tern_token)(job->seed * 31 + i * 17) % 259;
    p.tokens = prompt, p.n_tokens = 5, p.n_predict = 40, p.sampler = &greedy;
    if (!tern_context_open(&ctx, model, &cp, NULL) && !tern_generate(ctx, &p, NULL, NULL))
        job->fingerprint = tern_fingerprint(ctx, NULL);
    tern_context_close(ctx);
    return NULL;
}

START_TEST(contexts_of_one_model_live_in_different_threads)
{
    struct job alone[4], together[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        alone[i] = together[i] = (struct job){.seed = i + 1};
        generate_job(&alone[i]);
        ck_assert(alone[i].fingerprint != 0);
    }
    for (int i = 0; i < 4; i++)
        ck_assert(!pthread_create(&threads[i], NULL, generate_job, &together[i]));
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(together[i].fingerprint == alone[i].fingerprint);
    }
}
END_TEST

/* ---- generation --------------------------------------------------------------------------- */

struct seen {
    tern_token tokens[128];
    size_t n, stop_after;
    tern_context *ctx; /* of watch() */
    tern_token told[128];
    size_t n_told;
};

static int see(void *arg, tern_token token, const char *text, size_t n)
{
    struct seen *seen = arg;
    (void)text, (void)n;
    seen->tokens[seen->n++] = token;
    return seen->n == seen->stop_after;
}

static struct tern_generate_params params(struct seen *seen, const tern_token *prompt, size_t n,
                                          int64_t n_predict)
{
    struct tern_generate_params p = tern_generate_defaults();
    p.tokens = prompt, p.n_tokens = n, p.n_predict = n_predict;
    p.on_text = see, p.arg = seen;
    return p;
}

/* Chooses `n` tokens by hand, one batch each. */
static void generate_by_hand(tern_context *ctx, const tern_token *prompt, size_t n_prompt,
                             const struct tern_sampler_params *sampler, tern_token *out, size_t n)
{
    tern_token history[128];
    memcpy(history, prompt, n_prompt * sizeof *prompt);
    for (size_t i = 0; i < n_prompt; i++)
        ck_assert(
            !tern_batch_add(ctx, 0, prompt[i], i + 1 == n_prompt ? TERN_ROW_LOGITS : 0, NULL));
    for (size_t i = 0; i < n; i++) {
        ck_assert(!tern_forward(ctx));
        ck_assert_uint_eq(tern_n_logits(ctx), 1);
        out[i] = tern_sample(ctx, sampler, tern_logits(ctx, 0), history, n_prompt + i,
                             tern_seq_length(ctx, 0));
        history[n_prompt + i] = out[i];
        ck_assert(!tern_batch_add(ctx, 0, out[i], TERN_ROW_LOGITS, NULL));
    }
}

START_TEST(generate_is_the_loop_by_hand)
{
    static const tern_token prompt[3] = {7, 200, 31};
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 3, 20);
    struct tern_generate_result r;
    tern_token want[20];
    tern_context *ctx = open_context(NULL);
    sampler.seed = 99, sampler.repeat_penalty = 1.1f;
    p.sampler = &sampler;
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_uint_eq(r.n_prompt, 3);
    ck_assert_uint_eq(r.n_generated, 20);
    ck_assert_int_eq(r.reason, TERN_STOP_LENGTH);
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, 0), 0);
    generate_by_hand(ctx, prompt, 3, &sampler, want, 20);
    ck_assert_uint_eq(seen.n, 20);
    ck_assert_mem_eq(seen.tokens, want, sizeof want);
    tern_context_close(ctx);
}
END_TEST

/* What on_token is told is what the loop by hand would see. */
static int watch(void *arg, tern_token token, const float *logits)
{
    struct seen *seen = arg;
    struct tern_choice top[3], all[300];
    tern_context *ctx = seen->ctx;
    ck_assert_ptr_eq(logits, tern_logits(ctx, tern_n_logits(ctx) - 1));
    ck_assert_uint_eq(tern_top(ctx, logits, top, 3), 3);
    size_t n = tern_top(ctx, logits, all, 300);
    ck_assert_uint_eq(n, 259);
    for (size_t i = 0; i < 3; i++)
        ck_assert(top[i].token == all[i].token && top[i].logprob == all[i].logprob);
    for (size_t i = 0; i < n; i++) {
        ck_assert(all[i].logprob == tern_logprob(model, logits, all[i].token));
        ck_assert(!i || all[i].logprob < all[i - 1].logprob ||
                  (all[i].logprob <= all[i - 1].logprob && all[i].token > all[i - 1].token));
    }
    seen->told[seen->n_told++] = token;
    return seen->n_told == 15;
}

START_TEST(tokens_are_told_with_their_logits)
{
    static const tern_token prompt[3] = {7, 200, 31};
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 3, 20);
    struct tern_generate_result r;
    tern_context *ctx = seen.ctx = open_context(NULL);
    p.on_token = watch;
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_CANCELLED);
    ck_assert_uint_eq(r.n_generated, 15);
    ck_assert_uint_eq(seen.n, 15);
    ck_assert_mem_eq(seen.told, seen.tokens, 15 * sizeof *seen.told);
    tern_context_close(ctx);
}
END_TEST

START_TEST(generation_says_why_it_ended)
{
    static const tern_token prompt[2] = {1, 2};
    struct tern_context_params cp = {.n_ctx = 10};
    struct tern_generate_result r;
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 2, -1);
    tern_context *ctx = open_context(&cp);
    ck_assert(!tern_generate(ctx, &p, &r, NULL)); /* ten positions: the 11th token is not read */
    ck_assert_int_eq(r.reason, TERN_STOP_CONTEXT);
    ck_assert_uint_eq(r.n_generated, 9);
    tern_seq_keep(ctx, 0, 0);
    seen = (struct seen){.stop_after = 4};
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_CANCELLED);
    ck_assert_uint_eq(r.n_generated, 4);
    tern_seq_keep(ctx, 0, 0);
    p.n_predict = 0;
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_LENGTH);
    ck_assert_uint_eq(r.n_generated, 0);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 2);
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_stop_wins_over_the_last_token)
{
    static const tern_token prompt[2] = {1, 2};
    struct tern_generate_result r;
    struct seen seen = {.stop_after = 4};
    struct tern_generate_params p = params(&seen, prompt, 2, 4);
    tern_context *ctx = open_context(NULL);
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_CANCELLED);
    ck_assert_uint_eq(r.n_generated, 4);
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_cancel_does_not_outlive_its_call)
{
    static const tern_token prompt[2] = {1, 2};
    struct tern_generate_result r;
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 2, 4);
    tern_context *ctx = open_context(NULL);
    tern_cancel(ctx);
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_LENGTH);
    tern_cancel(ctx);
    ck_assert_int_eq(tern_forward(ctx), TERN_OK); /* an empty batch takes it */
    ck_assert(!tern_batch_add(ctx, 0, 1, 0, NULL));
    ck_assert_int_eq(tern_forward(ctx), TERN_OK);
    tern_context_close(ctx);
}
END_TEST

/* Of what on_prompt is to do after `after` tokens of the prompt. */
struct stop_in_prompt {
    tern_context *ctx;
    size_t after;
    bool cancels; /* the next chunk; else it says stop */
};

static int stop_in_prompt(void *arg, size_t done, size_t total)
{
    const struct stop_in_prompt *stop = arg;
    ck_assert_uint_eq(total, 10);
    if (done == stop->after && stop->cancels)
        tern_cancel(stop->ctx);
    return done == stop->after && !stop->cancels;
}

/* _i: whether it is cancelled */
START_TEST(a_prompt_that_is_stopped_counts_what_was_evaluated)
{
    static const tern_token prompt[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct tern_context_params cp = {.n_ctx = 20, .n_batch = 3};
    struct tern_generate_result r;
    struct tern_generate_params p = tern_generate_defaults();
    tern_context *ctx = open_context(&cp);
    struct stop_in_prompt stop = {ctx, 6, _i};
    for (int i = 0; i < 2; i++)
        ck_assert(!tern_batch_add(ctx, 0, prompt[i], 0, NULL));
    ck_assert(!tern_forward(ctx)); /* two tokens are there already */
    p.tokens = prompt + 2, p.n_tokens = 10, p.n_predict = 4;
    p.on_prompt = stop_in_prompt, p.arg = &stop;
    ck_assert(!tern_generate(ctx, &p, &r, NULL));
    ck_assert_int_eq(r.reason, TERN_STOP_CANCELLED);
    ck_assert_uint_eq(r.n_prompt, 6);
    ck_assert_uint_eq(r.n_generated, 0);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 8);
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_prompt_that_does_not_fit_is_refused_whole)
{
    tern_token prompt[12] = {0};
    struct tern_context_params cp = {.n_ctx = 10};
    struct tern_error e = {0};
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 11, -1);
    tern_context *ctx = open_context(&cp);
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_LIMIT);
    ck_assert_msg(strstr(e.text, "11 tokens") && strstr(e.text, "10"), "%s", e.text);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 0);
    p.n_tokens = 0;
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE); /* no tokenizer, no BOS */
    p.n_tokens = 2, prompt[1] = 259;
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, "259"), "%s", e.text);
    tern_context_close(ctx);
}
END_TEST

/* ---- numbers ------------------------------------------------------------------------------ */

/* Integers hide what is not finite, so the input of every quantized matrix is looked at. */
START_TEST(a_value_that_is_not_finite_is_named_with_its_layer)
{
    static const uint32_t nan = 0x7fc00000;
    static const tern_token prompt[1] = {1};
    size_t ffn_norm = 0;
    struct tern_error e = {0};
    struct seen seen = {0};
    struct tern_generate_params p = params(&seen, prompt, 1, 3);
    struct toy toy = toy_default();
    toy.type = TERN_Q8;
    struct image i = image_of(&toy);
    while (memcmp(i.p + image_tensor(&i, ffn_norm) + 8, "layer.1.ffn_norm", 16))
        ffn_norm++;
    memcpy(i.p + load_u64(i.p + image_fields(&i, ffn_norm) + 40) + 20, &nan, 4);
    image_repair_tensor(&i, ffn_norm);
    image_save(&i, path);
    image_close(&i);
    tern_model_close(model);
    ck_assert_msg(!tern_model_open(&model, path, NULL, &e), "%s", e.text);
    tern_context *ctx = open_context(NULL);
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_LIMIT);
    ck_assert_msg(strstr(e.text, "layer 1: the input of a matrix is not finite"), "%s", e.text);
    tern_context_close(ctx);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------- */

START_TEST(a_plan_that_cannot_be_met_is_refused_with_numbers)
{
    struct tern_error e = {0};
    tern_context *ctx = NULL;
    struct tern_context_params p = {.n_ctx = 1 << 24, .n_seqs = 4096};
    ck_assert_int_eq(tern_context_open(&ctx, model, &p, &e), TERN_NO_MEMORY);
    ck_assert_msg(strstr(e.text, "16777216") && strstr(e.text, "MiB"), "%s", e.text);
    p = (struct tern_context_params){.n_ctx = UINT32_MAX};
    ck_assert_int_eq(tern_context_open(&ctx, model, &p, &e), TERN_USAGE);
    p = (struct tern_context_params){.n_batch = UINT32_MAX, .n_seqs = UINT32_MAX};
    ck_assert_int_eq(tern_context_open(&ctx, model, &p, &e), TERN_USAGE);
    ck_assert_ptr_null(ctx);
}
END_TEST

START_TEST(a_plan_states_what_is_taken)
{
    struct tern_memory plan, taken;
    ck_assert(!tern_context_plan(model, NULL, &plan, NULL));
    tern_context *ctx = open_context(NULL);
    tern_context_memory(ctx, &taken);
    ck_assert_uint_eq(plan.n_ctx, 64);
    ck_assert_uint_eq(plan.n_batch, 64);
    ck_assert_uint_eq(plan.cache, taken.cache);
    ck_assert_uint_eq(plan.batch, taken.batch);
    ck_assert_uint_eq(plan.cache, 2 * 2 * 2 * 256 * 16 * 2 + /* layers, K and V, heads, f16 */
                                      64 * sizeof(tern_token));
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_plan_is_opened_as_it_is)
{
    struct tern_memory plan, taken, none = {0};
    struct tern_error e = {0};
    tern_context *ctx;
    struct tern_context_params p = {
        .n_seqs = 2, .n_batch = 8, .cache_type = TERN_CACHE_Q8, .fingerprint = 1};
    ck_assert(!tern_context_plan(model, &p, &plan, NULL));
    plan.n_ctx = 48; /* smaller than what would be planned now */
    ck_assert_msg(!tern_context_open_plan(&ctx, model, &plan, &e), "%s", e.text);
    tern_context_memory(ctx, &taken);
    ck_assert(taken.n_ctx == 48 && taken.n_seqs == 2 && taken.n_batch == 8);
    ck_assert(taken.cache_type == TERN_CACHE_Q8 && taken.fingerprint);
    tern_context_close(ctx);
    ck_assert_int_eq(tern_context_open_plan(&ctx, model, &none, &e), TERN_USAGE);
    ck_assert_ptr_null(ctx);
}
END_TEST

/* Each allocation of planning fails in turn: no number is made up. */
START_TEST(a_plan_without_memory_says_so)
{
    struct tern_memory plan;
    struct tern_error e = {0};
    tern_context *ctx;
    size_t all, refused = 0;
    allocs_start(0, 0);
    ck_assert(!tern_context_plan(model, NULL, &plan, &e));
    all = allocs_count();
    allocs_stop();
    for (size_t failing = 1; failing <= all; failing++) {
        allocs_start(failing, 0);
        enum tern_status s = tern_context_plan(model, NULL, &plan, &e);
        allocs_stop();
        if (!s) /* without a look at its cgroup */
            continue;
        refused++;
        ck_assert_int_eq(s, TERN_NO_MEMORY);
        ck_assert(!plan.cache && !plan.batch);
        ck_assert_msg(strstr(e.text, "not enough memory for the cache's tables"), "%s", e.text);
        allocs_start(failing, 0);
        ck_assert_int_eq(tern_context_open(&ctx, model, NULL, &e), TERN_NO_MEMORY);
        allocs_stop();
        ck_assert_msg(!ctx && !strstr(e.text, "MiB"), "%s", e.text);
    }
    ck_assert_uint_eq(refused, 2);
}
END_TEST

START_TEST(thread_counts_out_of_range_are_refused)
{
    struct tern_error e = {0};
    tern_model *other = NULL;
    struct tern_model_params p = {.n_threads = -1};
    ck_assert_int_eq(tern_model_open(&other, path, &p, &e), TERN_USAGE);
    p.n_threads = 1 << 20;
    ck_assert_int_eq(tern_model_open(&other, path, &p, &e), TERN_USAGE);
    p = (struct tern_model_params){.cpu = "pentium"};
    ck_assert_int_eq(tern_model_open(&other, path, &p, &e), TERN_USAGE);
    ck_assert_ptr_null(other);
}
END_TEST

/* NULL for parameters, and indices of nothing, wherever the interface takes them. */
START_TEST(nothing_is_asked_of_nothing)
{
    static const size_t far[] = {1000, (size_t)1 << 20, SIZE_MAX / 64, SIZE_MAX};
    struct tern_error e = {0};
    struct tern_tensor_info tensor;
    struct tern_memory plan;
    struct tern_bias bias = {1 << 20, 1};
    size_t n;
    tern_context *ctx = open_context(NULL);
    for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
        tern_token token = (tern_token)far[k];
        tern_model_tensor(model, far[k], &tensor);
        ck_assert(!*tensor.name && !tensor.bytes && !tensor.rows);
        ck_assert_ptr_null(tern_chat_builtin(far[k]));
        ck_assert_ptr_null(tern_logits(ctx, far[k]));
        ck_assert_str_eq(tern_token_text(model, token, &n), "");
        ck_assert(!n && !tern_token_is_special(model, token) && !tern_token_is_end(model, token));
        uint32_t seq = (uint32_t)far[k];
        ck_assert(!tern_seq_tokens(ctx, seq) && !tern_seq_length(ctx, seq));
        ck_assert(!tern_seq_keep(ctx, seq, 1) && !tern_seq_reuse(ctx, seq, &token, 1));
        ck_assert(!tern_seq_fork(ctx, seq, 0, 1) && !tern_seq_fork(ctx, 0, seq, 1));
        tern_seq_expect(ctx, seq, 1);
        ck_assert_int_eq(tern_batch_add(ctx, seq, 1, 0, &e), TERN_USAGE);
        ck_assert_int_eq(tern_session_save(ctx, seq, path, &e), TERN_USAGE);
        ck_assert_int_eq(tern_session_load(ctx, seq, path, &e), TERN_USAGE);
        ck_assert_ptr_null(tern_type_name((enum tern_type)seq));
        ck_assert_ptr_null(tern_cache_type_name((enum tern_cache_type)seq));
    }
    ck_assert(!tern_batch_add(ctx, 0, 1, TERN_ROW_LOGITS, NULL) && !tern_forward(ctx));
    const float *logits = tern_logits(ctx, 0);
    ck_assert(tern_logprob(model, logits, -1) < -1e300 &&
              tern_logprob(model, logits, 1 << 20) < -1e300);
    struct tern_sampler_params sampler = {.bias = &bias, .n_bias = 1};
    tern_token best = tern_sample(ctx, &sampler, logits, NULL, 0, 0);
    for (bias.token = -1; bias.token > -2000000000; bias.token -= 500000000)
        ck_assert_int_eq(tern_sample(ctx, &sampler, logits, NULL, 0, 0), best);
    (void)tern_sample(ctx, NULL, logits, NULL, 0, 0);
    ck_assert(!tern_top(ctx, logits, NULL, 0) && !tern_profile(ctx, NULL, 0));
    ck_assert(!tern_context_plan(model, NULL, &plan, NULL) && plan.n_ctx > 0);
    tern_context_close(ctx);
}
END_TEST

START_TEST(a_path_that_is_null_is_wrong_usage)
{
    struct tern_error e = {0};
    struct tern_shape shape = {.dim = 64, .n_layers = 1};
    tern_model *none;
    tern_context *ctx = open_context(NULL);
    ck_assert_int_eq(tern_model_open(&none, NULL, NULL, &e), TERN_USAGE);
    ck_assert(!none && strstr(e.text, "path"));
    ck_assert_int_eq(tern_session_save(ctx, 0, NULL, &e), TERN_USAGE);
    ck_assert_int_eq(tern_session_load(ctx, 0, NULL, &e), TERN_USAGE);
    ck_assert_int_eq(tern_quantize(NULL, path, NULL, &e), TERN_USAGE);
    ck_assert_int_eq(tern_quantize(path, NULL, NULL, &e), TERN_USAGE);
    e.text[0] = 0;
    ck_assert_int_eq(tern_random_model(NULL, &shape, TERN_F32, 0, 1, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, "path"), "%s", e.text);
    tern_context_close(ctx);
}
END_TEST

START_TEST(quantizing_has_defaults)
{
    struct tern_quantize_params zeroed = {0};
    struct tern_error e = {0};
    struct tern_model_info info;
    tern_model *small;
    char out[300];
    snprintf(out, sizeof out, "%s.q8", path);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!tern_quantize(path, out, i ? &zeroed : NULL, &e), "%s", e.text);
        ck_assert(!tern_model_open(&small, out, NULL, &e));
        tern_model_info(small, &info);
        ck_assert_int_eq(info.type, TERN_Q8);
        tern_model_close(small);
        unlink(out);
    }
}
END_TEST

SUITE("engine", AROUND_EACH(setup, teardown), TEST(tokens_are_told_with_their_logits),
      TEST(contexts_of_one_model_live_in_different_threads), TEST(generate_is_the_loop_by_hand),
      TEST(generation_says_why_it_ended), TEST(a_stop_wins_over_the_last_token),
      TEST(a_cancel_does_not_outlive_its_call),
      LOOP(a_prompt_that_is_stopped_counts_what_was_evaluated, 0, 2), TEST(a_prompt_that_does_not_fit_is_refused_whole),
      TEST(a_value_that_is_not_finite_is_named_with_its_layer),
      TEST(a_plan_that_cannot_be_met_is_refused_with_numbers), TEST(a_plan_states_what_is_taken),
      TEST(a_plan_is_opened_as_it_is), TEST(a_plan_without_memory_says_so),
      TEST(thread_counts_out_of_range_are_refused), TEST(nothing_is_asked_of_nothing),
      TEST(a_path_that_is_null_is_wrong_usage), TEST(quantizing_has_defaults))
