/* Speculation changes nothing: random runs with guesses against the same runs without, watched from
 * inside every callback. Guesses are tried at random (gambling_pace.h): the bits must not depend on it.
 * The real pace is in test_pace.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/xxh64.h"
#include "gambling_pace.h"
#include "golden.h"
#include "image.h"
#include "tern.h"
#include "toy.h"
#include "suite.h"

/* ---- what is watched ------------------------------------------------------------------------- */

enum { MAX_SEEN = 1024, MAX_PROMPT = 300, N_MODELS = 5, TEXT_MODEL = 4 };

struct sight { /* the context from inside a callback */
    tern_token token;
    uint32_t length;
    size_t n_text, n_logits;
    uint64_t text, logits, fingerprint, rows;
};

struct trace {
    tern_context *ctx;
    struct sight sights[MAX_SEEN];
    size_t n, stop_at, cancel_at, fork_at;
    uint32_t back, forked;
};

static tern_model *models[N_MODELS];
static tern_constraint *constraints[4]; /* of TEXT_MODEL; the first is NULL */
static char paths[N_MODELS][256];

static uint64_t hash_of(const void *p, size_t n)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    xxh64_update(&h, p, n);
    return xxh64_digest(&h);
}

static int see(void *arg, tern_token token, const char *text, size_t n)
{
    struct trace *t = arg;
    struct tern_model_info info;
    struct sight *s = &t->sights[t->n++];
    tern_model_info(tern_context_model(t->ctx), &info);
    memset(s, 0, sizeof *s);
    s->token = token;
    s->length = tern_seq_length(t->ctx, 0);
    s->n_text = n;
    s->text = hash_of(text, n);
    s->n_logits = tern_n_logits(t->ctx);
    if (s->n_logits)
        s->logits = hash_of(tern_logits(t->ctx, s->n_logits - 1), info.vocab * sizeof(float));
    ck_assert_ptr_null(tern_logits(t->ctx, s->n_logits));
    s->fingerprint = tern_fingerprint(t->ctx, &s->rows);
    if (t->n == t->fork_at)
        t->forked = tern_seq_fork(t->ctx, 0, 1, s->length - t->back);
    if (t->n == t->cancel_at)
        tern_cancel(t->ctx);
    return t->n == t->stop_at;
}

/* ---- one random run ----------------------------------------------------------------------------
 */

struct plan {
    int model, draft; /* draft -1: none */
    struct tern_context_params context, draft_context;
    struct tern_sampler_params sampler;
    struct tern_generate_params p;
    tern_token prompt[MAX_PROMPT];
    const char *stop[2];
    size_t stop_at, cancel_at, fork_at;
    uint32_t back;
};

/* Tokens in which pieces come again, as in real texts. */
static size_t make_prompt(tern_token *tokens, size_t max, unsigned vocab)
{
    size_t n = 1 + dice((unsigned)max), known = 0;
    while (known < n) {
        size_t piece = 1 + dice(20), from = known ? dice((unsigned)known) : 0;
        bool copy = known && dice(2);
        for (; piece && known < n; piece--, known++)
            tokens[known] = copy ? tokens[from++] : (tern_token)dice(vocab);
    }
    return n;
}

