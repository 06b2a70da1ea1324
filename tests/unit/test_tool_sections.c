/* Sections of chat templates that know tools: what is refused, and conversations that do not fit.
 * ADDING A MALFORMED SECTION: a row of `cases`. */
#include "suite.h"
#include "tool_families.h"

#include <stdio.h>
#include <stdlib.h>

enum { QWEN, LLAMA, MISTRAL, XML };
#define N "\017n-"
#define A "\017a0"

/* The family's section with one thing changed */
static const struct {
    int family;
    struct rule rule, part; /* with a text: in place of the first */
    const char *form[5];    /* with a trigger: in place of the first */
    uint32_t style;         /* not 0: the first */
    uint64_t flags;
    const char *word;
} cases[] = {
    {.rule = {3, 0, "\016"}, .word = "rule 0 is malformed"},
    {.rule = {3, 0, "\0162"}, .word = "malformed"},
    {.rule = {3, 0, "\0161"}, .word = "malformed"},
    {.rule = {3, 0, "\0165"}, .word = "malformed"},
    {.rule = {3, 0, "\6\0160\0070"}, .word = "malformed"},
    {.rule = {3, 0, "\017T"}, .word = "malformed"},
    {.rule = {3, 0, "\017T9"}, .word = "malformed"},
    {.rule = {3, 0, "\017n-"}, .word = "malformed"},
    {.rule = {3, 2, "\017w0"}, .word = "malformed"},
    {.rule = {3, 0, "\1a\017b\1"}, .word = "malformed"},
    {.rule = {1 << 28 | 3, 0, ""}, .word = "malformed"},
    {.part = {3, 0, "\2"}, .word = "part 0 is malformed"},
    {.part = {3, 0, "\10"}, .word = "malformed"},
    {.part = {3, 0, "\0160"}, .word = "malformed"},
    {.part = {3, 0, "\0162"}, .word = "malformed"},
    {.part = {3, 1, "\0163"}, .word = "malformed"},
    {.part = {3, 2, "\017a0"}, .word = "malformed"},
    {.part = {3, 0, "\017k-"}, .word = "malformed"},
    {.part = {1 << 13 | 3, 0, ""}, .word = "malformed"},
    {.part = {3, 0, "\017d3"}, .word = "malformed"},
    {.form = {"<x>", "", "<y>" N "," A, "", ""}, .word = "form of calls 0 is malformed"},
    {.form = {"<y>" N, "", "<y>" N "," A, "", ""}, .word = "malformed"},
    {.form = {" <y>", "", " <y>" N "," A, "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" A, "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N, "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N "," N "," A, "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N ",\017a-", "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N "," A "\0162", "", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N "," A, "\2", ""}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N "," A, "", A}, .word = "malformed"},
    {.form = {"<y>", "", "<y>" N A, "", ""}, .word = "how to read form 0"},
    {.form = {"<y>", "", "<y>" N "x" A, "", ""}, .word = "how to read form 0"},
    {.form = {"<y>", "", "<y>" N "\0162", "", ""}, .word = "how to read form 0"},
    {.family = XML, .part = {3, 2, "\017k-=\017v-"}, .word = "how to read form 0"},
    {.family = XML, .part = {3, 2, "\017v-=\017k-\n"}, .word = "how to read form 0"},
    {.family = XML, .part = {3 | 4, 2 | 4, "x\017k-\017v-\n"}, .word = "how to read form 0"},
    {.style = 9, .word = "'styles' is out of range"},
    {.style = 17u << 16, .word = "'styles' is out of range"},
    {.flags = 4, .word = "'answer.calls' is out of range"},
};

START_TEST(refuses_malformed_sections)
{
    struct tool_family f = tool_families[cases[_i].family];
    struct tern_error e = {0};
    struct chat *c;
    if (cases[_i].rule.text)
        f.rules[0] = cases[_i].rule;
    if (cases[_i].part.text)
        f.parts[0] = cases[_i].part;
    if (cases[_i].form[0])
        memcpy(f.forms[0], cases[_i].form, sizeof f.forms[0]);
    f.styles[0] = cases[_i].style ? cases[_i].style : f.styles[0];
    f.flags = cases[_i].flags ? cases[_i].flags : f.flags;
    struct keywriter k = tool_family_section(&f);
    ck_assert_int_eq(chat_open(&c, rules_vocabulary.t, k.data, k.bytes, &e), TERN_BAD_FILE);
    ck_assert_msg(!c && strstr(e.text, cases[_i].word), "%s", e.text);
    keywriter_close(&k);
}
END_TEST

