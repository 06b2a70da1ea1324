/* Regular expressions: what they match, what is refused and where, and that a bomb ends within its
 * budget. tests/cli/test_regex.py compares thousands with another engine. */
#include "sample/language/regex.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static struct budget purse(void)
{
    return (struct budget){.bytes = (size_t)4 << 20, .steps = 3000000};
}

static bool matches(struct languages *ls, lang a, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a = lang_step(ls, a, (unsigned char)p[i]);
    ck_assert(a != LANG_FAIL);
    return lang_accepts(ls, a);
}

/* yes, no: texts that it matches in and does not, separated by '|', or none. */
static const struct {
    const char *pattern, *yes, *no;
} known[] = {
    {"", "|a|\xC3\xA9", "\xFF|\xC0\x80|\xED\xA0\x80"},
    {"a", "a|ba|ab", "|b|A"},
    {"^a", "a|ab", "|ba|\na"},
    {"a$", "a|ba", "|ab|a\n"},
    {"^(a|b)*$", "|a|abba", "c|ac"},
    {"^a|b$", "a|ac|b|cb", "|ca|bc"},
    {"(^a|b)c", "ac|bc|xbc", "xac|c"},
    {"(^|x)a($|y)", "a|xa|ay|zxay|zxa", "ba|xb|ab"},
    {"a^", NULL, "|a|aa|b"},
    {"^^a$$", "a", "aa|"},
    {"(a|^)*b$", "b|ab|aab|xab|xb", "|ba"},
    {"^(?:a$|b)*$", "|a|b|ba|bb", "ab|aa"},
    {"$^", "", "a"},
    {"(^|a){2}b", "b|ab|aab|xaab", "a||xb|xab"},
    {"^x(a|^){2}b|y(^|a){2}b", "xaab|yaab", "xab|xb|yb|yab"},
    {"a(b|$){3}", "a|ab|abb|abbbc", "abc|abbc"},
    {"^[0\\D]$", "0|x", "1"},
    {"^[^a-c]{2}$", "xy|\xC3\xA9z", "a|ax|x|xyz|\xC3\xA9"},
    {"^.$", "a|\xF0\x9F\x98\x80|\t", "\n|\r||ab|\xE2\x80\xA8"},
    {"^\\d+$", "0|0123456789", "|a|\xD9\xA0"},
    {"^\\w$", "_|A|z|5", "-|\xC3\xA9"},
    {"^\\W$", "-|\xC3\xA9", "_|a"},
    {"^\\s$", " |\t|\xC2\xA0|\xEF\xBB\xBF|\xE3\x80\x80|\xE1\x9A\x80", "a|\xE2\x80\x8B"},
    {"^[\\w.-]+$", "a.b-c", "a b"},
    {"^[a-\\w]$", "a|-|z", "b-"},
    {"^[]$", NULL, "a|"},
    {"^[^]$", "a|\n|\xC3\xA9", "|ab"},
    {"^[\\b]$", "\b", "b"},
    {"^[\\]\\\\^-]$", "]|\\|^|-", "a"},
    {"^\\x41\\u0042\\u{43}\\cj\\0$", NULL, "ABC\n"},
    {"^\\ud83d\\ude00$", "\xF0\x9F\x98\x80", ""},
    {"^[\\u{1F600}-\\u{1F64F}]$", "\xF0\x9F\x98\x80|\xF0\x9F\x99\x8F", "\xF0\x9F\x99\x90"},
    {"^\\ud83d$", NULL, "\xED\xA0\xBD|?"},
    {"^\\p{Letter}cole$",
     "\xC3\x89"
     "cole|ecole",
     "1cole"},
    {"^\\p{Lu}\\P{Lu}$", "Aa|A1", "AA|aA"},
    {"^\\p{gc=Nd}+$", "09|\xD9\xA0", "a|\xC2\xB2"},
    {"^\\p{digit}\\p{N}$", "0\xC2\xB2", "\xC2\xB2\xC2\xB2"},
    {"^[^\\p{L}\\p{ASCII}]$", "\xE2\x82\xAC", "a|$|\xC3\xA9"},
    {"^\\p{Sc}[\\p{Any}]$", "$x|\xE2\x82\xACy", "x$"},
    {"^a{2}$", "aa", "a|aaa"},
    {"^a{2,}?$", "aa|aaaa", "a"},
    {"^(ab){1,2}$", "ab|abab", "|ababab"},
    {"^(a{2}){2,3}$", "aaaa|aaaaaa", "aaa|aaaaa|aaaaaaaa"},
    {"^(a{2,3}){2}$", "aaaa|aaaaa|aaaaaa", "aaa|aaaaaaa"},
    {"^(a{3}){0,1}b$", "b|aaab", "aab|aaaab"},
    {"^(a*){3}$", "|a|aaaaa", "b"},
    {"^(a|ab)(c|bcd)$", "ac|abc|abcd|abbcd", "abcdd"},
    {"^{.*}$", "{}|{a}", "{|}"},
    {"^a{,2}x{$", "a{,2}x{", "aax{"},
    {"^(?<year>\\d{4})-(?:0[1-9]|1[0-2])$", "2026-11|1999-01", "2026-13|2026-00"},
    {"^(?!a)[ab]+$", "b|ba", "a|ab"},
    {"^(?!.*--)(?=.{3,5}$)[a-z-]+$", "abc|a-b-c", "a--b|ab|abcdef"},
    {"^(?!(foo|bar)$).*$", "foox|xfoo|fo", "foo|bar"},
    {"^\\/\\-\\_\\ \\\"\\@$", "/-_ \"@", "/"},
    {"^(()|a)+$", "|a|aa", "b"},
    {"^.{1000000000}", NULL, "aaa"},
};