static void make_plan(struct plan *plan, uint64_t seed, bool bound)
{
    static const float temperatures[] = {0, 0.1f, 0.5f, 0.8f, 1.5f};
    static const char *const stops[] = {"the", ". ", " a", "she", "zq", "\n", "e s", "ing"};
    struct tern_model_info info;
    memset(plan, 0, sizeof *plan);
    dice_state = seed * 7919 + 13;
    plan->model = bound ? TEXT_MODEL : (int)dice(N_MODELS);
    tern_model_info(models[plan->model], &info);
    plan->context = (struct tern_context_params){.n_ctx = 2 + dice(500), .n_batch = 1 + dice(40)};
    plan->context.n_seqs = 2, plan->context.fingerprint = 1;
    plan->draft_context =
        (struct tern_context_params){.n_ctx = 1 + dice(600), .n_batch = 1 + dice(40)};
    plan->sampler = (struct tern_sampler_params){.temperature = temperatures[dice(5)],
                                                 .top_k = dice(2) * dice(8),
                                                 .top_p = dice(2) ? 0.9f : 1,
                                                 .repeat_penalty = dice(2) ? 1 : 1.1f,
                                                 .repeat_last_n = dice(80),
                                                 .seed = seed};
    plan->sampler.mirostat = dice(4) ? 0 : 2, plan->sampler.mirostat_tau = 0.5f * (float)dice(12);
    plan->sampler.mirostat_eta = 0.3f;
    plan->sampler.dry_multiplier = dice(3) ? 0 : 0.5f, plan->sampler.dry_base = 1.75f;
    plan->sampler.dry_allowed_length = 1 + dice(3), plan->sampler.dry_last_n = dice(200);
    plan->sampler.xtc_probability = dice(3) ? 0 : 0.5f, plan->sampler.xtc_threshold = 0.05f;
    plan->sampler.frequency_penalty = dice(3) ? 0 : 0.3f;
    plan->p = tern_generate_defaults();
    plan->p.tokens = plan->prompt;
    plan->p.n_tokens = make_prompt(
        plan->prompt, plan->context.n_ctx < MAX_PROMPT ? plan->context.n_ctx : MAX_PROMPT,
        (unsigned)info.vocab);
    plan->p.n_predict = dice(2) ? -1 : (int64_t)dice(200);
    plan->p.ignore_end = (int)dice(2);
    plan->p.logits_all = (int)dice(2);
    plan->p.n_stop = plan->model == TEXT_MODEL ? dice(3) : 0;
    if (plan->model == TEXT_MODEL)
        plan->p.constraint = constraints[bound ? 1 + dice(3) : dice(4)];
    if (plan->p.constraint)
        plan->p.ignore_end = 0, plan->p.no_force = !dice(3);
    plan->stop[0] = stops[dice(8)], plan->stop[1] = stops[dice(8)];
    plan->p.on_text = see;
    plan->stop_at = dice(3) ? 0 : 1 + dice(50);
    plan->cancel_at = dice(4) ? 0 : 1 + dice(50);
    plan->fork_at = dice(2) ? 0 : 1 + dice(50);
    plan->back = dice(2);
    plan->draft = -1;
    if (dice(2)) /* the model itself guesses well, its neighbour badly */
        plan->draft = plan->model == TEXT_MODEL || dice(2) ? plan->model : (int)dice(TEXT_MODEL);
    plan->p.draft_max = dice(20);
    plan->p.lookup = plan->draft >= 0 && dice(2) ? 0 : 1 + dice(40);
    plan->p.shift = (int)dice(2);
    plan->p.keep = dice(300);
    if (plan->p.shift)
        plan->p.n_predict = (int64_t)dice(900);
}

struct outcome {
    struct tern_generate_result result[2];
    struct trace trace[2];
    enum tern_status numeric;
    uint64_t fingerprint, rows;
    uint32_t length, kept, forked_length;
    float mu; /* mirostat's, over both texts */
};

static void run(const struct plan *plan, bool guess, struct outcome *o)
{
    struct tern_error e = {0};
    struct tern_generate_params p = plan->p;
    tern_context *ctx = NULL, *draft = NULL;
    memset(o, 0, sizeof *o);
    struct tern_sampler_params sampler = plan->sampler;
    o->mu = 2 * sampler.mirostat_tau;
    sampler.mu = &o->mu;
    p.sampler = &sampler, p.stop = plan->stop, p.tokens = plan->prompt;
    ck_assert_msg(!tern_context_open(&ctx, models[plan->model], &plan->context, &e), "%s", e.text);
    if (guess && plan->draft >= 0) {
        ck_assert(!tern_context_open(&draft, models[plan->draft], &plan->draft_context, NULL));
        p.draft = draft;
    }
    if (!guess)
        p.lookup = 0;
    for (int i = 0; i < 2; i++) { /* the second continues, if there is room */
        o->trace[i] = (struct trace){.ctx = ctx,
                                     .stop_at = i ? 0 : plan->stop_at,
                                     .cancel_at = i ? 0 : plan->cancel_at,
                                     .fork_at = i ? 0 : plan->fork_at,
                                     .back = plan->back};
        p.arg = &o->trace[i];
        if (i)
            p.n_tokens = 1, p.n_predict = 20;
        enum tern_status s = tern_generate(ctx, &p, &o->result[i], &e);
        ck_assert_msg(!s || (i && s == TERN_LIMIT), "%s", e.text);
        ck_assert_uint_eq(tern_n_logits(ctx) > TERN_DEFAULT_LOGITS, 0);
        o->trace[i].ctx = NULL;
    }
    o->numeric = tern_numeric_status(ctx, NULL);
    o->fingerprint = tern_fingerprint(ctx, &o->rows);
    o->length = tern_seq_length(ctx, 0);
    o->forked_length = tern_seq_length(ctx, 1);
    o->kept = tern_seq_keep(ctx, 0, o->length > 60 ? o->length - 60 : 0);
    tern_context_close(ctx);
    tern_context_close(draft);
}