/* Each byte of each section in turn is another: it is refused or works. */
START_TEST(survives_any_byte)
{
    struct keywriter k = tool_family_section(&tool_families[_i]);
    for (size_t i = 0; i < k.bytes; i++) {
        struct chat *c;
        char *byte = (char *)k.data + i, was = *byte;
        *byte ^= (char)(1 << i % 8);
        if (!chat_open(&c, rules_vocabulary.t, k.data, k.bytes, NULL)) {
            struct chat_text out = {0};
            (void)chat_render(c, tool_family_talk, FAMILY_TALK, 0, &out, NULL);
            chat_text_close(&out);
            chat_close(c);
        }
        *byte = was;
    }
    keywriter_close(&k);
}
END_TEST

/* What a conversation with tools may not be */
START_TEST(refuses_conversations)
{
    static const struct tern_call good = {"abcdefgh1", "stop", "{}"};
    static const struct {
        struct tern_call call;
        const char *tools, *word;
    } talks[] = {
        {{"abcdefgh1", "stop", "[]"}, "[]", "no JSON object"},
        {{"abcdefgh1", "stop", "{"}, "[]", "arguments"},
        {{"abcdefgh1", "a b", "{}"}, "[]", "letters, digits"},
        {{"abc", "stop", "{}"}, "[]", "9 letters"},
        {{NULL, "stop", "{}"}, "[]", "9 letters"},
        {{"abcdefg\"1", "stop", "{}"}, "[]", "an id"},
        {{"abcdefgh1", NULL, "{}"}, "[]", "no name"},
        {{"abcdefgh1", "stop", "{}"}, "{}", "array of tools"},
        {{"abcdefgh1", "stop", "{}"}, "[1]", "no object"},
        {{"abcdefgh1", "stop", "{}"}, "[{}]", "has no name"},
        {{"abcdefgh1", "stop", "{}"}, "[{\"name\":\"a\"},{\"name\":\"a\"}]", "two functions"},
        {{"abcdefgh1", "stop", "{}"}, "[{\"name\":\"a\",\"name\":\"b\"}]", "tools: byte"}};
    struct keywriter k;
    struct chat *c = tool_family_open(&tool_families[MISTRAL], &k);
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++) {
        const struct tern_chat_message m[] = {
            {.role = "tools", .text = talks[i].tools, .bytes = strlen(talks[i].tools)},
            USER("x"),
            {.role = "assistant", .calls = &talks[i].call, .n_calls = 1}};
        struct chat_text out = {0};
        struct tern_error e = {0};
        ck_assert_int_eq(chat_render(c, m, 3, 0, &out, &e), TERN_USAGE);
        ck_assert_msg(strstr(e.text, talks[i].word), "%s: %s", talks[i].word, e.text);
        chat_text_close(&out);
    }
    const struct tern_chat_message calls = {.role = "assistant", .calls = &good, .n_calls = 1};
    const struct tern_chat_message result = {.role = "tool", .text = "r", .bytes = 1};
    const struct tern_chat_message orders[][4] = {{result},
                                                  {USER("x"), result},
                                                  {USER("x"), calls, USER("y")},
                                                  {USER("x"), ASSISTANT("y"), result},
                                                  {USER("x"), calls, result, result}};
    for (size_t i = 0; i < 5; i++) {
        struct chat_text out = {0};
        size_t n = i == 0 ? 1 : i == 1 ? 2 : i == 4 ? 4 : 3;
        enum tern_status s = chat_render(c, orders[i], n, 0, &out, NULL);
        ck_assert_int_eq(s, TERN_USAGE);
        chat_text_close(&out);
    }
    chat_close(c);
    keywriter_close(&k);
}
END_TEST

SUITE("tool sections", AROUND_ALL(rules_setup, rules_teardown),
      LOOP(refuses_malformed_sections, 0, sizeof cases / sizeof *cases),
      LOOP(survives_any_byte, 0, TOOL_FAMILIES), TEST(refuses_conversations))