START_TEST(matches_what_it_should)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    struct tern_error e = {0};
    const char *pattern = known[_i].pattern;
    lang a = regex_compile(ls, pattern, strlen(pattern), false, &e);
    ck_assert_msg(a != LANG_FAIL, "%s: %s", pattern, e.text);
    ck_assert(lang_is_live(ls, a) != LANG_UNKNOWN);
    for (int yes = 0; yes < 2; yes++)
        for (const char *list = yes ? known[_i].yes : known[_i].no; list;) {
            size_t n = strcspn(list, "|");
            ck_assert_msg(matches(ls, a, list, n) == yes, "%s: '%.*s'", pattern, (int)n, list);
            list = list[n] ? list + n + 1 : NULL;
        }
    languages_close(ls);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

START_TEST(whole_is_the_whole_text)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    lang a = regex_compile(ls, "a|bc|^d|e$|(?:)", 15, true, NULL);
    static const char *const yes[] = {"a", "bc", "d", "e", ""}, *const no[] = {"ab", "xa", "dd"};
    for (size_t i = 0; i < 5; i++)
        ck_assert(matches(ls, a, yes[i], strlen(yes[i])));
    for (size_t i = 0; i < 3; i++)
        ck_assert(!matches(ls, a, no[i], strlen(no[i])));
    a = regex_compile(ls, "(?!ab)[ab]*", 11, true, NULL);
    ck_assert(matches(ls, a, "aa", 2) && !matches(ls, a, "abb", 3) && matches(ls, a, "", 0));
    a = regex_compile(ls, "a\0b", 3, true, NULL);
    ck_assert(matches(ls, a, "a\0b", 3));
    languages_close(ls);
}
END_TEST

#define AT(byte, why) "regular expression: byte " #byte ": " why
static const struct {
    const char *pattern, *why;
} refused[] = {
    {"a(b", AT(1, "'(' without ')'")},
    {"a)b", AT(1, "')' without '('")},
    {"a[b", AT(1, "'[' without ']'")},
    {"*", AT(0, "nothing to repeat")},
    {"a**", AT(2, "nothing to repeat")},
    {"a{2}{3}", AT(4, "nothing to repeat")},
    {"a++", AT(2, "nothing to repeat")},
    {"^*", AT(1, "nothing to repeat")},
    {"a|?", AT(2, "nothing to repeat")},
    {"(+)", AT(1, "nothing to repeat")},
    {"a{2,1}", AT(1, "the bounds of the repeat are out of order")},
    {"[z-a]", AT(1, "the range of characters ends before it begins")},
    {"(a)\\1", AT(3, "references to groups are not regular")},
    {"(?<a>b)\\k<a>", AT(7, "references to groups are not regular")},
    {"a\\b", AT(1, "word boundaries (\\b, \\B) are not supported")},
    {"\\Ba", AT(0, "word boundaries (\\b, \\B) are not supported")},
    {"a(?=b)", AT(1, "look-ahead is supported only behind the first '^'")},
    {"(?!b)a", AT(0, "look-ahead is supported only behind the first '^'")},
    {"^(?!a)b|c", AT(0, "look-ahead beside '|' is not supported")},
    {"^(?!a)*b", AT(6, "nothing to repeat")},
    {"(?<=a)b", AT(0, "look-behind is not supported")},
    {"(?<!a)b", AT(0, "look-behind is not supported")},
    {"(?i)a", AT(0, "unknown kind of group")},
    {"(?P<a>b)", AT(0, "unknown kind of group")},
    {"(?<a", AT(0, "the name of the group does not end")},
    {"(?<>a)", AT(0, "the name of the group does not end")},
    {"(?", AT(0, "unknown kind of group")},
    {"\\", AT(0, "nothing behind the backslash")},
    {"\\Z", AT(0, "unknown escape")},
    {"\\a", AT(0, "unknown escape")},
    {"\\c1", AT(0, "unknown escape")},
    {"\\01", AT(0, "references to groups are not regular")},
    {"\\x4", AT(1, "\\x needs two hexadecimal digits")},
    {"\\u12", AT(2, "\\u needs four hexadecimal digits")},
    {"\\u{110000}", AT(2, "\\u{...} needs a code point in hexadecimal digits")},
    {"\\u{}", AT(2, "\\u{...} needs a code point in hexadecimal digits")},
    {"\\pL", AT(2, "\\p needs a property between braces")},
    {"\\p{Klingon}", AT(3, "this property of characters is not supported")},
    {"\\p{Lu ", AT(2, "\\p needs a property between braces")},
    {"\\p{Lu \n}", AT(3, "this property of characters is not supported")},
    {"\\p{}", AT(3, "this property of characters is not supported")},
    {"\\p{Script=Greek}", AT(3, "this property of characters is not supported")},
    {"a\xC3", AT(1, "not UTF-8")},
};

