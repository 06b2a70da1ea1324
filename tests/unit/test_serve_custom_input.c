/* The text of a custom tool, out of arguments that come in pieces. */
#include "app/serve/api/custom_input.h"
#include "suite.h"

#include <string.h>

static const struct {
    const char *arguments, *sure, *whole;
    bool cut;
} cases[] = {
    {"{\"input\": \"a\\\"b\\\\n\\n\\u00fc\\ud83d\\ude00 c\"}",
     "a\"b\\n\n\xC3\xBC\xF0\x9F\x98\x80 c", NULL, false},
    {" {\n\"input\" :\t\"\"}", "", NULL, false},
    {"{\"input\": \"ab\\ud83d\\ude0", "ab", NULL, true},
    {"{\"input\": \"ab\\", "ab", NULL, true},
    {"{\"in", "", NULL, true},
    {"{\"input\": \"a\nb\", \"x\": ", "a", NULL, true},
    {"{\"input\": \"a\\xb\"", "a", NULL, true},
    {"{\"input\": \"ab\", \"x\": 1}", "ab", NULL, false},
    {"{\"x\": 1, \"input\": \"ab\"}", "", "ab", false},
    {"{\"x\": \"input\"}", "", "{\"x\": \"input\"}", false},
    {"{\"input\": [1]}", "", "{\"input\": [1]}", false},
};

/* Cut at `one`: what is sure grows, and the whole text begins with it. */
START_TEST(texts_come_however_they_are_cut)
{
    const char *text = cases[_i].arguments;
    for (size_t one = 0, n = strlen(text); one <= n; one++) {
        struct custom_input c = {0};
        for (size_t k = 0; k <= n; k += k < one ? one : 1)
            custom_input_read(&c, text, k);
        json_t *whole = custom_input_end(&c, text, cases[_i].cut);
        ck_assert_uint_eq(c.text.n, strlen(cases[_i].sure));
        ck_assert_mem_eq(c.text.n ? c.text.p : "", cases[_i].sure, c.text.n);
        ck_assert_str_eq(json_string_value(whole),
                         cases[_i].whole ? cases[_i].whole : cases[_i].sure);
        json_decref(whole);
        custom_input_close(&c);
    }
}
END_TEST

SUITE("the text of a custom tool",
      LOOP(texts_come_however_they_are_cut, 0, (int)(sizeof cases / sizeof *cases)))
