/* ldflags: -Wl,@tests/support/allocs.ld */
/* Rules on numbers as languages. What a rule allows is held against fractions by
 * tests/cli/test_number_rules.py. */
#include "each_allocation.h"
#include "sample/language/numbers.h"
#include "suite.h"

#include <string.h>

static struct budget budget;

static struct languages *open_languages(void)
{
    budget = (struct budget){.bytes = (size_t)64 << 20, .steps = 1 << 24};
    struct languages *ls = languages_open(&budget);
    ck_assert(ls);
    return ls;
}

static lang after(struct languages *ls, lang x, const char *text)
{
    for (; *text; text++)
        x = lang_step(ls, x, (unsigned char)*text);
    return x;
}

static bool matches(struct languages *ls, lang x, const char *text)
{
    return lang_accepts(ls, after(ls, x, text));
}

static struct decimal decimal_of(const char *text)
{
    struct decimal d;
    ck_assert(decimal_read(text, strlen(text), &d));
    return d;
}

static struct number_rule unit_rule(const char *unit)
{
    struct number_rule r = {0};
    struct decimal d = decimal_of(unit);
    ck_assert(unit_read(&d, &r.multiple_of));
    return r;
}

START_TEST(plain_rules)
{
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "12",
                                          "-3.25",
                                          "0.10",
                                          "1e9",
                                          "-1.5E-3",
                                          "0e0",
                                          "1E+99",
                                          "1e-09",
                                          "-9999999999999999.12345678901234567"};
    static const char *const integers[] = {"0", "12", "-30", "9007199254740991"};
    static const char *const neither[] = {"",
                                          "-",
                                          "01",
                                          ".5",
                                          "5.",
                                          "+1",
                                          "1e",
                                          "1.",
                                          "1e+",
                                          "0x1",
                                          "1 ",
                                          " 1",
                                          "--1",
                                          "1.0.0",
                                          "NaN",
                                          "1e100",
                                          "1E-100",
                                          "1e+000",
                                          "10000000000000000",
                                          "0.123456789012345678"};
    static const char *const no_integers[] = {
        "1.5", "1.0", "-0.0", "1e2", "1e0", "-0", "9007199254740992", "-9007199254740992"};
    struct languages *ls = open_languages();
    const struct number_rule any = {0}, whole = unit_rule("1.0");
    const lang x = numbers_lang(ls, &any), y = numbers_lang(ls, &whole);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ck_assert_msg(matches(ls, x, numbers[i]), "%s", numbers[i]);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        ck_assert_msg(matches(ls, x, integers[i]) && matches(ls, y, integers[i]), "%s",
                      integers[i]);
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++)
        ck_assert_msg(!matches(ls, x, neither[i]) && !matches(ls, y, neither[i]), "%s", neither[i]);
    for (size_t i = 0; i < sizeof no_integers / sizeof *no_integers; i++)
        ck_assert_msg(!matches(ls, y, no_integers[i]), "%s", no_integers[i]);
    languages_close(ls);
}
END_TEST

static struct number_rule range(const char *lo, const char *hi)
{
    struct number_rule r = {.has_lo = lo != NULL, .has_hi = hi != NULL};
    if (lo)
        r.lo = decimal_of(lo);
    if (hi)
        r.hi = decimal_of(hi);
    return r;
}

static void judge(const struct number_rule *r, const char *good, const char *bad)
{
    struct languages *ls = open_languages();
    const lang x = numbers_lang(ls, r);
    char text[256];
    for (size_t n; *good; good += n + (good[n] == ' '))
        ck_assert_msg((n = strcspn(good, " ")) && memcpy(text, good, n) && !(text[n] = 0) &&
                          matches(ls, x, text),
                      "%s", text);
    for (size_t n; *bad; bad += n + (bad[n] == ' '))
        ck_assert_msg((n = strcspn(bad, " ")) && memcpy(text, bad, n) && !(text[n] = 0) &&
                          !matches(ls, x, text),
                      "%s", text);
    languages_close(ls);
}

