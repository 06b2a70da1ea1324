/* Tools in conversations: what the rules of six families of templates write, and what an answer's calls
 * are read back as, wherever the answer is cut. */
#include "suite.h"
#include "text/answer_parser.h"
#include "text/tojson.h"
#include "text/unicode.h"
#include "tool_families.h"

#include <stdio.h>
#include <time.h>

START_TEST(writes_tools_calls_and_results)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    rules_write(c, tool_family_talk, FAMILY_TALK, 0, f->written);
    ck_assert_int_eq(chat_info(c)->takes_tools, f->flags & 2 ? 1 : 2);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* gpt-oss: the reason is said, whatever else the conversation has. */
START_TEST(refuses_a_second_call_of_a_message)
{
    enum { CALLS = 1 << 18, MANY = 1 << 25 };
    struct tern_chat_message talk[FAMILY_TALK + 1];
    struct tool_family f = tool_families[5];
    f.rules[2].mask |= MANY, f.rules[3].mask |= CALLS;
    struct keywriter k;
    struct chat *c = tool_family_open(&f, &k);
    struct chat_text out = {0};
    struct tern_error e = {0};
    talk[0] = tool_family_talk[0];
    talk[1] = (struct tern_chat_message){.role = "system", .text = "s", .bytes = 1};
    memcpy(talk + 2, tool_family_talk + 1, (FAMILY_TALK - 1) * sizeof *talk);
    ck_assert_int_eq(chat_render(c, talk, FAMILY_TALK + 1, 0, &out, &e), TERN_USAGE);
    ck_assert_str_eq(e.text,
                     "the chat template 'test' has no form for a message with several calls");
    chat_text_close(&out);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* ---- answers ------------------------------------------------------------------------------ */

/* Events as a text; neighbours of one kind are joined. Of the call that has begun, what came of it. */
struct heard {
    char text[1024];
    size_t n;
    enum tern_answer_kind open; /* a bracket is not yet closed */
    bool in_call;
    char id[64], name[65], arguments[1024];
};

static void hear(struct heard *h, const char *p, size_t n)
{
    ck_assert_uint_lt(h->n + n, sizeof h->text);
    memcpy(h->text + h->n, p, n);
    h->text[h->n += n] = 0;
}

/* A call's pieces come between its beginning and its end, by whole characters, and make its arguments. */
static void follow_call(struct heard *h, const struct tern_answer_event *x)
{
    bool begins = x->kind == TERN_ANSWER_BEGIN;
    ck_assert_int_eq(h->in_call, !begins);
    if (begins) {
        snprintf(h->id, sizeof h->id, "%s", x->call.id);
        snprintf(h->name, sizeof h->name, "%s", x->call.name);
        ck_assert_ptr_null(x->call.arguments);
        h->arguments[0] = 0;
    } else if (x->kind == TERN_ANSWER_ARGUMENTS) {
        ck_assert(x->bytes && unicode_valid(x->text, x->bytes));
        ck_assert_uint_lt(strlen(h->arguments) + x->bytes, sizeof h->arguments);
        strncat(h->arguments, x->text, x->bytes);
    } else {
        ck_assert_str_eq(x->call.id, h->id);
        ck_assert_str_eq(x->call.name, h->name);
        ck_assert_str_eq(x->call.arguments, h->arguments);
    }
    h->in_call = x->kind == TERN_ANSWER_BEGIN || x->kind == TERN_ANSWER_ARGUMENTS;
}

static void take_events(struct heard *h, struct answer_parser *a)
{
    struct tern_answer_event x;
    while (answer_parser_next(a, &x) != TERN_ANSWER_NONE) {
        if (h->open && h->open != x.kind)
            hear(h, "]", 1), h->open = TERN_ANSWER_NONE;
        if (x.kind == TERN_ANSWER_TEXT || x.kind == TERN_ANSWER_THOUGHT)
            ck_assert(!h->in_call);
        else
            follow_call(h, &x);
        if (x.kind == TERN_ANSWER_BEGIN || x.kind == TERN_ANSWER_ARGUMENTS)
            continue;
        if (x.kind == TERN_ANSWER_CALL || x.kind == TERN_ANSWER_CUT) {
            hear(h, x.kind == TERN_ANSWER_CALL ? "C[" : "X[", 2);
            hear(h, x.call.id, strlen(x.call.id)), hear(h, "|", 1);
            hear(h, x.call.name, strlen(x.call.name)), hear(h, "|", 1);
            hear(h, x.call.arguments, strlen(x.call.arguments)), hear(h, "]", 1);
            continue;
        }
        if (!h->open)
            hear(h, x.kind == TERN_ANSWER_TEXT ? "T[" : "H[", 2);
        hear(h, x.text, x.bytes);
        h->open = x.kind;
    }
}

static struct answer_parser *open_params(const struct chat *c, struct answer_params p)
{
    struct answer_parser *a;
    struct tern_error e = {0};
    p.tools = (struct mark){tool_family_tools, strlen(tool_family_tools)};
    p.first_call = 7;
    ck_assert_msg(answer_parser_open(&a, c, &p, &e) == TERN_OK, "%s", e.text);
    return a;
}

static struct answer_parser *open_answer(const struct chat *c, bool marked)
{
    return open_params(c, (struct answer_params){.marked = marked});
}

static void end(struct answer_parser *a, struct heard *h, bool cut, const char *want,
                const char *how)
{
    ck_assert_int_eq(answer_parser_finish(a, "", 0, cut, NULL), TERN_OK);
    take_events(h, a);
    ck_assert(!h->in_call);
    if (h->open)
        hear(h, "]", 1);
    ck_assert_msg(strcmp(h->text, want) == 0, "%s: got '%s', want '%s'", how, h->text, want);
    answer_parser_close(a);
}

static void finish(struct answer_parser *a, struct heard *h, const char *want, const char *how)
{
    end(a, h, false, want, how);
}

/* Cut in three, at `one` and `two` */
static void read_cut(const struct chat *c, const char *answer, size_t one, size_t two,
                     const char *want)
{
    struct answer_parser *a = open_answer(c, false);
    struct heard h = {0};
    size_t n = strlen(answer), cuts[] = {0, one, two, n};
    char how[60];
    snprintf(how, sizeof how, "cut at %zu and %zu", one, two);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!answer_parser_push(a, answer + cuts[i], cuts[i + 1] - cuts[i], NULL));
        take_events(&h, a);
    }
    finish(a, &h, want, how);
}

