/* Texts under a constraint: tern_generate against its definition, a token at a time through tern.h; and
 * that batches, threads and guesses change nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/xxh64.h"
#include "suite.h"
#include "tern.h"

enum { MOST = 600, KINDS = 5, N_CTX = 512 };

static tern_model *model;
static tern_constraint *constraints[KINDS];

static const char story[] =
    "Tom had a big red ball. He gave the ball to Ann, and Ann gave the ball to Tom.|Tom had a big "
    "dog. The dog was happy.|Tom";
static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}, "
    "\"friend of the hero\": {\"type\": \"string\", \"pattern\": \"^[A-Z][a-z]{1,6}$\"}, \"kind of "
    "animal\": {\"enum\": [\"cat\", \"dog\", \"little bird\"]}, \"age in years\": {\"type\": "
    "\"integer\", \"minimum\": 0, \"maximum\": 20}}, \"required\": [\"name\", \"friend of the "
    "hero\", "
    "\"kind of animal\", \"age in years\"], \"additionalProperties\": false}";
static const char grammar[] = "root ::= (\"The \" animal \" sat on the mat. \"){3}\n"
                              "animal ::= \"cat\" | \"dog\" | [a-z]{1,5}\n";

struct text { /* what came of a text */
    tern_token tokens[MOST];
    bool forced[MOST];
    uint64_t logits[MOST]; /* hash of what a token was chosen from; 0: forced */
    char said[8 * MOST];
    size_t n, n_said;
    enum tern_stop_reason reason;
    uint64_t fingerprint;
    size_t stop_at; /* callback that ends it; 0: none */
};

static uint64_t hash_of(const float *logits)
{
    struct tern_model_info info;
    struct xxh64 h;
    tern_model_info(model, &info);
    xxh64_init(&h, 0);
    xxh64_update(&h, logits, info.vocab * sizeof *logits);
    return xxh64_digest(&h);
}

static void add(struct text *t, tern_token token, const float *logits)
{
    ck_assert_uint_lt(t->n, MOST);
    t->tokens[t->n] = token;
    t->forced[t->n] = !logits;
    t->logits[t->n++] = logits ? hash_of(logits) : 0;
}

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct text *t = arg;
    add(t, token, logits);
    return t->n == t->stop_at;
}

static int on_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct text *t = arg;
    (void)token;
    ck_assert_uint_le(t->n_said + n, sizeof t->said);
    memcpy(t->said + t->n_said, text, n);
    t->n_said += n;
    return 0;
}

static void evaluate(tern_context *ctx, const tern_token *tokens, size_t n)
{
    for (size_t i = tern_seq_length(ctx, 0); i < n; i++) {
        unsigned flags = i + 1 == n ? TERN_ROW_LOGITS : 0;
        ck_assert(!tern_batch_add(ctx, 0, tokens[i], flags, NULL) && !tern_forward(ctx));
    }
}

/* The first tokens and the newest half of the others are a new text (tern.h). */
static size_t shift(tern_context *ctx, tern_token *tokens, size_t n, size_t keep)
{
    size_t newest = (n - keep) / 2;
    memmove(tokens + keep, tokens + n - newest, newest * sizeof *tokens);
    ck_assert_uint_eq(tern_seq_keep(ctx, 0, 0), 0);
    return keep + newest;
}

