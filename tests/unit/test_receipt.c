/* ldflags: -Wl,@tests/support/allocs.ld */
/* Receipts: what was generated is proven, by any machine; what was not is refuted or refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "each_allocation.h"
#include "engine/receipt.h"
#include "golden.h"
#include "suite.h"
#include "tern_lab.h"

enum { MOST = 400 };

static const char fable[] = "models/fable.bin";
static tern_model *model;

struct story { /* an answer, its options, and its receipt */
    tern_token prompt[MOST], answer[MOST];
    size_t n_prompt, n_answer;
    struct tern_sampler_params sampler;
    struct tern_generate_params p;
    struct tern_constraint_params constraint;
    bool is_bound;
    struct tern_generate_result result;
    enum tern_cache_type cache_type;
    uint32_t n_batch, n_ctx;
    size_t cancel_at; /* token that ends it; 0: none */
    char text[20000];
    size_t n;
};

static tern_model *open_model(const char *path, const char *cpu, int n_threads)
{
    struct tern_model_params p = {.n_threads = n_threads, .cpu = cpu};
    struct tern_error e = {0};
    tern_model *m = NULL;
    ck_assert_msg(!tern_model_open(&m, path, &p, &e), "%s", e.text);
    return m;
}

static void open_fable(void)
{
    model = open_model(fable, NULL, 2);
}

static void close_model(void)
{
    tern_model_close(model);
}

static void begin(struct story *s, const char *prompt)
{
    memset(s, 0, sizeof *s);
    s->sampler = tern_sampler_defaults(model);
    s->sampler.seed = 42;
    s->p = tern_generate_defaults();
    s->p.n_predict = 40;
    s->n_ctx = MOST;
    if (prompt)
        ck_assert(!tern_tokenize(model, prompt, strlen(prompt), TERN_ADD_SPECIAL, s->prompt, MOST,
                                 &s->n_prompt, NULL));
}

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct story *s = arg;
    (void)logits;
    ck_assert_uint_lt(s->n_answer, MOST);
    s->answer[s->n_answer++] = token;
    return s->n_answer == s->cancel_at;
}

static void generate(struct story *s)
{
    struct tern_context_params context = {
        .n_ctx = s->n_ctx, .n_batch = s->n_batch, .cache_type = s->cache_type};
    struct tern_error e = {0};
    tern_constraint *constraint = NULL;
    tern_context *ctx;
    ck_assert_msg(!tern_context_open(&ctx, model, &context, &e), "%s", e.text);
    if (s->is_bound)
        ck_assert_msg(!tern_constraint_open(&constraint, model, &s->constraint, &e), "%s", e.text);
    s->p.tokens = s->prompt, s->p.n_tokens = s->n_prompt;
    s->p.sampler = &s->sampler, s->p.constraint = constraint;
    s->p.on_token = on_token, s->p.arg = s, s->p.fingerprint = 1;
    s->n_answer = 0;
    ck_assert_msg(!tern_generate(ctx, &s->p, &s->result, &e), "%s", e.text);
    ck_assert_uint_eq(s->n_answer, s->result.n_generated);
    tern_context_close(ctx);
    tern_constraint_close(constraint);
}

static enum tern_status write_receipt(struct story *s, struct tern_error *e)
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
    return tern_receipt_write(model, &p, s->text, sizeof s->text, &s->n, e);
}

static void make(struct story *s)
{
    struct tern_error e = {0};
    generate(s);
    ck_assert_msg(!write_receipt(s, &e), "%s", e.text);
    ck_assert_uint_lt(s->n, sizeof s->text);
}

static struct tern_receipt_verdict proven_by(tern_model *m, const char *text, size_t n)
{
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    ck_assert_msg(!tern_receipt_verify(m, text, n, &v, &e), "%s", e.text);
    ck_assert_int_eq(v.holds, !*v.why);
    return v;
}

static void must_hold(const struct story *s)
{
    struct tern_receipt_verdict v = proven_by(model, s->text, s->n);
    ck_assert_msg(v.holds, "%s\n%.*s", v.why, (int)s->n, s->text);
    ck_assert_uint_eq(v.n_tokens, s->n_answer);
    ck_assert(v.first_wrong == SIZE_MAX && v.claimed == -1 && v.found == -1 && v.seconds > 0);
}

