#include "receipt_story.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

const char story_fable[] = "models/fable.bin";
tern_model *story_model;

tern_model *story_open_model(const char *path, const char *cpu, int n_threads)
{
    struct tern_model_params p = {.n_threads = n_threads, .cpu = cpu};
    struct tern_error e = {0};
    tern_model *m = NULL;
    ck_assert_msg(!tern_model_open(&m, path, &p, &e), "%s", e.text);
    return m;
}

void story_open_fable(void)
{
    story_model = story_open_model(story_fable, NULL, 2);
}

void story_close_model(void)
{
    tern_model_close(story_model);
}

void story_begin(struct story *s, const char *prompt)
{
    memset(s, 0, sizeof *s);
    s->sampler = tern_sampler_defaults(story_model);
    s->sampler.seed = 42;
    s->p = tern_generate_defaults();
    s->p.n_predict = 40;
    s->n_ctx = STORY_MOST;
    if (prompt)
        ck_assert(!tern_tokenize(story_model, prompt, strlen(prompt), TERN_ADD_SPECIAL, s->prompt,
                                 STORY_MOST, &s->n_prompt, NULL));
}

int story_on_token(void *arg, tern_token token, const float *logits)
{
    struct story *s = arg;
    (void)logits;
    ck_assert_uint_lt(s->n_answer, STORY_MOST);
    s->answer[s->n_answer++] = token;
    return s->n_answer == s->cancel_at;
}

void story_generate(struct story *s)
{
    struct tern_context_params context = {
        .n_ctx = s->n_ctx, .n_batch = s->n_batch, .cache_type = s->cache_type};
    struct tern_error e = {0};
    tern_constraint *constraint = NULL;
    tern_context *ctx;
    ck_assert_msg(!tern_context_open(&ctx, story_model, &context, &e), "%s", e.text);
    if (s->is_bound)
        ck_assert_msg(!tern_constraint_open(&constraint, story_model, &s->constraint, &e), "%s",
                      e.text);
    s->p.tokens = s->prompt, s->p.n_tokens = s->n_prompt;
    s->p.sampler = &s->sampler, s->p.constraint = constraint;
    s->p.on_token = story_on_token, s->p.arg = s, s->p.fingerprint = 1;
    s->n_answer = 0;
    ck_assert_msg(!tern_generate(ctx, &s->p, &s->result, &e), "%s", e.text);
    ck_assert_uint_eq(s->n_answer, s->result.n_generated);
    tern_context_close(ctx);
    tern_constraint_close(constraint);
}

enum tern_status story_receipt(struct story *s, struct tern_error *e)
{
    struct tern_generate_params options = s->p;
    static const char stands_for_it;
    if (s->is_bound) /* only that it is there counts */
        options.constraint = (const tern_constraint *)(const void *)&stands_for_it;
    struct tern_receipt_params p = {.prompt = s->prompt,
                                    .n_prompt = s->n_prompt,
                                    .answer = s->answer,
                                    .n_answer = s->n_answer,
                                    .generate = &options,
                                    .constraint = s->is_bound ? &s->constraint : NULL,
                                    .result = &s->result,
                                    .cache_type = s->cache_type};
    return tern_receipt_write(story_model, &p, s->text, sizeof s->text, &s->n, e);
}

void story_make(struct story *s)
{
    struct tern_error e = {0};
    story_generate(s);
    ck_assert_msg(!story_receipt(s, &e), "%s", e.text);
    ck_assert_uint_lt(s->n, sizeof s->text);
}

struct tern_receipt_verdict story_proven_by(tern_model *m, const char *text, size_t n)
{
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    ck_assert_msg(!tern_receipt_verify(m, text, n, &v, &e), "%s", e.text);
    ck_assert_int_eq(v.holds, !*v.why);
    return v;
}

void story_must_hold(const struct story *s)
{
    struct tern_receipt_verdict v = story_proven_by(story_model, s->text, s->n);
    ck_assert_msg(v.holds, "%s\n%.*s", v.why, (int)s->n, s->text);
    ck_assert_uint_eq(v.n_tokens, s->n_answer);
    ck_assert(v.first_wrong == SIZE_MAX && v.claimed == -1 && v.found == -1 && v.seconds > 0);
}

/* ---- options ------------------------------------------------------------------------------------ */

static uint64_t state;

