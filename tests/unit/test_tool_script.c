/* Constraints of calls: what answers may be, by choice of tools and family of templates. */
#include "made.h"
#include "sample/constraint/tool_script.h"
#include "suite.h"
#include "tool_families.h"

#include <stdlib.h>

#define TOOLS(parameters)                                                                     \
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":" parameters "}}," \
    "{\"name\":\"stop\"}]"

static const char plain[] =
    TOOLS("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":4},"
          "\"n\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"city\"],\"additionalProperties\":false,"
          "\"$defs\":{\"n\":{\"type\":\"integer\",\"minimum\":3}}}");
static const char typed[] =
    TOOLS("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"string\",\"integer\"]},\"b\":{"
          "\"type\":"
          "\"boolean\"},\"c\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}}}");

enum { QWEN, LLAMA, MISTRAL, XML, PYTHONIC, HARMONY, LLAMA_4 };
#define FILE "\xFF<repo_name>"
#define OPEN "<tool_call>\n{\"name\": \""
#define SHUT "}\n</tool_call>"
#define XGET "<tool_call>\n<function=get>\n"

static const struct {
    int family;
    const char *tools, *choice;
    bool parallel, thinks;
    const char *good[6],
        *bad[6]; /* bad: '~' stands before the byte that is refused; at the end: the text
                                     may not end */
} cases[] = {
    {QWEN,
     plain,
     NULL,
     false,
     false,
     {"", "Hello <tool", "<think>\n<tool_call></think>\n" OPEN "stop\", \"arguments\": {}" SHUT,
      "See: " OPEN "get\", \"arguments\": {\"city\": \"Bonn\", \"n\": 3}" SHUT, "\xFF<repo_name>x"},
     {OPEN "~x", OPEN "get\", \"arguments\": {\"city\": \"Bonn\", \"n\": 2~}", OPEN "stop~p",
      OPEN "stop\", \"arguments\": {}" SHUT "~\n", OPEN "stop\", \"arguments\": {}~",
      OPEN "get\", \"arguments\": {~}"}},
    {QWEN,
     plain,
     "auto",
     true,
     true,
     {"a</think>b", "<tool_call></think>\n" OPEN "stop\", \"arguments\": {}" SHUT "\n" OPEN
                    "stop\", \"arguments\": {}" SHUT},
     {"a~", "</think>" OPEN "stop\", \"arguments\": {}" SHUT "~x"}},
    {QWEN,
     plain,
     "none",
     true,
     false,
     {"Hello", "<think><tool_call></think>x", "<tool_cal"},
     {"x <tool_call~>"}},
    {QWEN,
     plain,
     "required",
     false,
     false,
     {OPEN "stop\", \"arguments\": {}" SHUT,
      "<think>x</think>\n\n" OPEN "stop\", \"arguments\": {}" SHUT},
     {"~", "~a", "<think>~", "<think></think>\n\n~\n", "<think>a\xFF<stop~>"}},
    {QWEN, plain, "stop", false, false, {OPEN "stop\", \"arguments\": {}" SHUT}, {OPEN "~g"}},
    {LLAMA,
     plain,
     "auto",
     true,
     false,
     {"{\"name\": \"stop\", \"parameters\": {}}", "See {\"name\": \"nothing\"}", "{\"nam"},
     {"{\"name\": \"~n", "{\"name\": \"stop\", \"parameters\": {}}~{"}},
    {LLAMA_4,
     plain,
     "auto",
     false,
     false,
     {"\xFF<repo_name>\xFF<|im_start|>{\"name\": \"stop\", \"parameters\": {}}",
      "\xFF<repo_name>I look.\xFF<|im_start|> {\"name\": \"stop\", \"parameters\": {}}",
      "See {\"name\": \"nothing\"}", "a\xFF<|im_start|>b {\"name\": 1"},
     {"{\"name\": \"~n", "\xFF<repo_name>{\"name\": \"~n", "a\xFF<|im_start|>\n{\"name\": \"~n"}},
    {LLAMA_4,
     plain,
     "required",
     false,
     false,
     {"{\"name\": \"stop\", \"parameters\": {}}",
      "\xFF<repo_name>\xFF<|im_start|>{\"name\": \"stop\", \"parameters\": {}}"},
     {"~x", "\xFF<repo_name>~x"}},
    {MISTRAL,
     plain,
     "auto",
     true,
     false,
     {"x", FILE "[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"abcDEF123\"}]",
      FILE "[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"abcDEF123\"}, {\"name\": \"stop\", "
           "\"arguments\": {}, \"id\": \"abcDEF124\"}]"},
     {FILE "[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"abcDEF12~\"", FILE "~x",
      FILE "[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"abcDEF123\"}~"}},
    {XML,
     plain,
     "required",
     true,
     false,
     {XGET "<parameter=city>\n<b>\n\n</parameter>\n<parameter=n>\n17\n</parameter>\n</function>\n</"
           "tool_call>",
      XGET "<parameter=city>\n12\n</parameter>\n</function>\n</"
           "tool_call>\n<tool_call>\n<function=stop>\n"
           "</function>\n</tool_call>"},
     {XGET "<~/", XGET "<parameter=~n", XGET "<parameter=city>\nabcd~e",
      XGET "<parameter=city>\n12\n</parameter>\n<parameter=n>\n2~\n",
      XGET "<parameter=city>\n12\n</parameter>\n<parameter=~city"}},
    {XML,
     typed,
     "required",
     false,
     false,
     {XGET "</function>\n</tool_call>",
      XGET "<parameter=a>\nfree text\n</parameter>\n</function>\n</tool_call>",
      XGET "<parameter=a>\n-12\n</parameter>\n<parameter=c>\n[1, "
           "2]\n</parameter>\n</function>\n</tool_call>",
      XGET "<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>"},
     {XGET "<parameter=a>\n1~.5", XGET "<parameter=b>\n~x", XGET "<parameter=c>\n[1, ~x",
      XGET "<parameter=c>\n[]\n</parameter>\n<~parameter"}},
    {PYTHONIC,
     typed,
     "required",
     true,
     false,
     {FILE "[get(a='x, y', b=True, c=[1])]\xFF<|endoftext|>",
      FILE "[get(), stop()]\xFF<|endoftext|>", FILE "[get(a=5, b=False)]\xFF<|endoftext|>"},
     {FILE "[get(b=~t", FILE "[get(c=[1]~,", FILE "[get()]~"}},
    {HARMONY,
     plain,
     "auto",
     false,
     false,
     {"Hi", FILE "analysis\xFF<|endoftext|>x\xFF<|im_end|>\xFF<|im_start|>assistant" FILE
                 "commentary to=functions.stop <constrain>json\xFF<|endoftext|>{}<call>"},
     {FILE "commentary to=~x", FILE "commentary to=functions.~n"}},
};