/* The definition: forced tokens are asked for before the first token and behind each sampled one. */
static void define(const struct tern_generate_params *p, uint32_t n_ctx, struct text *t)
{
    tern_token tokens[N_CTX + 1], run[2000];
    struct tern_context_params params = {.n_ctx = n_ctx, .fingerprint = 1};
    struct tern_sampler_params own = *p->sampler;
    float mu = 2 * own.mirostat_tau;
    tern_context *ctx;
    size_t n = p->n_tokens, n_forced = 0, n_predict = (size_t)p->n_predict;
    bool no_force = p->no_force;
    memset(t, 0, sizeof *t);
    t->reason = TERN_STOP_LENGTH;
    ck_assert(!tern_context_open(&ctx, model, &params, NULL));
    ck_assert(!tern_constraint_state_open(&own.constraint, p->constraint, NULL));
    own.mu = &mu;
    memcpy(tokens, p->tokens, n * sizeof *tokens);
    evaluate(ctx, tokens, n);
    bool over = tern_constraint_is_over(own.constraint);
    for (bool sampled = false; !over && t->n < n_predict && (n <= n_ctx || p->shift);) {
        const float *logits = NULL;
        if (t->n == 0 && !sampled && !no_force)
            ck_assert(!tern_constraint_forced(own.constraint, run, 2000, &n_forced, NULL));
        sampled = true;
        for (size_t i = 0; i < (n_forced ? n_forced : 1) && !over && t->n < n_predict; i++) {
            if (n > n_ctx && !p->shift)
                break;
            if (n > n_ctx)
                n = shift(ctx, tokens, n, p->keep), mu = 2 * own.mirostat_tau;
            if (!n_forced) {
                evaluate(ctx, tokens, n);
                logits = tern_logits(ctx, 0);
            }
            tern_token token = n_forced ? run[i] : tern_sample(ctx, &own, logits, tokens, n, n);
            ck_assert_int_ge(token, 0);
            add(t, token, logits);
            tokens[n++] = token;
            ck_assert(!tern_constraint_accept(own.constraint, token, NULL));
            over = tern_token_is_end(model, token) || tern_constraint_is_over(own.constraint);
        }
        if (n_forced || no_force)
            n_forced = 0;
        else
            ck_assert(!tern_constraint_forced(own.constraint, run, 2000, &n_forced, NULL));
    }
    t->reason = over ? TERN_STOP_COMPLETE : n > n_ctx ? TERN_STOP_CONTEXT : TERN_STOP_LENGTH;
    t->fingerprint = tern_fingerprint(ctx, NULL);
    tern_constraint_state_close(own.constraint);
    tern_context_close(ctx);
}

struct ways {
    uint32_t n_batch, lookup; /* do not matter, */
    bool draft;               /* nor does this */
    uint32_t n_ctx;           /* 0: N_CTX */
};

static void generate(const struct tern_generate_params *params, struct ways w, struct text *t,
                     struct tern_generate_result *r)
{
    struct tern_generate_params p = *params;
    struct tern_context_params context = {
        .n_ctx = w.n_ctx ? w.n_ctx : N_CTX, .n_batch = w.n_batch, .fingerprint = 1};
    struct tern_error e = {0};
    tern_context *ctx;
    size_t stop_at = t->stop_at;
    memset(t, 0, sizeof *t);
    t->stop_at = stop_at;
    ck_assert(!tern_context_open(&ctx, model, &context, NULL));
    p.lookup = w.lookup, p.on_token = on_token, p.on_text = on_text, p.arg = t;
    if (w.draft)
        ck_assert(!tern_context_open(&p.draft, model, NULL, NULL));
    ck_assert_msg(!tern_generate(ctx, &p, r, &e), "%s", e.text);
    t->reason = r->reason;
    t->fingerprint = tern_fingerprint(ctx, NULL);
    ck_assert_uint_eq(r->n_generated, t->n);
    if (!r->n_shifts) {
        ck_assert_uint_eq(tern_seq_length(ctx, 0) + 1, p.n_tokens + t->n);
        ck_assert(!memcmp(tern_seq_tokens(ctx, 0) + p.n_tokens, t->tokens,
                          (t->n - 1) * sizeof *t->tokens));
    }
    ck_assert_int_eq(r->last, t->tokens[t->n - 1]);
    tern_context_close(ctx);
    tern_context_close(p.draft);
}

static void compare(const struct text *a, const struct text *b, size_t k)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        ck_assert_msg(a->tokens[i] == b->tokens[i] && a->forced[i] == b->forced[i] &&
                          a->logits[i] == b->logits[i],
                      "case %zu: token %zu", k, i);
    ck_assert_msg(a->n == b->n && a->reason == b->reason,
                  "case %zu: %zu and %zu tokens, reasons %d and %d", k, a->n, b->n, (int)a->reason,
                  (int)b->reason);
}

static size_t make_prompt(tern_token *tokens)
{
    size_t n;
    ck_assert(!tern_tokenize(model, "One day, Tom", 12, TERN_ADD_SPECIAL, tokens, 20, &n, NULL));
    return n;
}

START_TEST(generate_is_its_definition)
{
    static const struct ways ways[] = {
        {512, 0, false, 0}, {3, 0, false, 0}, {512, 31, false, 0}, {7, 5, true, 0}};
    static struct text want, got;
    tern_token prompt[20];
    size_t n = make_prompt(prompt), forced = 0, complete = 0;
    for (size_t k = 0; k < 4 * KINDS; k++) {
        struct tern_sampler_params sampler = tern_sampler_defaults(model);
        struct tern_generate_params p = tern_generate_defaults();
        struct tern_generate_result r;
        sampler.seed = k, sampler.temperature = k % 3 ? 1 : 0;
        sampler.repeat_penalty = 1.1f, sampler.mirostat = k % 5 ? 0 : 2;
        p.sampler = &sampler, p.tokens = prompt, p.n_tokens = n;
        p.constraint = constraints[k % KINDS], p.no_force = k / KINDS == 2;
        p.n_predict = k / KINDS == 1 ? (int64_t)(3 + k) : 120;
        define(&p, N_CTX, &want);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            generate(&p, ways[i], &got, &r);
            compare(&want, &got, k);
            ck_assert_uint_eq(want.fingerprint, got.fingerprint);
            forced += r.n_forced;
        }
        complete += got.reason == TERN_STOP_COMPLETE;
    }
    ck_assert_uint_gt(forced, 500);
    ck_assert_uint_gt(complete, KINDS);
}
END_TEST