/* ---- tests -------------------------------------------------------------------------------------
 */

static void compare(struct outcome *with, const struct outcome *without, unsigned long seed)
{
    ck_assert_msg(with->mu == without->mu, "seed %lu: mu differs", seed);
    for (int i = 0; i < 2; i++) {
        struct tern_generate_result *a = &with->result[i];
        const struct tern_generate_result *b = &without->result[i];
        const struct trace *t = &with->trace[i], *u = &without->trace[i];
        ck_assert_msg(t->n == u->n, "seed %lu: %zu and %zu callbacks", seed, t->n, u->n);
        for (size_t k = 0; k < t->n; k++)
            ck_assert_msg(!memcmp(&t->sights[k], &u->sights[k], sizeof *t->sights),
                          "seed %lu: callback %zu differs", seed, k);
        ck_assert_msg(a->reason == b->reason && a->n_generated == b->n_generated &&
                          a->n_prompt == b->n_prompt && a->last == b->last &&
                          a->n_shifts == b->n_shifts && a->n_shifted == b->n_shifted &&
                          t->forked == u->forked,
                      "seed %lu: the result differs", seed);
        ck_assert(b->n_drafted == 0 && b->n_accepted == 0 && a->n_accepted <= a->n_drafted);
        ck_assert(a->n_forced == b->n_forced && b->n_steps <= b->n_generated);
        ck_assert(b->n_forced || a->n_steps + a->n_accepted == b->n_steps);
    }
    ck_assert_msg(with->numeric == without->numeric && with->fingerprint == without->fingerprint &&
                      with->rows == without->rows && with->length == without->length &&
                      with->kept == without->kept && with->forked_length == without->forked_length,
                  "seed %lu: the context differs", seed);
}

static void compare_runs(bool bound, unsigned long n, struct tern_generate_result *sum)
{
    static struct outcome with, without;
    static struct plan plan;
    for (unsigned long seed = 1; seed <= n; seed++) {
        make_plan(&plan, seed, bound);
        run(&plan, false, &without);
        dice_state = seed;
        run(&plan, true, &with);
        compare(&with, &without, seed);
        sum->n_drafted += with.result[0].n_drafted;
        sum->n_accepted += with.result[0].n_accepted;
        sum->n_forced += with.result[0].n_forced;
    }
}

START_TEST(guesses_change_nothing)
{
    struct tern_generate_result sum = {0};
    unsigned long n = golden_is_threaded() ? 5 : golden_is_quick() ? 15 : 60;
    compare_runs(false, n, &sum);
    ck_assert_msg(sum.n_accepted > 5 * n && sum.n_drafted > sum.n_accepted + 5 * n, "%zu of %zu",
                  sum.n_accepted, sum.n_drafted);
}
END_TEST

/* What a constraint refuses is no guess, and forced tokens may come true on trial. */
START_TEST(guesses_change_nothing_under_a_constraint)
{
    struct tern_generate_result sum = {0};
    const bool quick = golden_is_quick(); /* the first ten force little */
    unsigned long n = golden_is_threaded() ? 3 : quick ? 10 : 50;
    size_t accepted = quick ? n / 2 : 2 * n, forced = quick ? n / 2 : 5 * n;
    compare_runs(true, n, &sum);
    bool all_happened = sum.n_accepted > accepted && sum.n_forced > forced;
    ck_assert_msg(all_happened || golden_is_threaded(), "%zu of %zu, %zu",
                  sum.n_accepted, sum.n_drafted, sum.n_forced);
}
END_TEST