/* ---- what holds ------------------------------------------------------------------------------- */

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

static const char *const stops[] = {"dog", "\xff never", " big red"}, *const breakers[] = {"a",
                                                                                           "\n"};

/* Every option that an answer depends on, on with some chance. */
static void draw_options(struct story *s)
{
    static struct tern_bias bias[3];
    struct tern_sampler_params *p = &s->sampler;
    float *const parts[] = {&p->top_p,           &p->min_p,         &p->typical_p,
                            &p->xtc_probability, &p->xtc_threshold, &p->mirostat_eta};
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
    s->p.stop = stops, s->p.n_stop = dice(4);
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
enum { KINDS = sizeof constraints / sizeof *constraints };

static void bind(struct story *s, size_t i)
{
    s->is_bound = true;
    s->constraint = constraints[i];
    s->constraint.bytes = s->constraint.text ? strlen(s->constraint.text) : 0;
}

/* The receipt is made by one way of computing and proven by others. */
START_TEST(answers_with_any_options_are_proven)
{
    if (!golden_is_due(_i))
        return;
    struct story *s = malloc(sizeof *s);
    begin(s, _i % 2 ? "The cat sat" : "Once upon a time there was a little girl.");
    state = 1000 + (uint64_t)_i;
    if (_i % 3 == 0)
        bind(s, (size_t)_i / 3 % KINDS);
    draw_options(s);
    make(s);
    must_hold(s);
    tern_model *other = open_model(fable, _i % 8 ? NULL : "ref", 1 + _i % 3);
    ck_assert(proven_by(other, s->text, s->n).holds);
    tern_model_close(other);
    free(s);
}
END_TEST

START_TEST(any_end_of_a_text_is_proven)
{
    static const char *const word[] = {"the"};
    struct story *s = malloc(sizeof *s);
    begin(s, "The cat");
    s->sampler.temperature = 0;
    s->p.n_predict = -1, s->n_ctx = 50; /* full */
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_CONTEXT);
    must_hold(s);
    s->n_ctx = MOST;
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_END);
    must_hold(s);
    s->p.stop = word, s->p.n_stop = 1;
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_STRING);
    must_hold(s);
    s->p.n_stop = 0, s->cancel_at = 7;
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_CANCELLED);
    must_hold(s);
    s->p.n_predict = 0;
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_LENGTH);
    must_hold(s);
    s->p.n_predict = 300, s->cancel_at = 0;
    bind(s, 4);
    make(s);
    ck_assert_int_eq(s->result.reason, TERN_STOP_COMPLETE);
    must_hold(s);
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
    model = open_model(path, NULL, 2);
    struct story *s = malloc(sizeof *s);
    struct tern_model_info info;
    tern_model_info(model, &info);
    begin(s, NULL);
    s->n_prompt = 21;
    golden_prompt(s->prompt, s->n_prompt, 9, info.vocab);
    s->n_batch = 1 + (uint32_t)_i % 9, s->n_ctx = info.max_seq < 120 ? (uint32_t)info.max_seq : 120;
    s->p.n_predict = (int64_t)s->n_ctx - 22 < 80 ? (int64_t)s->n_ctx - 22 : 80, s->p.ignore_end = 1;
    make(s);
    must_hold(s);
    s->answer[30 % s->n_answer] ^= 1;
    ck_assert(!write_receipt(s, NULL));
    ck_assert_uint_eq(proven_by(model, s->text, s->n).first_wrong, 30 % s->n_answer);
    tern_model_close(model);
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
    model = open_model(path, NULL, 1);
    struct story *s = malloc(sizeof *s);
    for (size_t n = 5; n < 45; n += 1 + n % 7) {
        begin(s, NULL);
        s->n_prompt = n;
        golden_prompt(s->prompt, n, n, toy.vocab);
        s->n_ctx = 128, s->p.n_predict = 60, s->p.ignore_end = 1;
        make(s);
        must_hold(s);
    }
    tern_model_close(model);
    unlink(path);
    free(s);
}
END_TEST

/* ---- what does not ----------------------------------------------------------------------------- */

/* Receipts of everything that can stand in one, with its digest */
static size_t print(const struct receipt *r, char *text, size_t max)
{
    struct buffer out = {0};
    struct tern_error e = {0};
    ck_assert_msg(!receipt_print(r, &out, &e), "%s", e.text);
    ck_assert_uint_le(out.n, max);
    memcpy(text, out.p, out.n);
    size_t n = out.n;
    buffer_close(&out);
    return n;
}