static void try_text(struct reader *k, const char *text, bool good)
{
    char bytes[512];
    const char *mark = strrchr(text, '~');
    size_t n = strlen(text), want = good ? n + 1 : (size_t)(mark - text);
    memcpy(bytes, text, n + 1);
    if (!good)
        memmove(bytes + want, bytes + want + 1, n - want), n--;
    size_t got = reader_read(k, bytes, n);
    ck_assert_msg(got == want, "case %s: stopped at %zu of %zu, want %zu", text, got, n, want);
}

/* One end token */
static unsigned char stop_text[] = "\xFF<stop>";
static uint32_t stop_start[] = {0, sizeof stop_text - 1};
static const tern_token stop_token = 0;
static const struct spelling spelling = {
    .ends = &stop_token, .n_ends = 1, .n_tokens = 1, .start = stop_start, .text = stop_text};

START_TEST(answers_with_calls)
{
    struct budget budget = {.bytes = 256 << 20, .steps = 1000 * 1000 * 1000};
    struct keywriter keys;
    bool marks = cases[_i].family == LLAMA_4;
    struct tool_family family = tool_families[marks ? LLAMA : cases[_i].family];
    if (marks)
        family.behind[0] = "<repo_name>", family.behind[1] = "<|im_start|>";
    struct chat *c = tool_family_open(&family, &keys);
    const struct tool_script_params p = {.tools = cases[_i].tools,
                                         .n = strlen(cases[_i].tools),
                                         .choice = cases[_i].choice,
                                         .parallel = cases[_i].parallel,
                                         .thinks = cases[_i].thinks,
                                         .spelling = &spelling};
    struct shapes shapes;
    struct script script;
    struct recognizer r;
    struct reader k;
    struct tern_error e = {0};
    ck_assert_msg(!tool_script_open(&shapes, &script, c, &p, &budget, NULL, &e), "%s", e.text);
    ck_assert_msg(!json_recognizer_open(&r, &shapes, &script, 0, &budget, &e), "%s", e.text);
    reader_open(&k, r);
    for (size_t i = 0; i < 6 && cases[_i].good[i]; i++)
        try_text(&k, cases[_i].good[i], true);
    for (size_t i = 0; i < 6 && cases[_i].bad[i]; i++)
        try_text(&k, cases[_i].bad[i], false);
    reader_close(&k);
    ck_assert_uint_eq(budget.bytes, 256 << 20);
    chat_close(c);
    keywriter_close(&keys);
}
END_TEST

/* Whatever else the list holds and whichever is chosen. */
static const struct {
    const char *tools, *error;
} uncallable[] = {
    {"[{\"name\":\"f\",\"parameters\":{\"type\":\"array\"}},{\"name\":\"g\"}]",
     "tool f: it can never be called, for no object fits its parameters"},
    {"[{\"name\":\"g\"},{\"name\":\"f\",\"parameters\":false},{\"name\":\"h\"}]",
     "tool f: it can never be called, for no object fits its parameters"},
    {"[{\"name\":\"g\"},{\"name\":\"f\",\"parameters\":{\"required\":[\"a\"],\"properties\":{"
     "\"a\":false}}}]",
     "tool f: it can never be called, for no object fits its parameters"},
    {"[{\"name\":\"f\",\"parameters\":[]},{\"name\":\"g\"}]",
     "tool f: its parameters are no JSON schema, which is an object"},
    {"[{\"name\":\"g\"},{\"name\":\"f\",\"parameters\":\"x\"}]",
     "tool f: its parameters are no JSON schema, which is an object"},
};

START_TEST(names_a_tool_that_cannot_be_called)
{
    static const char *const choices[] = {NULL, "required", "g"};
    struct keywriter keys;
    struct chat *c = tool_family_open(&tool_families[QWEN], &keys);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct budget budget = {.bytes = 256 << 20, .steps = 1000 * 1000 * 1000};
        const struct tool_script_params p = {.tools = uncallable[_i].tools,
                                             .n = strlen(uncallable[_i].tools),
                                             .choice = choices[i],
                                             .spelling = &spelling};
        struct shapes shapes;
        struct script script;
        struct tern_error e = {0};
        ck_assert_int_eq(tool_script_open(&shapes, &script, c, &p, &budget, NULL, &e), TERN_USAGE);
        ck_assert_str_eq(e.text, uncallable[_i].error);
        ck_assert_uint_eq(budget.bytes, 256 << 20);
    }
    chat_close(c);
    keywriter_close(&keys);
}
END_TEST

SUITE("constraints of calls", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(answers_with_calls, 0, sizeof cases / sizeof *cases),
      LOOP(names_a_tool_that_cannot_be_called, 0, sizeof uncallable / sizeof *uncallable))