static tern_token first_choice(int model, const tern_token *prompt, size_t n)
{
    tern_context *ctx = NULL;
    struct tern_sampler_params greedy = {.repeat_penalty = 1};
    ck_assert(!tern_context_open(&ctx, models[model], NULL, NULL));
    for (size_t i = 0; i < n; i++)
        ck_assert(!tern_batch_add(ctx, 0, prompt[i], i + 1 == n ? TERN_ROW_LOGITS : 0, NULL));
    ck_assert(!tern_forward(ctx));
    tern_token token = tern_sample(ctx, &greedy, tern_logits(ctx, 0), prompt, n, n);
    tern_context_close(ctx);
    return token;
}

/* A guess that would never be chosen may give what is not finite: that leaves no trace either. */
START_TEST(a_bad_guess_does_not_fail_the_run)
{
    static const uint32_t nan = 0x7fc00000;
    static struct outcome with, without;
    static struct plan plan;
    struct toy toy = toy_default();
    char path[256];
    tern_token poison;
    size_t embed = 0;
    make_plan(&plan, 3, false);
    for (int k = 0; k < 5; k++)
        plan.prompt[k] = 20 * k + 9;
    plan.model = 0, plan.draft = 3, plan.p.n_stop = 0, plan.p.lookup = 0, plan.p.draft_max = 8;
    plan.stop_at = plan.cancel_at = plan.fork_at = 0, plan.p.ignore_end = 1;
    plan.context.n_ctx = plan.draft_context.n_ctx = 300, plan.p.n_tokens = 5;
    plan.p.n_predict = 20, plan.sampler = (struct tern_sampler_params){.repeat_penalty = 1};
    toy.max_seq = 600, toy.untied = 1, toy.seed = 78;
    struct image i = image_of(&toy);
    while (memcmp(i.p + image_tensor(&i, embed) + 8, "embed", 5))
        embed++;
    toy_path(path, sizeof path, "poison");
    image_save(&i, path);
    tern_model *saved = models[0];
    ck_assert(!tern_model_open(&models[0], path, NULL, NULL));
    plan.prompt[5] = first_choice(0, plan.prompt, 5); /* what the draft guesses behind it is bad */
    poison = first_choice(3, plan.prompt, 6);
    tern_model_close(models[0]);
    size_t at = (size_t)poison / 16 * 16 * toy.dim + (size_t)poison % 16;
    memcpy(i.p + load_u64(i.p + image_fields(&i, embed) + 40) + 4 * at, &nan, 4);
    image_repair_tensor(&i, embed);
    image_save(&i, path);
    image_close(&i);
    ck_assert(!tern_model_open(&models[0], path, NULL, NULL));
    run(&plan, false, &without);
    for (size_t k = 0; k < without.trace[0].n; k++)
        ck_assert_int_ne(without.trace[0].sights[k].token, poison);
    size_t n_tried = 0;
    for (unsigned long seed = 0; seed < (unsigned long)golden_few(20); seed++) {
        dice_state = seed;
        run(&plan, true, &with);
        compare(&with, &without, seed);
        ck_assert_int_eq(with.numeric, TERN_OK);
        n_tried += with.result[0].n_drafted;
    }
    ck_assert_uint_gt(n_tried, 0);
    tern_model_close(models[0]);
    models[0] = saved;
    unlink(path);
}
END_TEST

