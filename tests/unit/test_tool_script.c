/* Constraints of calls: what answers may be, by choice of tools and family of templates. */
#include "made.h"
#include "sample/constraint/tool_script.h"
#include "suite.h"
#include "text/answer_values.h"
#include "text/tojson.h"
#include "tool_families.h"

#include <stdio.h>
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

static const char boxes[] =
    TOOLS("{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"t\":{"
          "\"type\":"
          "\"string\"},\"n\":{\"type\":[\"integer\",\"null\"]}},\"required\":[\"t\"],"
          "\"additionalProperties\":"
          "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",true,\"b\"]},\"uniqueItems\":true}}},"
          "\"required\":[\"o\"],\"additionalProperties\":false}");
/* Keys that Gemma's notation cannot write, and that need not come */
static const char unwritten[] = TOOLS(
    "{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{\"t\":{"
    "\"type\":"
    "\"boolean\"},\"x y\":{},\"a,b\":{},\"a:b\":{},\"q\\\"\":{},\"<\":{},\"\":{}},"
    "\"patternProperties\":{\"^a b$\":{}},\"required\":[\"t\"],\"additionalProperties\":false},"
    "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"},\"minProperties\":"
    "1},"
    "\"e\":{\"enum\":[{\"a b\":1},{\"a\":1}]},"
    "\"n\":{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x y\",\"z\"]},\"minProperties\":1},"
    "\"u\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"properties\":{\"a b\":{}},"
    "\"propertyNames\":{\"enum\":[\"a b\",\"c\"]},\"additionalProperties\":{\"const\":null},"
    "\"type\":\"object\"}},"
    "\"r\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"a b\"]}},"
    "\"w\":{\"type\":\"object\",\"required\":[\"a b\"]}},\"additionalProperties\":false}");
/* Texts that look like other values, of which the schema knows that they are texts */
static const char said[] = TOOLS(
    "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":\"true\"},\"b\":{\"anyOf\":[{\"const\":"
    "\"12\"},{"
    "\"const\":\"13\"}]},\"c\":{\"allOf\":[{\"type\":\"string\"},{\"enum\":[\"[y]\"]}]},\"d\":{\"$"
    "ref\":"
    "\"#/$defs/x\"},\"e\":{\"enum\":[\"1\",null]}},\"required\":[\"a\",\"b\",\"c\",\"d\",\"e\"],"
    "\"additionalProperties\":false,\"$defs\":{\"x\":{\"type\":\"string\",\"enum\":[\"12\"]}}}");
static const char one[] =
    "{\"$ref\": \"#/$defs/o\", \"$defs\": {\"o\": {\"type\":\"object\",\"properties\":{"
    "\"a\":{\"enum\":[1,\"<tool_call>\"]}},\"required\":[\"a\"],"
    "\"additionalProperties\":false}}}";

enum { QWEN, LLAMA, MISTRAL, XML, PYTHONIC, HARMONY, LLAMA_4, GEMMA };
#define FILE "\xFF<repo_name>"
#define MARK "\xFF<|\"|>"
#define OPEN "<tool_call>\n{\"name\": \""
#define SHUT "}\n</tool_call>"
#define XGET "<tool_call>\n<function=get>\n"

struct answer_case {
    int family;
    const char *tools, *choice;
    bool parallel, thinks;
    const char *good[6],
        *bad[6]; /* bad: '~' stands before the byte that is refused; at the end: the text
                                     may not end */
};