/* Wherever a callback ends the text, also within a forced run, the sequence lacks its last token. */
START_TEST(a_text_can_end_anywhere)
{
    static struct text whole, cut;
    tern_token prompt[20];
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result r;
    p.tokens = prompt, p.n_tokens = make_prompt(prompt), p.constraint = constraints[1];
    p.n_predict = 60;
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    p.sampler = &sampler;
    generate(&p, (struct ways){.lookup = 0}, &whole, &r);
    ck_assert_uint_gt(r.n_forced, 5);
    for (cut.stop_at = 1; cut.stop_at <= whole.n && cut.stop_at < 40; cut.stop_at++) {
        generate(&p, (struct ways){.lookup = cut.stop_at % 2 * 9}, &cut, &r);
        ck_assert_uint_eq(cut.n, cut.stop_at);
        ck_assert_int_eq(r.reason, TERN_STOP_CANCELLED);
        ck_assert(!memcmp(cut.tokens, whole.tokens, cut.n * sizeof *cut.tokens));
    }
}
END_TEST

/* A small context shifts within runs, and the state goes on; a stop string ends an unfinished text. */
START_TEST(shifts_and_stops)
{
    static struct text text[2];
    static const char *const stop[] = {"sat on"};
    tern_token prompt[20];
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result r;
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    sampler.temperature = 0;
    p.tokens = prompt, p.n_tokens = make_prompt(prompt), p.sampler = &sampler;
    p.shift = 1, p.keep = 3, p.n_predict = 200;
    for (uint32_t i = 0; i < 12; i++) {
        p.constraint = constraints[i % 3], p.no_force = i == 11;
        p.keep = i % 4, sampler.seed = i, sampler.temperature = i % 2 ? 1 : 0;
        define(&p, 11 + i, &text[0]);
        generate(&p, (struct ways){4 + i, i % 5 * 2, i % 2, 11 + i}, &text[1], &r);
        compare(&text[0], &text[1], i);
        ck_assert(r.reason == TERN_STOP_COMPLETE && (i % 3 == 0 || r.n_shifts > 0));
    }
    p.no_force = 0, p.n_predict = -1, p.constraint = constraints[2];
    p.shift = 0, p.stop = stop, p.n_stop = 1;
    generate(&p, (struct ways){.n_batch = 0}, &text[0], &r);
    ck_assert_int_eq(r.reason, TERN_STOP_STRING);
    ck_assert(text[0].said[text[0].n_said - 1] == ' ' && !memcmp(text[0].said, "The ", 4));
}
END_TEST

/* A state of the caller moves with the text, and the next call goes on behind it. */
START_TEST(a_state_of_the_caller)
{
    tern_token prompt[20], last;
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result r;
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    tern_context *ctx;
    static struct text text;
    size_t n = 0;
    memset(&text, 0, sizeof text);
    sampler.temperature = 0;
    ck_assert(!tern_context_open(&ctx, model, NULL, NULL));
    ck_assert(!tern_constraint_state_open(&sampler.constraint, constraints[1], NULL));
    p.tokens = prompt, p.n_tokens = make_prompt(prompt), p.sampler = &sampler, p.n_predict = 5;
    p.on_text = on_text, p.arg = &text, p.no_force = 1;
    do {
        ck_assert(!tern_generate(ctx, &p, &r, NULL));
        last = r.last;
        p.tokens = &last, p.n_tokens = 1;
        ck_assert(r.n_generated == 5 || r.reason == TERN_STOP_COMPLETE);
        n++;
    } while (r.reason == TERN_STOP_LENGTH && n < 50);
    ck_assert(r.reason == TERN_STOP_COMPLETE && n > 2);
    ck_assert(text.said[0] == '{' && text.said[text.n_said - 1] == '}');
    ck_assert(!tern_generate(ctx, &p, &r, NULL)); /* there is nothing more to say */
    ck_assert(r.reason == TERN_STOP_COMPLETE && r.n_generated == 0);
    tern_constraint_state_close(sampler.constraint);
    tern_context_close(ctx);
}
END_TEST