static void long_story(struct story *s)
{
    static const char *const never[] = {"zebra", "\xff never"};
    begin(s, "The cat sat");
    state = 77;
    draw_options(s);
    s->sampler.temperature = 1, s->sampler.mirostat = 0, s->p.n_predict = 45, s->p.ignore_end = 1;
    s->p.stop = never, s->p.n_stop = 2;
    s->n_ctx = MOST, s->cache_type = TERN_CACHE_F16;
    make(s);
    must_hold(s);
    ck_assert_uint_gt(s->n_answer, 20);
}

START_TEST(any_other_token_is_named)
{
    struct story *s = malloc(sizeof *s);
    static const tern_token others[] = {-1, INT32_MAX, 1024, 0, 5};
    long_story(s);
    for (size_t i = 0; i < s->n_answer; i++) {
        tern_token own = s->answer[i], other = i % 6 ? others[i % 6 - 1] : own ^ 1;
        other += other == own;
        s->answer[i] = other;
        ck_assert(!write_receipt(s, NULL));
        struct tern_receipt_verdict v = proven_by(model, s->text, s->n);
        ck_assert(!v.holds && v.first_wrong == i && v.n_tokens == i);
        ck_assert(v.claimed == other && v.found == own);
        s->answer[i] = own;
    }
    free(s);
}
END_TEST

START_TEST(any_other_byte_is_refused)
{
    struct story *s = malloc(sizeof *s);
    struct tern_receipt_verdict v;
    long_story(s);
    for (size_t i = 0; i + 1 < s->n; i++) {
        struct tern_error e = {0};
        char own = s->text[i];
        s->text[i] = (char)(own ^ (1 << i % 7));
        ck_assert_msg(tern_receipt_verify(model, s->text, s->n, &v, &e), "byte %zu", i);
        ck_assert(e.code == TERN_BAD_FILE && strlen(e.text) > 10);
        s->text[i] = own;
        ck_assert(i % 37 || tern_receipt_verify(model, s->text, i, &v, &e)); /* cut */
    }
    free(s);
}
END_TEST

/* Whether the model gives this very answer with these options: generated anew, not proven. */
static bool is_true(const struct receipt *r, const struct story *of)
{
    struct story *s = malloc(sizeof *s);
    *s = *of;
    s->sampler = r->sampler;
    s->p.n_predict = r->n_predict, s->p.ignore_end = r->ignore_end, s->p.no_force = r->no_force;
    s->p.stop = r->stop, s->p.n_stop = r->n_stop;
    s->is_bound = r->is_bound, s->constraint = r->constraint;
    s->cache_type = r->cache_type;
    s->n_prompt = r->n_prompt;
    memcpy(s->prompt, r->prompt, r->n_prompt * sizeof *r->prompt);
    generate(s);
    bool same = s->n_answer == r->n_answer && s->result.reason == r->reason &&
                s->result.fingerprint == r->fingerprint &&
                s->result.n_fingerprinted == r->n_fingerprinted &&
                !memcmp(s->answer, r->answer, r->n_answer * sizeof *r->answer);
    free(s);
    return same;
}

/* Another value of the member, of those that it can have; how many there are. */
static int change(struct receipt *r, const struct receipt_member *m, int way)
{
    static const char *const texts[] = {"dog", " big red", "cat", "he"};
    static tern_token tokens[MOST];
    static struct tern_bias bias[4] = {{5, 1}, {6, 2}, {274, -HUGE_VALF}, {7, 1}};
    char *at = (char *)r + m->at;
    size_t *n = (size_t *)(void *)((char *)r + m->count);
    const tern_token *old;
    switch (m->kind) {
    case RECEIPT_REAL:
        *(float *)(void *)at = way ? 0.25f : *(float *)(void *)at / 2 + 0.01f;
        return 2;
    case RECEIPT_U32:
        *(uint32_t *)(void *)at += way ? 0 : 1;
        return 1;
    case RECEIPT_FLAG:
        *(int *)(void *)at ^= 1;
        return 1;
    case RECEIPT_WORD:
        *(unsigned *)(void *)at = (*(unsigned *)(void *)at + 1 + (unsigned)way) % 3;
        return 2;
    case RECEIPT_HASH:
        ((struct receipt_hash *)(void *)at)->is_there ^= 1;
        return 1;
    case RECEIPT_TEXTS:
    case RECEIPT_TEXTS_OR:
        *(const void **)(void *)at = texts + way, *n = 1;
        return 4;
    case RECEIPT_TOKENS:
        memcpy(&old, at, sizeof old);
        memcpy(tokens, old, *n * sizeof *old);
        tokens[way == 1 ? 0 : *n - 1] += 1;
        *n -= way == 2;
        *(const void **)(void *)at = tokens;
        return 3;
    case RECEIPT_BIAS:
        *(const void **)(void *)at = bias, *n = 1 + (size_t)way;
        return 4;
    case RECEIPT_ORDER:
        ck_assert(
            !tern_sampler_order(&r->sampler, way ? "temperature" : "top_k;temperature", NULL));
        return 2;
    default:
        *(uint64_t *)(void *)at += way ? UINT64_MAX : 1;
        return 2;
    }
}