/* Where no plain text is left, numbers have an exponent, as far as doubles go. */
START_TEST(exponents)
{
    struct number_rule r = range("1e300", NULL);
    judge(&r, "1e300 1.00000000000001e300 9e300 1.5e301 2e307 1.79769313486231e308",
          "1e299 10e300 1E300 1e+300 1.8e308 2e308 1e309 1.000000000000001e300 -1e300 0.1e301 "
          "1e3000");
    r.open_lo = true;
    judge(&r, "1.00000000000001e300 1e301", "1e300 1.0e300");
    r = range(NULL, "-1.5e300");
    judge(&r, "-1.5e300 -2e300 -1e301 -1.79769313486231e308", "-1.4e300 1.5e300 -1e300 -1e309");
    r = range("1.25e300", "1.5e301");
    judge(&r, "1.25e300 9.9e300 1.5e301", "1.24e300 1.6e301 1e299 1e302");
    r = range("1e300", NULL), r.multiple_of = unit_rule("1").multiple_of;
    judge(&r, "1e300 1.00000000000001e307", "1.000000000000001e300");
    r = range("0", "1e-300"), r.open_lo = true;
    judge(&r, "1e-300 9.5e-301 5e-324 1e-323", "0 1.1e-300 4e-324 1e-299 1e-325 -1e-301");
    r = range("1e300", "1e302"), r.multiple_of = unit_rule("3").multiple_of;
    judge(&r, "1.2e300 3e300 1.11e301 9e301", "1e300 1.3e300 1.1e301 1e302");
    r.multiple_of = unit_rule("1").multiple_of, r.n_nots = 1,
    r.nots[0] = unit_rule("7").multiple_of;
    judge(&r, "1e300 1.2e301", "1.4e300 7e301");
    r.nots[0] = unit_rule("8").multiple_of;
    ck_assert(number_is_empty(&r));
    r = range("1e64", NULL), r.n_nots = 1, r.nots[0] = unit_rule("36028797018963968").multiple_of;
    judge(&r, "1.000000000000001e64", "1e64 1e65 1e300");
    r = range("1e-80", "1e-70"), r.n_nots = 1, r.nots[0] = unit_rule("0.1").multiple_of;
    judge(&r, "1e-80 1.5e-75", "1e-69");
    r.multiple_of = unit_rule("1e-63").multiple_of;
    ck_assert(number_is_empty(&r));
    r = range("1e309", NULL);
    ck_assert(number_is_empty(&r));
    r = range("1e301", "1e300");
    ck_assert(number_is_empty(&r));
}
END_TEST