/* tern_sample alone: the state stays, the constraint is stronger than any bias, and behind the end there
 * is no token. */
START_TEST(sample_under_a_state)
{
    struct tern_sampler_params p = tern_sampler_defaults(model);
    struct tern_bias bias = {.value = INFINITY};
    tern_token prompt[20], tokens[400];
    tern_context *ctx;
    size_t n = make_prompt(prompt), made = 0;
    ck_assert(!tern_context_open(&ctx, model, NULL, NULL));
    ck_assert(!tern_constraint_state_open(&p.constraint, constraints[3], NULL));
    ck_assert(!tern_tokenize(model, "7", 1, 0, &bias.token, 1, &made, NULL));
    evaluate(ctx, prompt, n);
    p.bias = &bias, p.n_bias = 1;
    tern_token first = tern_sample(ctx, &p, tern_logits(ctx, 0), NULL, 0, 0);
    ck_assert(first >= 0 && first != bias.token);
    ck_assert_int_eq(tern_sample(ctx, &p, tern_logits(ctx, 0), NULL, 0, 0), first);
    for (made = 0; made < 400 && !tern_constraint_is_over(p.constraint); made++) {
        tokens[made] = tern_sample(ctx, &p, tern_logits(ctx, 0), NULL, 0, made);
        ck_assert(!tern_constraint_accept(p.constraint, tokens[made], NULL));
    }
    tern_token end = tern_sample(ctx, &p, tern_logits(ctx, 0), NULL, 0, 0);
    ck_assert(tern_constraint_is_over(p.constraint) && tern_token_is_end(model, end));
    ck_assert(!tern_constraint_accept(p.constraint, end, NULL));
    ck_assert_int_eq(tern_sample(ctx, &p, tern_logits(ctx, 0), NULL, 0, 0), -1);
    tern_constraint_state_close(p.constraint);
    tern_context_close(ctx);
}
END_TEST

START_TEST(what_is_refused)
{
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_sampler_params sampler = tern_sampler_defaults(model);
    struct tern_error e = {0};
    tern_context *ctx;
    tern_model *other;
    tern_token prompt[20];
    ck_assert(!tern_context_open(&ctx, model, NULL, NULL));
    p.tokens = prompt, p.n_tokens = make_prompt(prompt), p.constraint = constraints[0];
    p.ignore_end = 1;
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "end token"));
    p.ignore_end = 0, p.sampler = &sampler;
    ck_assert(!tern_constraint_state_open(&sampler.constraint, constraints[1], NULL));
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "one constraint"));
    tern_context_close(ctx);
    p.constraint = NULL;
    ck_assert(!tern_model_open(&other, "models/fable.bin", NULL, NULL));
    ck_assert(!tern_context_open(&ctx, other, NULL, NULL));
    ck_assert_int_eq(tern_generate(ctx, &p, NULL, &e), TERN_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "another model"));
    float logits[1] = {0};
    ck_assert_int_eq(tern_sample(ctx, &sampler, logits, NULL, 0, 0), -1);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 0);
    tern_constraint_state_close(sampler.constraint);
    tern_context_close(ctx);
    tern_model_close(other);
}
END_TEST

static void setup(void)
{
    static const struct tern_constraint_params params[KINDS] = {
        {.kind = TERN_CONSTRAINT_CHOICE, .text = story, .bytes = sizeof story - 1},
        {.kind = TERN_CONSTRAINT_SCHEMA, .text = schema, .bytes = sizeof schema - 1},
        {.kind = TERN_CONSTRAINT_GRAMMAR, .text = grammar, .bytes = sizeof grammar - 1},
        {.kind = TERN_CONSTRAINT_REGEX,
         .text = "([a-z]{1,8}, ){2}but never mind( that)?",
         .bytes = 38},
        {.kind = TERN_CONSTRAINT_JSON}};
    struct tern_error e = {0};
    ck_assert(!tern_model_open(&model, "models/fable.bin", NULL, NULL));
    for (size_t i = 0; i < KINDS; i++)
        ck_assert_msg(!tern_constraint_open(&constraints[i], model, &params[i], &e), "%s", e.text);
}

static void teardown(void)
{
    for (size_t i = 0; i < KINDS; i++)
        tern_constraint_close(constraints[i]);
    tern_model_close(model);
}

SUITE("constrained", AROUND_ALL(setup, teardown), TEST(generate_is_its_definition),
      TEST(a_text_can_end_anywhere), TEST(shifts_and_stops), TEST(a_state_of_the_caller),
      TEST(sample_under_a_state), TEST(what_is_refused))