/* Refused or refuted; or else it is as true as the first one. Names of the model are refused. */
static size_t change_each(const struct story *s, const struct receipt *own,
                          const struct receipt_member *m, bool of_model)
{
    static char text[20000];
    struct tern_receipt_verdict v;
    size_t told = 0;
    for (; m->name; m++) {
        if (m->kind >= RECEIPT_MEMBERS)
            told += own->is_bound || m->kind == RECEIPT_MEMBERS
                        ? change_each(s, own, m->members, !strcmp(m->name, "model"))
                        : 0;
        for (int way = 0, ways = 1; m->kind < RECEIPT_BYTES && way < ways; way++) {
            struct receipt r = *own;
            struct tern_error e = {0};
            ways = change(&r, m, way);
            enum tern_status status =
                tern_receipt_verify(model, text, print(&r, text, sizeof text), &v, &e);
            bool arith = !strcmp(m->name, "arith"), version = !strcmp(m->name, "receipt");
            if (of_model || arith)
                ck_assert_msg(status == TERN_USAGE && e.code == status, "%s: %s", m->name, e.text);
            else if (version || status)
                ck_assert_msg(status == TERN_BAD_FILE || (status == TERN_LIMIT && !version),
                              "%s: %s", m->name, e.text);
            else
                ck_assert_msg(v.holds == is_true(&r, s), "%s: %s", m->name, v.why);
            told += status || !v.holds;
        }
    }
    return told;
}

START_TEST(any_other_value_is_refuted_or_refused_or_as_true)
{
    struct story *s = malloc(sizeof *s);
    struct receipt own;
    struct receipt_memory memory;
    long_story(s);
    if (_i) {
        bind(s, 1);
        s->p.ignore_end = 0, s->p.n_stop = 0;
        make(s);
        must_hold(s);
    }
    ck_assert(!receipt_read(&own, &memory, s->text, s->n, NULL));
    ck_assert_uint_gt(change_each(s, &own, receipt_members, false), 40);
    receipt_close(&memory);
    free(s);
}
END_TEST

START_TEST(another_end_is_refuted)
{
    static const struct {
        enum tern_stop_reason own, claimed;
        bool holds; /* anyone can have cancelled it then */
    } ends[] = {{TERN_STOP_LENGTH, TERN_STOP_END, false},
                {TERN_STOP_LENGTH, TERN_STOP_CONTEXT, false},
                {TERN_STOP_LENGTH, TERN_STOP_STRING, false},
                {TERN_STOP_LENGTH, TERN_STOP_COMPLETE, false},
                {TERN_STOP_LENGTH, TERN_STOP_CANCELLED, true},
                {TERN_STOP_CANCELLED, TERN_STOP_CONTEXT, true},
                {TERN_STOP_CANCELLED, TERN_STOP_LENGTH, false},
                {TERN_STOP_CANCELLED, TERN_STOP_END, false}};
    struct story *s = malloc(sizeof *s);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        begin(s, "The cat sat");
        s->cancel_at = ends[i].own == TERN_STOP_CANCELLED ? 9 : 0;
        make(s);
        ck_assert_int_eq(s->result.reason, ends[i].own);
        s->result.reason = ends[i].claimed;
        ck_assert(!write_receipt(s, NULL));
        struct tern_receipt_verdict v = proven_by(model, s->text, s->n);
        ck_assert_msg(v.holds == ends[i].holds, "%zu: %s", i, v.why);
        ck_assert(v.first_wrong == SIZE_MAX && v.n_tokens == s->n_answer);
    }
    s->p.n_predict = 5, s->result.reason = TERN_STOP_LENGTH; /* fewer than the answer has */
    ck_assert(!write_receipt(s, NULL));
    struct tern_receipt_verdict v = proven_by(model, s->text, s->n);
    ck_assert(!v.holds && v.first_wrong == 5 && v.found == -1 && v.claimed == s->answer[5]);
    s->p.n_predict = 40, s->prompt[1] = 99999;
    ck_assert(!write_receipt(s, NULL));
    v = proven_by(model, s->text, s->n);
    ck_assert(!v.holds && v.first_wrong == SIZE_MAX &&
              strstr(v.why, "token 1 of the prompt is 99999"));
    free(s);
}
END_TEST

