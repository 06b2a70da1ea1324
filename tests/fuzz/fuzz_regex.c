/* Fuzz target: regular expressions. The input is the expression, and also the text that it is walked
 * with. Asserted: an answer or a sentence within the budget, whose bytes all come back; what matches as
 * a whole matches somewhere; states that are near each other go on alike. */
#include "sample/language/regex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct languages *ls, lang a, const uint8_t *p, size_t n)
{
    enum { NEAR = 3 };
    lang near = LANG_FAIL;
    for (size_t i = 0; i < n && a != LANG_FAIL && a != LANG_NONE; i++) {
        if (i % NEAR == 0)
            near = lang_near(ls, a, NEAR);
        a = lang_step(ls, a, p[i]);
        near = lang_step(ls, near, p[i]);
        if (a != LANG_FAIL && near != LANG_FAIL) {
            assert((a == LANG_NONE) == (near == LANG_NONE));
            assert(lang_accepts(ls, a) == lang_accepts(ls, near));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct budget all = {.bytes = (size_t)1 << 20, .steps = 6000};
    struct budget b = all;
    struct tern_error e = {0};
    struct languages *ls = languages_open(&b);
    const char *p = (const char *)data;
    assert(ls);
    lang a = regex_compile(ls, p, size, false, &e);
    assert(a != LANG_FAIL || (e.code && strlen(e.text) > 10));
    lang whole = regex_compile(ls, p, size, true, NULL);
    if (a != LANG_FAIL && whole != LANG_FAIL) {
        assert(lang_subset(ls, whole, a) != LANG_NO);
        assert(lang_subset(ls, a, LANG_CHARS) != LANG_NO);
        lang outside = lang_and(ls, LANG_CHARS, lang_not(ls, a));
        assert(lang_is_live(ls, lang_and(ls, outside, a)) != LANG_YES);
        lang_decide(ls, outside);
        walk(ls, outside, data, size);
        walk(ls, a, data, size);
    }
    languages_close(ls);
    assert(b.bytes == all.bytes);
    return 0;
}