static uint32_t dice(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static float part(float most)
{
    return most * (float)dice(1 << 20) / (float)(1 << 20);
}

const char *const story_stops[] = {"dog", "\xff never", " big red"};
static const char *const breakers[] = {"a", "\n"};

void story_draw(struct story *s, uint64_t seed)
{
    static struct tern_bias bias[3];
    struct tern_sampler_params *p = &s->sampler;
    float *const parts[] = {&p->top_p,           &p->min_p,         &p->typical_p,
                            &p->xtc_probability, &p->xtc_threshold, &p->mirostat_eta};
    state = seed;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (dice(3) == 0)
            *parts[i] = part(1);
    p->temperature = dice(4) ? part(2) : 0;
    p->top_k = dice(100);
    p->seed = (uint64_t)dice(1u << 31) << 33 | dice(1u << 31);
    p->repeat_penalty = dice(2) ? 1 + part(1) : 0;
    p->repeat_last_n = dice(80);
    p->frequency_penalty = dice(3) ? 0 : part(1) - 0.5f;
    p->presence_penalty = dice(3) ? 0 : part(1) - 0.5f;
    p->top_n_sigma = dice(3) ? 0 : part(3);
    p->dry_multiplier = dice(2) ? 0 : part(2);
    p->dry_base = 1 + part(1), p->dry_allowed_length = dice(4), p->dry_last_n = dice(50);
    if (dice(2))
        p->dry_breakers = breakers, p->n_dry_breakers = dice(3);
    p->mirostat = dice(4) ? 0 : 2, p->mirostat_tau = part(8);
    for (size_t i = 0; i < 3; i++)
        bias[i] = (struct tern_bias){(tern_token)dice(1000), part(10) - 5};
    bias[0].value = dice(2) ? bias[0].value : -HUGE_VALF;
    p->bias = bias, p->n_bias = dice(4);
    if (dice(3) == 0)
        ck_assert(!tern_sampler_order(p, "top_k;xtc;temperature;penalties", NULL));
    s->p.n_predict = dice(4) ? 1 + (int64_t)dice(60) : -1;
    s->p.ignore_end = !s->is_bound && dice(2);
    s->p.no_force = (int)dice(2);
    s->p.stop = story_stops, s->p.n_stop = dice(4);
    s->cache_type = (enum tern_cache_type)dice(3);
    s->n_batch = 1 + dice(40), s->n_ctx = 70 + dice(100);
    s->p.lookup = dice(2) ? 31 : 0;
}

static const struct tern_constraint_params constraints[] = {
    {.kind = TERN_CONSTRAINT_JSON, .flags = TERN_CONSTRAINT_COMPACT},
    {.kind = TERN_CONSTRAINT_SCHEMA,
     .text = "{\"type\":\"object\",\"properties\":{\"name of "
             "it\":{\"type\":\"string\",\"maxLength\":9},"
             "\"is it good\":{\"type\":\"boolean\"}},\"required\":[\"name of it\",\"is it good\"],"
             "\"additionalProperties\":false}"},
    {.kind = TERN_CONSTRAINT_REGEX, .text = "(big|small) [a-z]{3,9}( and [a-z]{3,9}){2}\\."},
    {.kind = TERN_CONSTRAINT_GRAMMAR, .text = "root ::= \"The \" [a-z]{1,5} \" sat on the mat.\""},
    {.kind = TERN_CONSTRAINT_CHOICE, .text = "yes, it is|no|it may be"},
    {.kind = TERN_CONSTRAINT_CHOICE, .text = " in the end", .trigger = ".", .trigger_bytes = 1},
};
void story_bind(struct story *s, size_t i)
{
    s->is_bound = true;
    s->constraint = constraints[i % (sizeof constraints / sizeof *constraints)];
    s->constraint.bytes = s->constraint.text ? strlen(s->constraint.text) : 0;
}

void story_long(struct story *s)
{
    static const char *const never[] = {"zebra", "\xff never"};
    story_begin(s, "The cat sat");
    story_draw(s, 77);
    s->sampler.temperature = 1, s->sampler.mirostat = 0, s->p.n_predict = 45, s->p.ignore_end = 1;
    s->p.stop = never, s->p.n_stop = 2;
    s->n_ctx = STORY_MOST, s->cache_type = TERN_CACHE_F16;
    story_make(s);
    story_must_hold(s);
    ck_assert_uint_gt(s->n_answer, 20);
}