/* ---- what is no receipt -------------------------------------------------------------------------- */

/* The text with `from` replaced by `to`, and its digest made right if it can be */
static size_t replace(const struct story *s, const char *from, const char *to, char *text)
{
    struct tern_error e;
    uint64_t digest;
    const char *at = strstr(s->text, from);
    ck_assert_msg(at, "%s", from);
    size_t before = (size_t)(at - s->text), n = s->n - strlen(from) + strlen(to);
    memcpy(text, s->text, before);
    memcpy(text + before, to, strlen(to));
    memcpy(text + before + strlen(to), at + strlen(from), s->n - before - strlen(from));
    text[n] = 0;
    char *value = strstr(text, "\"digest\":\"");
    if (value && !receipt_digest(text, n, &digest, &e)) {
        char digits[17];
        snprintf(digits, sizeof digits, "%016llx", (unsigned long long)digest);
        memcpy(value + 10, digits, 16);
    }
    return n;
}

START_TEST(texts_that_are_no_receipt_are_refused)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"{\"receipt\":1", "{\"receipt\":2", "version 2 is not known"},
        {"\"receipt\":1,", "", "no member \"receipt\""},
        {"\"receipt\":1,", "\"receipt\":\"1\",", "no member \"receipt\""},
        {"\"arith\":1,", "", "lacks the member \"arith\""},
        {"\"arith\":1,", "\"arith\":1,\"x\":0,", "#/x is not known"},
        {"\"arith\":1,", "\"arith\":1,\"arith\":1,", "comes twice"},
        {"\"top_k\":", "\"top_K\":", "#/sampler/top_K is not known"},
        {"\"arith\":1", "\"arith\":1.0", "#/arith is not a whole number"},
        {"\"arith\":1", "\"arith\":-1", "#/arith is not a whole number"},
        {"\"arith\":1", "\"arith\":99999999999999999999999", "#/arith is not a whole number"},
        {"\"temperature\":1.0", "\"temperature\":0.1",
         "#/sampler/temperature is not a 32-bit float"},
        {"\"temperature\":1.0", "\"temperature\":1e99", "not a 32-bit float"},
        {"\"temperature\":1.0", "\"temperature\":null", "is not a number"},
        {"\"temperature\":1.0", "\"temperature\":2000", "temperature is 2000"},
        {"\"temperature\":1.0", "\"temperature\":\"inf\"", "temperature is inf"},
        {"\"mirostat\":0", "\"mirostat\":1", "mirostat is 1"},
        {"\"cache_type\":\"f16\"", "\"cache_type\":\"f1\"", "is none of: f16 f32 q8"},
        {"\"cache_type\":\"f16\"", "\"cache_type\":0", "is none of: f16 f32 q8"},
        {"\"no_force\":", "\"no_force\":0,\"force\":", "not known"},
        {"\"no_force\":false", "\"no_force\":0", "is not true or false"},
        {"\"seed\":\"", "\"seed\":\"0", "is not a string of decimal digits"},
        {"\"seed\":\"", "\"seed\":\"9999999999999999999", "is not a string of decimal digits"},
        {"\"content_id\":\"", "\"content_id\":\"0", "16 hexadecimal digits"},
        {"\"stop\":[\"dog\",", "\"stop\":[\"d\\u0000g\",", "#/stop/0 holds a NUL"},
        {"\"stop\":[\"dog\",", "\"stop\":[{\"hex\":\"6\"},", "#/stop/0 is not a text"},
        {"\"stop\":[\"dog\",", "\"stop\":[{\"hex\":\"6g\"},", "#/stop/0 is not a text"},
        {"\"stop\":[\"dog\",", "\"stop\":[{\"hex\":\"66\",\"x\":1},", "#/stop/0 is not a text"},
        {"\"stop\":[\"dog\",", "\"stop\":[7,", "#/stop/0 is not a text"},
        {"\"stop\":[", "\"stop\":7,\"dry\":[", "not known"},
        {"\"order\":\"", "\"order\":\"x;", "sampler 'x' is unknown"},
        {"\"prompt\":[", "\"prompt\":[4294967296,", "#/prompt/0 is not a token id"},
        {"\"prompt\":[", "\"prompt\":[1.5,", "#/prompt/0 is not a token id"},
        {"\"prompt\":[", "\"prompt\":[[", "receipt"},
        {"\"prompt\":[", "\"prompt\":[],\"x\":[", "not known"},
        {"\"stop_reason\":\"", "\"stop_reason\":\"dead end\",\"y\":\"", "not known"},
        {"\"stop_reason\":\"length\"", "\"stop_reason\":\"dead end\"", "is none of"},
        {"\"constraint\":null", "\"constraint\":{}", "#/constraint lacks the member \"kind\""},
        {"\"constraint\":null", "\"constraint\":7", "#/constraint lacks the member"},
        {"\"constraint\":null",
         "\"constraint\":{\"kind\":\"regex\",\"text\":\"(\",\"flags\":0,\"max_bytes\":0,\"max_"
         "steps\":0,"
         "\"trigger\":\"\",\"tool_choice\":null,\"chat_flags\":0}",
         ""},
        {"{\"receipt\"", "[{\"receipt\"", "receipt"},
        {",\"digest\":", ",\"Digest\":", "#/Digest is not known"},
    };
    struct story *s = malloc(sizeof *s);
    static char text[20000];
    begin(s, "The cat sat");
    s->sampler.temperature = 1, s->p.stop = stops, s->p.n_stop = 3, s->p.n_predict = 3;
    make(s);
    must_hold(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tern_receipt_verdict v;
        struct tern_error e = {0};
        size_t n = replace(s, cases[i].from, cases[i].to, text);
        enum tern_status status = tern_receipt_verify(model, text, n, &v, &e);
        ck_assert_msg(status == TERN_BAD_FILE && e.code == status && strstr(e.text, cases[i].why),
                      "%s: %d %s", cases[i].to, (int)status, e.text);
        ck_assert(!v.holds);
    }
    free(s);
}
END_TEST