START_TEST(a_draft_with_other_tokens_is_refused)
{
    struct tern_error e = {0};
    struct tern_generate_params p = tern_generate_defaults();
    struct toy toy = toy_default();
    char path[256];
    tern_model *other = NULL;
    tern_context *ctx = NULL, *draft = NULL;
    tern_token prompt = 1;
    toy.vocab = 260;
    toy_path(path, sizeof path, "other");
    ck_assert(!toy_write(path, &toy, &e) && !tern_model_open(&other, path, NULL, &e));
    ck_assert_int_eq(tern_draft_check(models[0], other, &e), TERN_USAGE);
    ck_assert_msg(strstr(e.text, "260") && strstr(e.text, "259"), "%s", e.text);
    ck_assert_int_eq(tern_draft_check(models[0], models[TEXT_MODEL], &e), TERN_USAGE);
    ck_assert_int_eq(tern_draft_check(models[TEXT_MODEL], models[0], &e), TERN_USAGE);
    ck_assert_int_eq(tern_draft_check(models[0], models[1], &e), TERN_OK);
    ck_assert(!tern_context_open(&ctx, models[0], NULL, &e));
    ck_assert(!tern_context_open(&draft, other, NULL, &e));
    p.tokens = &prompt, p.n_tokens = 1, p.draft = draft;
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 0);
    p.draft = ctx;
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    tern_context_close(draft);
    tern_context_close(ctx);
    tern_model_close(other);
    unlink(path);
}
END_TEST

/* A choice of long texts, a schema that repeats itself, and an expression. */
static void open_constraints(void)
{
    static const char
        story[] = "The cat sat on the mat. The cat sat on the mat again. Then the cat sat on the "
                  "dog, and the dog sat on the mat.|The cat sat on the mat. A dog came, and the "
                  "dog sat on the cat. The cat sat on the mat. The dog sat on the mat.",
        schema[] = "{\"items\": {\"properties\": {\"name\": {\"type\": \"string\"}, \"animal\": "
                   "{\"enum\": [\"cat\", \"dog\"]}}, \"required\": [\"name\", \"animal\"], "
                   "\"additionalProperties\": false}, \"type\": \"array\"}",
        regex[] = "( the [a-z]{1,9},| and then){0,200}";
    const struct tern_constraint_params params[] = {
        {.kind = TERN_CONSTRAINT_CHOICE, .text = story, .bytes = sizeof story - 1},
        {.kind = TERN_CONSTRAINT_SCHEMA, .text = schema, .bytes = sizeof schema - 1},
        {.kind = TERN_CONSTRAINT_REGEX, .text = regex, .bytes = sizeof regex - 1}};
    struct tern_error e = {0};
    for (size_t i = 0; i < 3; i++)
        ck_assert_msg(
            !tern_constraint_open(&constraints[i + 1], models[TEXT_MODEL], &params[i], &e), "%s",
            e.text);
}

/* f32, with windows, as q8, with other weights; and the model that ships. */
static void setup(void)
{
    struct tern_error e = {0};
    struct tern_model_params params = {.n_threads = 2};
    for (int i = 0; i < N_MODELS; i++) {
        struct toy toy = toy_default();
        toy.max_seq = 600;
        toy.seed = i == 3 ? 9 : 5, toy.untied = i == 3;
        toy.type = i == 2 ? TERN_Q8 : TERN_F32;
        toy.rope_limit = i == 1 || i == 3 ? 150 : 0;
        for (size_t l = 0; i == 1 && l < toy.n_layers; l++)
            toy.window[l] = 20 + 30 * l;
        toy_path(paths[i], sizeof paths[i], "speculate");
        if (i < TEXT_MODEL)
            ck_assert_msg(!toy_write(paths[i], &toy, &e), "%s", e.text);
        ck_assert_msg(!tern_model_open(&models[i], i < TEXT_MODEL ? paths[i] : "models/fable.bin",
                                       &params, &e),
                      "%s", e.text);
    }
    open_constraints();
}

static void teardown(void)
{
    for (size_t i = 0; i < 4; i++)
        tern_constraint_close(constraints[i]);
    for (int i = 0; i < N_MODELS; i++) {
        tern_model_close(models[i]);
        if (i < TEXT_MODEL)
            unlink(paths[i]);
    }
}

SUITE("speculate", AROUND_EACH(setup, teardown), TEST(guesses_change_nothing),
      TEST(guesses_change_nothing_under_a_constraint), TEST(a_bad_guess_does_not_fail_the_run),
      TEST(a_draft_with_other_tokens_is_refused))