/* Leaves join with expressions: 5, 10, 15 or "ten", or a fraction below 1. */
START_TEST(leaves)
{
    struct languages *ls = open_languages();
    struct number_rule fives = unit_rule("5"),
                       part = {.has_lo = true, .has_hi = true, .open_hi = true};
    const struct decimal lo = decimal_of("5"), hi = decimal_of("15"), one = decimal_of("1");
    fives.has_lo = fives.has_hi = true, fives.lo = lo, fives.hi = hi;
    part.hi = one;
    lang x = lang_or(ls, numbers_lang(ls, &fives), numbers_lang(ls, &part));
    x = lang_or(ls, x, lang_text(ls, "ten", 3));
    static const char *const good[] = {"5", "10", "15", "ten", "0", "0.0", "0.125"};
    static const char *const bad[] = {"",     "1",    "20", "1.5", "te",   "5.5",
                                      "15.0", "-0.5", "-0", "0.",  "0.5e0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(matches(ls, x, good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!matches(ls, x, bad[i]), "%s", bad[i]);
    ck_assert_int_eq(lang_is_live(ls, lang_step(ls, x, '1')), LANG_YES);
    ck_assert_uint_eq(lang_step(ls, x, '2'), LANG_NONE);
    struct number_rule none = fives;
    none.lo = decimal_of("6"), none.hi = decimal_of("9");
    ck_assert_uint_eq(numbers_lang(ls, &none), LANG_NONE);
    languages_close(ls);
}
END_TEST

/* Prefixes that differ in nothing that counts are one state: here 7 remainders for each length, and behind the
 * point the number of places. */
START_TEST(states_are_few)
{
    struct languages *ls = open_languages();
    const struct number_rule sevens = unit_rule("7");
    struct number_rule r = sevens;
    r.has_lo = true, r.lo = decimal_of("0");
    const lang x = numbers_lang(ls, &r);
    lang seen[1000], n = 0;
    for (unsigned i = 1000; i < 9000; i++) {
        lang at = x, k = 0;
        for (unsigned power = 1000; power; power /= 10)
            at = lang_step(ls, at, (unsigned char)('0' + i / power % 10));
        while (k < n && seen[k] != at)
            k++;
        ck_assert_uint_lt(k, 1000);
        seen[k] = at, n += k == n;
    }
    ck_assert_uint_eq(n, 7);
    r = (struct number_rule){.has_lo = true, .lo = decimal_of("0")};
    ck_assert_uint_eq(after(ls, numbers_lang(ls, &r), "1.25"),
                      after(ls, numbers_lang(ls, &r), "789.30"));
    ck_assert_uint_ne(after(ls, numbers_lang(ls, &r), "1.25"),
                      after(ls, numbers_lang(ls, &r), "1.2"));
    languages_close(ls);
}
END_TEST

static void use(void)
{
    budget = (struct budget){.bytes = (size_t)64 << 20, .steps = 1 << 24};
    struct languages *ls = languages_open(&budget);
    if (!ls)
        return;
    struct number_rule r = unit_rule("0.07");
    r.has_lo = true, r.lo = decimal_of("-3");
    lang x = after(ls, numbers_lang(ls, &r), "1400000000000000.07");
    ck_assert(x == LANG_FAIL || lang_accepts(ls, x));
    ck_assert(x != LANG_FAIL || budget.no_memory);
    languages_close(ls);
}

START_TEST(every_allocation_fails)
{
    each_allocation(use);
}
END_TEST

/* The text of a rule of one value is what its leaf says. */
START_TEST(rules_of_one_value)
{
    static const char *const values[] = {"0",     "5",         "-5",       "1e3",
                                         "0.5",   "-12.25",    "1e62",     "1e63",
                                         "-1e63", "123456789", "1e-62",    "1e-63",
                                         "1e64",  "-1e300",    "1.5e-300", "17976931348623157e292",
                                         "5e-324"};
    static const struct {
        const char *value, *unit;
    } others[] = {{"5", "0.01"}, {"1e309", "1"},  {"1e-64", "1e-63"},
                  {"1e64", "3"}, {"1e400", NULL}, {"1e-324", NULL},
                  {"5", "1"},    {"1e64", "8"},   {"3e300", "3"}};
    struct languages *ls = open_languages();
    char text[NUMBER_TEXT];
    size_t n;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const struct decimal d = decimal_of(values[i]);
        struct number_rule r;
        number_point(&r, &d);
        ck_assert_msg(number_text(&r, text, &n), "%s", values[i]);
        const lang x = lang_text(ls, text, n), y = numbers_lang(ls, &r);
        ck_assert_msg(lang_subset(ls, x, y) == LANG_YES && lang_subset(ls, y, x) == LANG_YES, "%s",
                      values[i]);
        r.open_hi = true;
        ck_assert(!number_text(&r, text, &n));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct decimal d = decimal_of(others[i].value);
        struct number_rule r;
        number_point(&r, &d);
        if (others[i].unit)
            r.multiple_of = unit_rule(others[i].unit).multiple_of;
        ck_assert_msg(number_text(&r, text, &n) == (i >= 6), "%s", others[i].value);
    }
    languages_close(ls);
}
END_TEST

SUITE("numbers", TEST(plain_rules), TEST(exponents), TEST(leaves), TEST(rules_of_one_value),
      TEST(states_are_few), TEST(every_allocation_fails))