START_TEST(another_text_of_the_same_values_is_as_good)
{
    static const char *const same[][2] = {{"\"arith\":1,", " \"arith\" : 1 ,\n"},
                                          {"\"temperature\":1.0", "\"temperature\":10e-1"},
                                          {"\"temperature\":1.0", "\"temperature\":1"},
                                          {"\"stop\":[\"dog\"", "\"stop\":[\"\\u0064og\""},
                                          {"\"stop\":[\"dog\"", "\"stop\":[{\"hex\":\"646F67\"}"}};
    struct story *s = malloc(sizeof *s);
    static char text[20000];
    begin(s, "The cat sat");
    s->sampler.temperature = 1, s->p.stop = stops, s->p.n_stop = 3;
    make(s);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert(proven_by(model, text, replace(s, same[i][0], same[i][1], text)).holds);
    free(s);
}
END_TEST

START_TEST(some_answers_have_no_receipt)
{
    struct story *s = malloc(sizeof *s), *other = malloc(sizeof *s);
    struct tern_error e = {0};
    float mu = 3;
    begin(s, "The cat sat");
    make(s);
    *other = *s;
    other->result.n_shifts = 1;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "was shifted") && !other->n);
    *other = *s, other->result.n_fingerprinted--;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "no fingerprint"));
    *other = *s, other->n_answer--;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "differ in the number"));
    *other = *s, other->result.reason = TERN_STOP_DEAD_END;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "dead end"));
    *other = *s, other->n_prompt = 0;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "is missing"));
    *other = *s, other->sampler.mu = &mu, other->sampler.mirostat = 2,
    other->p.sampler = &other->sampler;
    ck_assert(write_receipt(other, &e) == TERN_USAGE && strstr(e.text, "mu"));
    *other = *s;
    ck_assert(!write_receipt(other, &e)); /* and a buffer that is too small gets what fits */
    struct tern_generate_params p = s->p;
    p.sampler = NULL;
    struct tern_receipt_params params = {s->prompt, s->n_prompt, s->answer,  s->n_answer,
                                         &p,        NULL,        &s->result, 0};
    memset(other->text, 7, 20);
    ck_assert(!tern_receipt_write(model, &params, other->text, 10, &other->n, &e));
    ck_assert(other->n > 500 && !memcmp(other->text, s->text, 10) && other->text[10] == 7);
    free(s), free(other);
}
END_TEST