START_TEST(reads_calls_however_the_answer_is_cut)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(f->answers[i]);
        struct answer_parser *a = open_answer(c, false);
        struct heard h = {0};
        for (size_t one = 0; one <= n; one++)
            read_cut(c, f->answers[i], one, one + (n - one) / 2, f->events[i]);
        for (size_t j = 0; j < n; j++) {
            ck_assert(!answer_parser_push(a, f->answers[i] + j, 1, NULL));
            take_events(&h, a);
        }
        finish(a, &h, f->events[i], "byte by byte");
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Llama 4: calls without an end follow one another, and the trigger stands before the first alone. */
START_TEST(reads_calls_that_nothing_parts)
{
    static const char answer[] =
        "<go>{\"name\": \"stop\", \"parameters\": {}}\n{\"name\": \"stop\", "
        "\"parameters\": {\"a\": 1}} {\"name";
    static const char events[] = "C[000000007|stop|{}]C[000000008|stop|{\"a\": 1}]T[ {\"name]";
    struct tool_family f = tool_families[1];
    f.forms[0][0] = f.forms[0][1] = "<go>";
    f.flags = 0;
    struct keywriter k;
    struct chat *c = tool_family_open(&f, &k);
    for (size_t one = 0; one < sizeof answer; one++)
        read_cut(c, answer, one, one, events);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Gemma 4 writes keys without quotes, and may be mistaken. */
START_TEST(reads_keys_in_quotes)
{
    static const char answer[] = "<repo_name>[get_weather(\"days\"=2, \"=1, \"\"=3)]<|endoftext|>";
    struct tool_family f = tool_families[4];
    struct keywriter k;
    struct chat *c = tool_family_open(&f, &k);
    read_cut(c, answer, 9, 30,
             "C[000000007|get_weather|{\"\\\"days\\\"\": 2, \"\\\"\": 1, \"\\\"\\\"\": 3}]");
    chat_close(c);
    keywriter_close(&k);
    f.styles[1] = TOJSON_GEMMA;
    c = tool_family_open(&f, &k);
    read_cut(c, answer, 9, 30,
             "C[000000007|get_weather|{\"days\": 2, \"\\\"\": 1, \"\\\"\\\"\": 3}]");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Llama 4: its calls stand where the answer begins, or behind special tokens. */
static const struct {
    const char *answer, *events;
} behind_marks[] = {
    {"<|im_start|><repo_name>{\"name\": \"stop\", \"parameters\": {}}", "C[000000007|stop|{}]"},
    {"<|im_start|>Let me.<repo_name>\n{\"name\": \"stop\", \"parameters\": {}}",
     "T[Let me.]C[000000007|stop|{}]"},
    {"<|im_start|>{\"name\": \"stop\", \"parameters\": {}}{\"name\": \"stop\", \"parameters\": "
     "{}}<repo_name>",
     "C[000000007|stop|{}]C[000000008|stop|{}]"},
    {"{\"name\": \"stop\", \"parameters\": {}}\n{\"name\": \"stop\", \"parameters\": {}}",
     "C[000000007|stop|{}]C[000000008|stop|{}]"},
    {"See {\"name\": \"stop\", \"parameters\": {}}<repo_name>a",
     "T[See {\"name\": \"stop\", \"parameters\": {}}a]"},
};

START_TEST(reads_calls_behind_marks)
{
    struct tool_family f = tool_families[1];
    f.behind[0] = "<|im_start|>", f.behind[1] = "<repo_name>";
    f.flags = 1;
    struct keywriter k;
    struct chat *c = tool_family_open(&f, &k);
    for (size_t one = 0; one <= strlen(behind_marks[_i].answer); one++)
        read_cut(c, behind_marks[_i].answer, one, one, behind_marks[_i].events);
    struct answer_parser *a = open_answer(c, true);
    struct heard h = {0};
    for (const char *p = behind_marks[_i].answer; *p;) {
        const char *stop = strchr(p, '>');
        bool special = *p == '<' && stop;
        size_t n = special ? (size_t)(stop - p) + 1 : 1;
        ck_assert(!(special ? answer_parser_special : answer_parser_push)(a, p, n, NULL));
        take_events(&h, a);
        p += n;
    }
    finish(a, &h, behind_marks[_i].events, "tokens");
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* An answer whose form is constrained: a thought may come first, and behind it marks are text. */
START_TEST(reads_text_alone_behind_a_thought)
{
    static const char *const answers[][2] = {
        {"<think>hm</think>\n\n{\"a\": \"<think>b</think> <tool_call>\"}",
         "H[hm]T[\n\n{\"a\": \"<think>b</think> <tool_call>\"}]"},
        {"{\"a\": \"<think>b</think> <tool_call>\"}",
         "T[{\"a\": \"<think>b</think> <tool_call>\"}]"},
        {"<tool_call>\n{}", "T[<tool_call>\n{}]"},
    };
    struct keywriter k;
    struct chat *c = tool_family_open(&tool_families[0], &k);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        for (size_t one = 0, n = strlen(answers[i][0]); one <= n; one++) {
            struct answer_parser *a = open_params(c, (struct answer_params){.form = TERN_ANSWER_ONLY_TEXT});
            struct heard h = {0};
            ck_assert(!answer_parser_push(a, answers[i][0], one, NULL));
            take_events(&h, a);
            ck_assert(!answer_parser_push(a, answers[i][0] + one, n - one, NULL));
            take_events(&h, a);
            finish(a, &h, answers[i][1], "only text");
        }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* As the engine does it: special tokens are pushed as such, and the text between them in pieces. */
START_TEST(reads_calls_of_tokens)
{
    const struct tool_family *f = &tool_families[_i];
    struct keywriter k;
    struct chat *c = tool_family_open(f, &k);
    for (size_t i = 0; i < 3; i++) {
        struct answer_parser *a = open_answer(c, true);
        struct heard h = {0};
        int32_t *ids;
        size_t n = vocabulary_encode(&rules_vocabulary, f->answers[i], strlen(f->answers[i]),
                                     TERN_PARSE_SPECIAL, &ids);
        struct decoder *d;
        ck_assert(!decoder_open(&d, rules_vocabulary.t, false, NULL));
        for (size_t j = 0; j < n; j++) {
            size_t len;
            const char *text = decoder_push(d, ids[j], &len);
            if (tokenizer_is_special(rules_vocabulary.t, ids[j])) {
                text = tokenizer_text(rules_vocabulary.t, ids[j], &len);
                ck_assert(!answer_parser_special(a, text, len, NULL));
            } else {
                ck_assert(!answer_parser_push(a, text, len, NULL));
            }
            take_events(&h, a);
        }
        finish(a, &h, f->events[i], f->answers[i]);
        decoder_close(d);
        free(ids);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

static struct chat *open_family(const char *name, struct keywriter *k)
{
    size_t i = 0;
    while (strcmp(tool_families[i].name, name) != 0)
        i++;
    return tool_family_open(&tool_families[i], k);
}

/* What a limit leaves of a call: all that a client can use of it, and no marks. */
static const struct {
    const char *family, *answer, *events;
} cut_answers[] = {
    {"qwen", "a <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"B\xC3",
     "T[a]X[000000007|get_weather|{\"city\": \"B]"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arg", "X[000000007|stop|]"},
    {"qwen", "a <tool_call>\n{\"name\": \"st", "T[a]"},
    {"qwen", "<tool_call>\n{\"nom\": \"st", "T[<tool_call>\n{\"nom\": \"st]"},
    {"qwen",
     "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
     "\"stop\"",
     "C[000000007|stop|{}]X[000000008|stop|]"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}", "C[000000007|stop|{}]"},
    {"llama", "{\"name\": \"st", "T[{\"name\": \"st]"},
    {"llama", "{\"name\": \"stop\", \"parameters\": {\"a\": [1", "X[000000007|stop|{\"a\": [1]"},
    {"mistral", "<repo_name>[{\"name\": \"stop\", \"arguments\": {\"a\": 1}, \"id\": \"Ab",
     "X[000000007|stop|{\"a\": 1}]"},
    {"mistral", "<repo_name>[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"AbCdEfGh9\"}, {\"na",
     "C[AbCdEfGh9|stop|{}]"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo\"me\n</par",
     "X[000000007|get_weather|{\"city\": \"Ro\\\"me]"},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</"
     "parameter>\n<parameter=days>\n1",
     "X[000000007|get_weather|{\"city\": \"Rome\"]"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<param", "X[000000007|get_weather|]"},
    {"pythonic", "<repo_name>[get_weather(days=2, city='Ro",
     "X[000000007|get_weather|{\"days\": 2, \"city\": \"Ro]"},
};

START_TEST(tells_what_a_limit_left_of_a_call)
{
    const char *answer = cut_answers[_i].answer;
    struct keywriter k;
    struct chat *c = open_family(cut_answers[_i].family, &k);
    struct answer_parser *a = open_answer(c, false);
    struct heard h = {0};
    ck_assert(!answer_parser_push(a, answer, strlen(answer), NULL));
    take_events(&h, a);
    end(a, &h, true, cut_answers[_i].events, answer);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Behind the first part of an answer its arguments have come so far; NULL: no call has begun. */
static const struct {
    const char *family, *answer, *arguments;
} pieces[] = {
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": ", NULL},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {", "{"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": \"Caf\xC3", "{\"a\": \"Caf"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": 1}", "{\"a\": 1}"},
    {"llama", "{\"name\": \"stop\"", NULL},
    {"llama", "{\"name\": \"stop\", \"parameters\": {\"a\": [1, ", "{\"a\": [1, "},
    {"mistral", "<repo_name>[{\"name\": \"stop\", \"arguments\": {\"a\": 1}, \"id\": \"AbCdEfGh9\"",
     NULL},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>", NULL},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\n", "{\"city\": \""},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo\"me",
     "{\"city\": \"Ro\\\"m"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter",
     "{\"city\": \"Rome"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>",
     "{\"city\": \"Rome\""},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nCaf\xC3\xA9",
     "{\"city\": \"Caf"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=days>\n12", ""},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=days>\n12\n</parameter>",
     "{\"days\": 12"},
    {"pythonic", "<repo_name>[get_weather(city='a, b", "{\"city\": \"a, b"},
    {"pythonic", "<repo_name>[get_weather(city='a', days=[1, 2", "{\"city\": \"a\""},
    {"pythonic", "<repo_name>[get_weather(city='a', days=[1, 2],",
     "{\"city\": \"a\", \"days\": [1, 2]"},
    {"harmony", " to=functions.stop<repo_name>commentary json<|endoftext|>{\"a", "{\"a"},
};

START_TEST(tells_arguments_while_they_come)
{
    struct keywriter k;
    struct chat *c = open_family(pieces[_i].family, &k);
    for (size_t one = 0, n = strlen(pieces[_i].answer); one <= n; one++) {
        struct answer_parser *a = open_answer(c, false);
        struct heard h = {0};
        ck_assert(!answer_parser_push(a, pieces[_i].answer, one, NULL));
        take_events(&h, a);
        ck_assert(!answer_parser_push(a, pieces[_i].answer + one, n - one, NULL));
        take_events(&h, a);
        ck_assert_int_eq(h.in_call, pieces[_i].arguments != NULL);
        ck_assert_str_eq(h.arguments, h.in_call ? pieces[_i].arguments : "");
        answer_parser_close(a);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* Of a call that breaks off what was told stays, whoever cuts the answer; the rest is text. */
static const struct {
    const char *family, *answer, *events;
} broken[] = {
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": 1,}}\n</tool_call>",
     "X[000000007|stop|{\"a\": 1,}]T[}\n</tool_call>]"},
    {"qwen",
     "x <tool_call>\n{\"name\": \"stop\", \"arguments\": {}, \"b\"\n<tool_call>\n{\"name\": "
     "\"stop\", "
     "\"arguments\": {}}\n</tool_call>",
     "T[x]X[000000007|stop|{}]T[, \"b\"]C[000000008|stop|{}]"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": \"b\xC3",
     "X[000000007|stop|{\"a\": \"b]"},
    {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": [1]}",
     "T[<tool_call>\n{\"name\": \"stop\", \"arguments\": [1]}]"},
    {"llama", "{\"name\": \"stop\", \"parameters\": {}, \"x\": 1}",
     "X[000000007|stop|{}]T[, \"x\": 1}]"},
    {"mistral", "<repo_name>[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"AbCdEfGh9\", 1}",
     "T[<repo_name>[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"AbCdEfGh9\", 1}]"},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<paramet=",
     "X[000000007|get_weather|{\"city\": \"Rome\"]T[\n<paramet=]"},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n<parameter=city>\nb\n"
     "</parameter>\n</function>\n</tool_call>",
     "X[000000007|get_weather|{\"city\": \"a\", \"city\": \"b\"}]T[\n</function>\n</tool_call>]"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome",
     "X[000000007|get_weather|{\"city\": \"Rome]"},
    {"qwen-xml",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n12 < \n\n</parameter>\n</function> x",
     "X[000000007|get_weather|{\"city\": \"12 < \\n\"]T[\n</function> x]"},
    {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nRo\xFFme\n</parameter>",
     "X[000000007|get_weather|{\"city\": \"Ro]T[\xFFme\n</parameter>]"},
    {"pythonic", "<repo_name>[stop(a=1 b]", "X[000000007|stop|]"},
};

START_TEST(breaks_off_a_call_that_is_malformed)
{
    struct keywriter k;
    struct chat *c = open_family(broken[_i].family, &k);
    for (size_t one = 0, n = strlen(broken[_i].answer); one <= n; one++)
        for (size_t two = one; two <= n; two++)
            read_cut(c, broken[_i].answer, one, two, broken[_i].events);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

/* No part of a call is a special token: there it breaks off. */
START_TEST(breaks_off_a_call_at_a_special_token)
{
    static const char *const answers[][3] = {
        {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": \"b<|endoftext|>c",
         "X[000000007|stop|{\"a\": \"b]T[c]"},
        {"qwen-xml",
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n<|endoftext|>c\n</"
         "parameter>",
         "X[000000007|get_weather|{\"city\": \"Rome]T[c\n</parameter>]"},
        {"qwen-xml",
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</"
         "parameter>\n<parameter=days>\n1<|endoftext|>\n"
         "</parameter>",
         "X[000000007|get_weather|{\"city\": \"Rome\"]T[</parameter>]"},
        {"qwen-xml",
         "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</"
         "parameter>\n<parameter=<|endoftext|>>\n1\n"
         "</parameter>",
         "X[000000007|get_weather|{\"city\": \"Rome\"]T[>\n1\n</parameter>]"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct keywriter k;
        struct chat *c = open_family(answers[i][0], &k);
        const char *text = answers[i][1], *special = strstr(text, "<|endoftext|>");
        for (size_t step = 1; step < 40; step += 3) {
            struct answer_parser *a = open_answer(c, true);
            struct heard h = {0};
            for (const char *p = text; *p;) {
                size_t left = p < special ? (size_t)(special - p) : strlen(p),
                       n = left < step ? left : step;
                if (p == special)
                    n = strlen("<|endoftext|>"), ck_assert(!answer_parser_special(a, p, n, NULL));
                else
                    ck_assert(!answer_parser_push(a, p, n, NULL));
                take_events(&h, a);
                p += n;
            }
            finish(a, &h, answers[i][2], text);
        }
        chat_close(c);
        keywriter_close(&k);
    }
}
END_TEST

/* Seconds of an answer whose only argument is a text of n bytes, which comes in pieces of three */
static double seconds_of_text(const struct chat *c, const char *begin, size_t n)
{
    struct answer_parser *a = open_answer(c, false);
    struct tern_answer_event x;
    size_t told = 0;
    clock_t from = clock();
    ck_assert(!answer_parser_push(a, begin, strlen(begin), NULL));
    for (size_t i = 0; i < n; i += 3) {
        ck_assert(!answer_parser_push(a, "x\xC3\xBC", 3, NULL));
        while (answer_parser_next(a, &x) != TERN_ANSWER_NONE)
            told += x.bytes;
    }
    double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    ck_assert_uint_ge(told + 8, n);
    answer_parser_close(a);
    return seconds;
}

START_TEST(long_arguments_take_time_in_proportion)
{
    static const char *const begins[][2] = {
        {"qwen", "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"a\": \""},
        {"qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\n"}};
    struct keywriter k;
    struct chat *c = open_family(begins[_i][0], &k);
    double few = seconds_of_text(c, begins[_i][1], 100000),
           many = seconds_of_text(c, begins[_i][1], 800000);
    ck_assert_msg(many < 20 * few + 0.05, "%g and %g s", few, many);
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

SUITE("tools", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(writes_tools_calls_and_results, 0, TOOL_FAMILIES),
      LOOP(reads_calls_however_the_answer_is_cut, 0, TOOL_FAMILIES),
      TEST(refuses_a_second_call_of_a_message), TEST(reads_keys_in_quotes),
      TEST(reads_calls_that_nothing_parts), TEST(reads_text_alone_behind_a_thought),
      LOOP(reads_calls_behind_marks, 0, (int)(sizeof behind_marks / sizeof *behind_marks)),
      LOOP(reads_calls_of_tokens, 0, TOOL_FAMILIES),
      LOOP(tells_arguments_while_they_come, 0, (int)(sizeof pieces / sizeof *pieces)),
      LOOP(breaks_off_a_call_that_is_malformed, 0, (int)(sizeof broken / sizeof *broken)),
      TEST(breaks_off_a_call_at_a_special_token),
      LOOP(long_arguments_take_time_in_proportion, 0, 2),
      LOOP(tells_what_a_limit_left_of_a_call, 0, (int)(sizeof cut_answers / sizeof *cut_answers)))