static const struct answer_case cases[] = {
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
    {XML,
     said,
     "required",
     false,
     false,
     {XGET "<parameter=a>\ntrue\n</parameter>\n<parameter=b>\n13\n</parameter>\n<parameter=c>\n[y]"
           "\n</parameter>\n<parameter=d>\n12\n</parameter>\n<parameter=e>\nNone\n</parameter>\n"
           "</function>\n</tool_call>"},
     {XGET "<parameter=a>\n~\"", XGET "<parameter=a>\ntrue\n</parameter>\n<parameter=b>\n1~\n"}},
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
    {GEMMA,
     boxes,
     "required",
     false,
     false,
     {FILE "[get(o={t:" MARK MARK "})]\xFF<|endoftext|>",
      FILE "[get(o={t:" MARK "a\"\\,}\n" MARK ",n:-12})]\xFF<|endoftext|>",
      FILE "[get(o={t:" MARK "x" MARK ",n:null,any-key:[" MARK "b" MARK
           ",true],k:[]})]\xFF<|endoftext|>",
      FILE "[stop()]\xFF<|endoftext|>"},
     {FILE "[get(~)", FILE "[get(o={~}", FILE "[get(o=~" MARK, FILE "[get(o={~\"",
      FILE "[get(o={t:~ ", FILE "[get(o={t:" MARK MARK ",k:[true,~t"}},
    {GEMMA,
     boxes,
     "required",
     false,
     false,
     {NULL},
     {FILE "[get(o={t:" MARK MARK ",a~ b",
      FILE "[get(o={t:" MARK MARK ",k:[" MARK "a" MARK "," MARK "~a",
      FILE "[get(o={t:" MARK "\xFF~x", FILE "[get(o={t:" MARK MARK "~ ",
      FILE "[get(o={t:" MARK MARK ",t~:", FILE "[get(o={t:" MARK MARK ",n:1~."}},
    {GEMMA,
     unwritten,
     "required",
     false,
     false,
     {FILE "[get(o={t:true}, m={k:true}, e={a:1}, n={z:[{y:null}]})]\xFF<|endoftext|>",
      FILE "[get(u=[{},{c:null}], r=[])]\xFF<|endoftext|>"},
     {FILE "[get(o={t:true~,", FILE "[get(m={~}", FILE "[get(e={a~ ", FILE "[get(n={~x",
      FILE "[get(n={z:[{y~ ", FILE "[get(n={z:null~,"}},
    {GEMMA,
     unwritten,
     "required",
     false,
     false,
     {NULL},
     {FILE "[get(u=[{},{c:null}~,", FILE "[get(r=[~{", FILE "[get(~w="}},
};