static int edit(void *arg, const struct tern_observation *o, float *values)
{
    (void)arg, (void)o;
    values[0] += 1;
    return 1;
}

START_TEST(an_altered_context_has_no_fingerprint)
{
    struct story *s = malloc(sizeof *s);
    struct tern_context_params context = {.n_ctx = MOST};
    struct tern_error e = {0};
    tern_context *ctx;
    begin(s, "The cat sat");
    ck_assert(!tern_context_open(&ctx, model, &context, NULL));
    ck_assert_msg(!tern_edit(ctx, edit, NULL, &e), "%s", e.text);
    s->p.tokens = s->prompt, s->p.n_tokens = s->n_prompt, s->p.sampler = &s->sampler;
    s->p.on_token = on_token, s->p.arg = s, s->p.fingerprint = 1;
    ck_assert(!tern_generate(ctx, &s->p, &s->result, NULL));
    ck_assert(s->n_answer && !s->result.fingerprint && !s->result.n_fingerprinted);
    ck_assert(write_receipt(s, &e) == TERN_USAGE && strstr(e.text, "altered"));
    tern_context_close(ctx);
    free(s);
}
END_TEST

/* ---- models and chat templates ------------------------------------------------------------------- */

START_TEST(another_chat_template_is_refused_where_it_has_a_part)
{
    struct story *s = malloc(sizeof *s);
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    begin(s, "The cat sat");
    s->p.stop = stops, s->p.n_stop = 1;
    make(s);
    must_hold(s);
    ck_assert(!tern_chat_use(model, "chatml", NULL));
    ck_assert_int_eq(tern_receipt_verify(model, s->text, s->n, &v, &e), TERN_USAGE);
    ck_assert(strstr(e.text, "chat template"));
    make(s);
    must_hold(s);
    s->p.n_stop = 0;
    make(s);
    ck_assert(!tern_chat_use(model, "zephyr", NULL));
    must_hold(s);
    free(s);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------------- */

static struct story held, again;

static void prove_held(void)
{
    struct tern_receipt_verdict v;
    struct tern_error e = {0};
    enum tern_status s = tern_receipt_verify(model, held.text, held.n, &v, &e);
    if (s != TERN_NO_MEMORY && (s || !v.holds))
        fprintf(stderr, "%d %s %s", (int)s, e.text, v.why), abort();
    s = write_receipt(&again, &e);
    if (s ? s != TERN_NO_MEMORY : again.n != held.n || memcmp(again.text, held.text, held.n) != 0)
        abort();
}

START_TEST(every_allocation_may_fail)
{
    long_story(&held);
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
    long_story(s);
    tern_model *m;
    stop_at = -1;
    ck_assert(!tern_model_open(&m, fable, &p, NULL));
    ck_assert(proven_by(m, s->text, s->n).holds);
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
      TEST(answers_that_cross_a_rope_limit_are_proven), AROUND_EACH(open_fable, close_model),
      LOOP(answers_with_any_options_are_proven, 0, 32), TEST(any_end_of_a_text_is_proven),
      TEST(any_other_token_is_named), TEST(any_other_byte_is_refused),
      LOOP(any_other_value_is_refuted_or_refused_or_as_true, 0, 2), TEST(another_end_is_refuted),
      TEST(texts_that_are_no_receipt_are_refused), TEST(another_text_of_the_same_values_is_as_good),
      TEST(some_answers_have_no_receipt), TEST(an_altered_context_has_no_fingerprint),
      TEST(another_chat_template_is_refused_where_it_has_a_part), TEST(every_allocation_may_fail),
      TEST(a_proof_can_be_stopped))