START_TEST(refuses_by_name_and_place)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    struct tern_error e = {0};
    const char *pattern = refused[_i].pattern;
    ck_assert(regex_compile(ls, pattern, strlen(pattern), false, &e) == LANG_FAIL);
    ck_assert_str_eq(e.text, refused[_i].why);
    ck_assert_int_eq(e.code, TERN_USAGE);
    languages_close(ls);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

/* open n times, mid, close n times. An answer, or one sentence; then all memory is back. */
static const struct {
    const char *open, *mid, *close;
    size_t n;
    enum tern_status status;
} bombs[] = {
    {"(", "", "", 60000, TERN_USAGE},
    {"(", "a", ")", 60000, TERN_OK},
    {"(a", "", ")*", 60000, TERN_OK},
    {"(a", "", ")?", 60000, TERN_LIMIT},
    {"(?:a|", "b", ")", 60000, TERN_OK},
    {"(", "", "a)", 60000, TERN_LIMIT},
    {"[", "", "", 1000000, TERN_USAGE},
    {"[", "]", "", 1000000, TERN_OK},
    {"[ab]", "", "", 100000, TERN_LIMIT},
    {"a?b?", "", "", 60000, TERN_LIMIT},
    {"(^|a|b$)", "", "", 60000, TERN_LIMIT},
    {"(^a|b$|c", "", ")*", 1000, TERN_OK},
    {"a|", "", "", 60000, TERN_OK},
    {"\\p{L}\\P{Lu}", "", "", 60000, TERN_LIMIT},
    {"", "((a{1000000000}){1000000000}b){0,1000000000}", "", 0, TERN_OK},
    {"((a{0,1000000000}b){1000000000}", "c", "){3,}", 300, TERN_OK},
};

START_TEST(bombs_end_within_the_budget)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    struct tern_error e = {0};
    size_t open = strlen(bombs[_i].open), close = strlen(bombs[_i].close), n = bombs[_i].n;
    char *text = malloc(n * (open + close) + strlen(bombs[_i].mid) + 1), *to = text;
    for (size_t i = 0; i < n; i++, to += open)
        memcpy(to, bombs[_i].open, open + 1);
    strcpy(to, bombs[_i].mid);
    to += strlen(to);
    for (size_t i = 0; i < n; i++, to += close)
        memcpy(to, bombs[_i].close, close + 1);
    lang a = regex_compile(ls, text, (size_t)(to - text), false, &e);
    ck_assert_msg((a == LANG_FAIL) == (bombs[_i].status != TERN_OK), "%s", e.text);
    ck_assert_int_eq(e.code, bombs[_i].status);
    for (size_t i = 0; i < 100 && a != LANG_FAIL; i++)
        a = lang_step(ls, a, (unsigned char)"abc"[i % 3]);
    free(text);
    languages_close(ls);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

SUITE("regex", LOOP(matches_what_it_should, 0, sizeof known / sizeof *known),
      TEST(whole_is_the_whole_text),
      LOOP(refuses_by_name_and_place, 0, sizeof refused / sizeof *refused),
      LOOP(bombs_end_within_the_budget, 0, sizeof bombs / sizeof *bombs))
