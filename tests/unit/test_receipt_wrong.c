/* Receipts of what was not generated are refuted or refused; some answers have none. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/receipt.h"
#include "golden.h"
#include "receipt_story.h"
#include "suite.h"

/* ---- what does not hold --------------------------------------------------------------------------- */

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

START_TEST(any_other_token_is_named)
{
    struct story *s = malloc(sizeof *s);
    static const tern_token others[] = {-1, INT32_MAX, 1024, 0, 5};
    story_long(s);
    for (size_t i = 0; i < s->n_answer; i += golden_is_quick() ? 19 : 1) {
        tern_token own = s->answer[i], other = i % 6 ? others[i % 6 - 1] : own ^ 1;
        other += other == own;
        s->answer[i] = other;
        ck_assert(!story_receipt(s, NULL));
        struct tern_receipt_verdict v = story_proven_by(story_model, s->text, s->n);
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
    story_long(s);
    for (size_t i = 0; i + 1 < s->n; i += golden_is_quick() ? 23 : 1) {
        struct tern_error e = {0};
        char own = s->text[i];
        s->text[i] = (char)(own ^ (1 << i % 7));
        ck_assert_msg(tern_receipt_verify(story_model, s->text, s->n, &v, &e), "byte %zu", i);
        ck_assert(e.code == TERN_BAD_FILE && strlen(e.text) > 10);
        s->text[i] = own;
        ck_assert(i % 37 || tern_receipt_verify(story_model, s->text, i, &v, &e)); /* cut */
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
    story_generate(s);
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
    static tern_token tokens[STORY_MOST];
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
    const int most = golden_is_quick() ? 1 : INT_MAX; /* ways */
    for (; m->name; m++) {
        if (m->kind >= RECEIPT_MEMBERS)
            told += own->is_bound || m->kind == RECEIPT_MEMBERS
                        ? change_each(s, own, m->members, !strcmp(m->name, "model"))
                        : 0;
        for (int way = 0, ways = 1; m->kind < RECEIPT_BYTES && way < ways && way < most; way++) {
            struct receipt r = *own;
            struct tern_error e = {0};
            ways = change(&r, m, way);
            enum tern_status status =
                tern_receipt_verify(story_model, text, print(&r, text, sizeof text), &v, &e);
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
    story_long(s);
    if (_i) {
        story_bind(s, 1);
        s->p.ignore_end = 0, s->p.n_stop = 0;
        story_make(s);
        story_must_hold(s);
    }
    ck_assert(!receipt_read(&own, &memory, s->text, s->n, NULL));
    ck_assert_uint_gt(change_each(s, &own, receipt_members, false), golden_is_quick() ? 20 : 40);
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
        story_begin(s, "The cat sat");
        s->cancel_at = ends[i].own == TERN_STOP_CANCELLED ? 9 : 0;
        story_make(s);
        ck_assert_int_eq(s->result.reason, ends[i].own);
        s->result.reason = ends[i].claimed;
        ck_assert(!story_receipt(s, NULL));
        struct tern_receipt_verdict v = story_proven_by(story_model, s->text, s->n);
        ck_assert_msg(v.holds == ends[i].holds, "%zu: %s", i, v.why);
        ck_assert(v.first_wrong == SIZE_MAX && v.n_tokens == s->n_answer);
    }
    s->p.n_predict = 5, s->result.reason = TERN_STOP_LENGTH; /* fewer than the answer has */
    ck_assert(!story_receipt(s, NULL));
    struct tern_receipt_verdict v = story_proven_by(story_model, s->text, s->n);
    ck_assert(!v.holds && v.first_wrong == 5 && v.found == -1 && v.claimed == s->answer[5]);
    s->p.n_predict = 40, s->prompt[1] = 99999;
    ck_assert(!story_receipt(s, NULL));
    v = story_proven_by(story_model, s->text, s->n);
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
    story_begin(s, "The cat sat");
    s->sampler.temperature = 1, s->p.stop = story_stops, s->p.n_stop = 3, s->p.n_predict = 3;
    story_make(s);
    story_must_hold(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tern_receipt_verdict v;
        struct tern_error e = {0};
        size_t n = replace(s, cases[i].from, cases[i].to, text);
        enum tern_status status = tern_receipt_verify(story_model, text, n, &v, &e);
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
    story_begin(s, "The cat sat");
    s->sampler.temperature = 1, s->p.stop = story_stops, s->p.n_stop = 3;
    story_make(s);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert(
            story_proven_by(story_model, text, replace(s, same[i][0], same[i][1], text)).holds);
    free(s);
}
END_TEST

START_TEST(some_answers_have_no_receipt)
{
    struct story *s = malloc(sizeof *s), *other = malloc(sizeof *s);
    struct tern_error e = {0};
    float mu = 3;
    story_begin(s, "The cat sat");
    story_make(s);
    *other = *s;
    other->result.n_shifts = 1;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "was shifted") && !other->n);
    *other = *s, other->result.n_fingerprinted--;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "no fingerprint"));
    *other = *s, other->n_answer--;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "differ in the number"));
    *other = *s, other->result.reason = TERN_STOP_DEAD_END;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "dead end"));
    *other = *s, other->n_prompt = 0;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "is missing"));
    *other = *s, other->sampler.mu = &mu, other->sampler.mirostat = 2,
    other->p.sampler = &other->sampler;
    ck_assert(story_receipt(other, &e) == TERN_USAGE && strstr(e.text, "mu"));
    *other = *s;
    ck_assert(!story_receipt(other, &e)); /* and a buffer that is too small gets what fits */
    struct tern_generate_params p = s->p;
    p.sampler = NULL;
    struct tern_receipt_params params = {s->prompt, s->n_prompt, s->answer,  s->n_answer,
                                         &p,        NULL,        &s->result, 0};
    memset(other->text, 7, 20);
    ck_assert(!tern_receipt_write(story_model, &params, other->text, 10, &other->n, &e));
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
    struct tern_context_params context = {.n_ctx = STORY_MOST};
    struct tern_error e = {0};
    tern_context *ctx;
    story_begin(s, "The cat sat");
    ck_assert(!tern_context_open(&ctx, story_model, &context, NULL));
    ck_assert_msg(!tern_edit(ctx, edit, NULL, &e), "%s", e.text);
    s->p.tokens = s->prompt, s->p.n_tokens = s->n_prompt, s->p.sampler = &s->sampler;
    s->p.on_token = story_on_token, s->p.arg = s, s->p.fingerprint = 1;
    ck_assert(!tern_generate(ctx, &s->p, &s->result, NULL));
    ck_assert(s->n_answer && !s->result.fingerprint && !s->result.n_fingerprinted);
    ck_assert(story_receipt(s, &e) == TERN_USAGE && strstr(e.text, "altered"));
    tern_context_close(ctx);
    free(s);
}
END_TEST

SUITE("receipt_wrong", AROUND_EACH(story_open_fable, story_close_model),
      TEST(any_other_token_is_named), TEST(any_other_byte_is_refused),
      LOOP(any_other_value_is_refuted_or_refused_or_as_true, 0, 2), TEST(another_end_is_refuted),
      TEST(texts_that_are_no_receipt_are_refused), TEST(another_text_of_the_same_values_is_as_good),
      TEST(some_answers_have_no_receipt), TEST(an_altered_context_has_no_fingerprint))