/* Beside the schema `one` */
static const struct answer_case beside[] = {
    {QWEN,
     plain,
     "auto",
     true,
     false,
     {"\n{\"a\": 1}", "{\"a\":\"<tool_call>\"}", "<think>\n<tool_call></think>{\"a\": 1}",
      "\n\n" OPEN "stop\", \"arguments\": {}" SHUT "\n" OPEN "stop\", \"arguments\": {}" SHUT,
      "<think></think>" OPEN "stop\", \"arguments\": {}" SHUT},
     {"~", "~x", "{\"a\": 1}~\n", "{\"a\": ~2", OPEN "~x",
      OPEN "stop\", \"arguments\": {}" SHUT "~{"}},
    {QWEN, plain, "none", true, true, {"x</think>{\"a\": 1}"}, {"</think>~<", "</think>{~}"}},
    {MISTRAL,
     plain,
     NULL,
     false,
     false,
     {"{\"a\": 1}", FILE "[{\"name\": \"stop\", \"arguments\": {}, \"id\": \"abcDEF123\"}]"},
     {"{~\xFF", "~x", FILE "~{"}},
    {XML,
     plain,
     "auto",
     true,
     false,
     {"{\"a\": 1}", "<tool_call>\n<function=stop>\n</function>\n</tool_call>"},
     {"<tool_call>\n<function=~x", "{\"a\": 1}~<"}},
    {PYTHONIC,
     typed,
     "auto",
     true,
     false,
     {"{\"a\": 1}", FILE "[stop()]\xFF<|endoftext|>"},
     {"~x"}},
    {HARMONY,
     plain,
     "auto",
     false,
     false,
     {"{\"a\": 1}", FILE "commentary to=functions.stop <constrain>json\xFF<|endoftext|>{}<call>"},
     {"~x", FILE "commentary to=functions.~n"}},
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

static struct tool_family family_of(int of)
{
    struct tool_family f = tool_families[of == LLAMA_4 ? LLAMA : of == GEMMA ? PYTHONIC : of];
    if (of == LLAMA_4)
        f.behind[0] = "<repo_name>", f.behind[1] = "<|im_start|>";
    if (of == GEMMA) {
        f.styles[1] = TOJSON_GEMMA;
        f.parts[2].text = "\017k-=\017v1", f.parts[3].text = "\017k-=\017v1, ";
    }
    return f;
}

static void check_case(const struct answer_case *x, const char *schema)
{
    struct budget budget = {.bytes = 256 << 20, .steps = 1000 * 1000 * 1000};
    struct keywriter keys;
    struct tool_family family = family_of(x->family);
    struct chat *c = tool_family_open(&family, &keys);
    const struct tool_script_params p = {.tools = x->tools,
                                         .n = strlen(x->tools),
                                         .choice = x->choice,
                                         .parallel = x->parallel,
                                         .thinks = x->thinks,
                                         .schema = schema,
                                         .n_schema = schema ? strlen(schema) : 0,
                                         .spelling = &spelling};
    struct shapes shapes;
    struct script script;
    struct recognizer r;
    struct reader k;
    struct tern_error e = {0};
    ck_assert_msg(!tool_script_open(&shapes, &script, c, &p, &budget, NULL, &e), "%s", e.text);
    ck_assert_msg(!json_recognizer_open(&r, &shapes, &script, 0, &budget, &e), "%s", e.text);
    reader_open(&k, r);
    for (size_t i = 0; i < 6 && x->good[i]; i++)
        try_text(&k, x->good[i], true);
    for (size_t i = 0; i < 6 && x->bad[i]; i++)
        try_text(&k, x->bad[i], false);
    reader_close(&k);
    ck_assert_uint_eq(budget.bytes, 256 << 20);
    chat_close(c);
    keywriter_close(&keys);
}

START_TEST(answers_with_calls)
{
    check_case(&cases[_i], NULL);
}
END_TEST

START_TEST(calls_or_a_schema)
{
    check_case(&beside[_i], one);
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

/* Schemas that cannot stand beside tools, and arguments that cannot be written. */
static const struct {
    int family;
    const char *tools, *schema, *error;
} refused[] = {
    {LLAMA, plain, one,
     "the calls of this model's template begin as JSON does: a schema cannot be enforced beside "
     "them"},
    {QWEN, plain, "{\"a\": 1, \"enum\": []}", "schema: nothing satisfies it"},
    {QWEN, plain, "{\"properties\": {\"b\": {\"$ref\": \"x\"}}}",
     "schema: $ref at #/properties/b: the document"},
    {QWEN, plain, "{\"properties\": {\"b\": {\"pattern\": \"\\\\ba\"}}}",
     "schema: pattern at #/properties/b: "},
    {GEMMA,
     TOOLS("{\"properties\":{\"o\":{\"type\":\"array\",\"minItems\":1,\"items\":{"
           "\"type\":\"object\",\"required\":[\"a b\"]}}},\"required\":[\"o\"]}"),
     NULL, "tool get, argument o: keys in it cannot be enforced in the notation of this template"},
    {XML, TOOLS("{\"properties\":{\"a\":{\"const\":\"</parameter>\"}},\"required\":[\"a\"]}"), NULL,
     "tool get, argument a: no text that it may be can be written in the notation of this "
     "template"},
    {XML,
     TOOLS("{\"properties\":{\"a\":{\"not\":{\"not\":{\"const\":\"12\"}}}},\"required\":[\"a\"]}"),
     NULL,
     "tool get, argument a: no text that it may be can be written in the notation of this "
     "template"},
    {GEMMA,
     TOOLS("{\"properties\":{\"o\":{\"type\":\"object\",\"patternProperties\":{\"^a b$\":{}},"
           "\"additionalProperties\":false,\"minProperties\":1}},\"required\":[\"o\"]}"),
     NULL, "tool get, argument o: keys in it cannot be enforced in the notation of this template"},
};

START_TEST(refuses_what_cannot_be_enforced)
{
    struct keywriter keys;
    struct tool_family family = family_of(refused[_i].family);
    struct chat *c = tool_family_open(&family, &keys);
    for (unsigned flags = 0; flags <= SCHEMA_LAX; flags += SCHEMA_LAX) {
        struct budget budget = {.bytes = 256 << 20, .steps = 1000 * 1000 * 1000};
        const struct tool_script_params p = {
            .tools = refused[_i].tools,
            .n = strlen(refused[_i].tools),
            .schema = refused[_i].schema,
            .n_schema = refused[_i].schema ? strlen(refused[_i].schema) : 0,
            .schema_flags = flags,
            .spelling = &spelling};
        struct shapes shapes;
        struct script script;
        struct schema_notes notes = {0};
        struct tern_error e = {0};
        ck_assert_int_eq(tool_script_open(&shapes, &script, c, &p, &budget, &notes, &e),
                         TERN_USAGE);
        ck_assert_msg(!strncmp(e.text, refused[_i].error, strlen(refused[_i].error)), "%s", e.text);
        ck_assert_uint_eq(budget.bytes, 256 << 20);
        free(notes.text);
    }
    chat_close(c);
    keywriter_close(&keys);
}
END_TEST

static const struct {
    const char *schema;
    enum answer_type type;
} kinds[] = {
    {"{\"const\":\"1\"}", ANSWER_IS_TEXT},
    {"{\"const\":1}", ANSWER_NO_TEXT},
    {"{\"enum\":[\"1\",2]}", ANSWER_ANY_TYPE},
    {"{\"enum\":[]}", ANSWER_ANY_TYPE},
    {"{\"type\":[\"string\",\"null\"],\"enum\":[\"1\"]}", ANSWER_IS_TEXT},
    {"{\"type\":[\"null\",\"array\"]}", ANSWER_NO_TEXT},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"const\":\"2\"}]}", ANSWER_IS_TEXT},
    {"{\"oneOf\":[{\"type\":\"string\"},{}]}", ANSWER_ANY_TYPE},
    {"{\"allOf\":[{},{\"type\":\"string\"}]}", ANSWER_IS_TEXT},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", ANSWER_NO_TEXT},
    {"{\"$ref\":\"#/$defs/s\"}", ANSWER_IS_TEXT},
    {"{\"$ref\":\"#/$defs/r\"}", ANSWER_ANY_TYPE},
    {"{\"$ref\":\"#/$defs\"}", ANSWER_ANY_TYPE},
    {"{\"$ref\":\"#/$defs/m\"}", ANSWER_ANY_TYPE},
    {"{\"$ref\":\"#s\"}", ANSWER_ANY_TYPE},
    {"{\"$ref\":1}", ANSWER_ANY_TYPE},
    {"{\"allOf\":1,\"type\":2,\"enum\":3}", ANSWER_ANY_TYPE},
    {"true", ANSWER_ANY_TYPE},
};

START_TEST(kinds_of_arguments)
{
    char text[512];
    struct tools tools;
    struct tern_error e = {0};
    int n = snprintf(text, sizeof text,
                     "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":%s},\"$defs\":{"
                     "\"s\":{\"type\":\"string\"},\"r\":{\"$ref\":\"#/$defs/r\"},"
                     "\"m\":{\"allOf\":[{\"$ref\":\"#/$defs/m\"},{\"$ref\":\"#/$defs/m\"}]}}}}]",
                     kinds[_i].schema);
    ck_assert_msg(!tools_open(&tools, text, (size_t)n, &e), "%s", e.text);
    ck_assert_int_eq(answer_type_of(&tools, "f", (struct mark){"a", 1}), kinds[_i].type);
    tools_close(&tools);
}
END_TEST

SUITE("constraints of calls", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(answers_with_calls, 0, sizeof cases / sizeof *cases),
      LOOP(calls_or_a_schema, 0, sizeof beside / sizeof *beside),
      LOOP(kinds_of_arguments, 0, sizeof kinds / sizeof *kinds),
      LOOP(refuses_what_cannot_be_enforced, 0, sizeof refused / sizeof *refused),
      LOOP(names_a_tool_that_cannot_be_called, 0, sizeof uncallable / sizeof *uncallable))
