/* Numbers of the command line, against the C library's; and times that are worth a sentence. */
#include "app/cli/number.h"
#include "app/cli/team.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static bool u64(const char *text, uint64_t *out)
{
    return number_u64(text, strlen(text), out);
}

static bool i64(const char *text, int64_t *out)
{
    return number_i64(text, strlen(text), out);
}

START_TEST(integers)
{
    uint64_t u = 7;
    int64_t i = 7;
    ck_assert(u64("18446744073709551615", &u) && u == UINT64_MAX);
    ck_assert(!u64("18446744073709551616", &u) && u == UINT64_MAX);
    ck_assert(!u64("99999999999999999999", &u));
    ck_assert(u64("000", &u) && u == 0);
    ck_assert(i64("-9223372036854775807", &i) && i == -INT64_MAX);
    ck_assert(i64("9223372036854775807", &i) && i == INT64_MAX);
    ck_assert(!i64("9223372036854775808", &i));
    static const char *const bad[] = {"", "-", "--1", "+1", " 1", "1 ", "1.0", "0x1", "a", "1\n"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        ck_assert_msg(!i64(bad[k], &i), "%s", bad[k]);
        ck_assert_msg(!u64(bad[k], &u), "%s", bad[k]);
    }
    ck_assert(!u64("-0", &u));
    ck_assert(number_u64("12+5", 2, &u) && u == 12);
    ck_assert(!number_u64("12", 0, &u) && !number_i64("-1", 1, &i));
}
END_TEST

/* Up to 15 digits and a power of ten up to 22 there is one rounding: the very double of strtod. */
START_TEST(reals)
{
    static const char *const exact[] = {
        "0",    "1",    "0.8",      "-1.5",   ".5",      "5.",     "1e-3",      "1E5",
        "1e22", "1e+2", "0.1e1",    "123e-2", "1e-22",   "0.0001", "999999999", "0.000000123",
        "-.25", "00.5", "1.000000", "1e0",    "1.7e-20", "3e-05",  "64",        "0.95"};
    double v = 0;
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        ck_assert_msg(number_real(exact[k], &v), "%s", exact[k]);
        ck_assert_msg(v == strtod(exact[k], NULL), "%s: %.17g", exact[k], v);
    }
    static const char *const near[] = {"1.7976931348623157e308",
                                       "1e308",
                                       "7e23",
                                       "7e-23",
                                       "2.5e-308",
                                       "0.1000000000000000055511151231257827",
                                       "123456789012345678901234567890e-20",
                                       "0.00000000000000000000000000001e29",
                                       "3.14159265358979323846264338327950288"};
    for (size_t k = 0; k < sizeof near / sizeof *near; k++) {
        ck_assert_msg(number_real(near[k], &v), "%s", near[k]);
        ck_assert_double_le(fabs(v / strtod(near[k], NULL) - 1), 1e-14);
    }
    ck_assert(number_real("1e-400", &v) && v == 0);
    ck_assert(number_real("1e-401", &v) && v == 0);
    ck_assert(number_real("0e999999999999999999999", &v) && v == 0);
    static const char *const bad[] = {
        "",    ".",   "-",   "e5",    "1e",    "1e+", "1,5",   "+1",   " 1",
        "1 ",  "nan", "inf", "0x1p3", "1e400", "-.",  "1.2.3", "1e5.", "1e99999999999999999999",
        "1e1x"};
    v = 7;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ck_assert_msg(!number_real(bad[k], &v) && v == 7, "%s", bad[k]);
}
END_TEST

/* More digits than an exponent counts change nothing but the digits that count. */
START_TEST(very_long_reals)
{
    enum { ZEROS = 100100 };
    static char text[ZEROS + 16];
    double v = 7;
    memset(text, '0', sizeof text);
    memcpy(text, "0.", 2);
    strcpy(text + ZEROS, "1");
    ck_assert(number_real(text, &v) && v == 0);
    memset(text, '0', sizeof text);
    *text = '1', text[ZEROS] = 0;
    v = 7;
    ck_assert(!number_real(text, &v) && v == 7);
}
END_TEST

START_TEST(for_people)
{
    char b[32];
    ck_assert_str_eq(number_bytes(0, b, sizeof b), "0 bytes");
    ck_assert_str_eq(number_bytes(1023, b, sizeof b), "1023 bytes");
    ck_assert_str_eq(number_bytes(1024, b, sizeof b), "1.0 KiB");
    ck_assert_str_eq(number_bytes(1536, b, sizeof b), "1.5 KiB");
    ck_assert_str_eq(number_bytes(UINT64_MAX, b, sizeof b), "16.0 EiB");
    ck_assert_str_eq(number_seconds(0.0123, b, sizeof b), "12.3ms");
    ck_assert_str_eq(number_seconds(1.2345, b, sizeof b), "1.234s");
    ck_assert_str_eq(number_seconds(1, b, sizeof b), "1.000s");
    ck_assert_str_eq(number_seconds(60, b, sizeof b), "1m0.0s");
    ck_assert_str_eq(number_seconds(7200, b, sizeof b), "120m0.0s");
    ck_assert_str_eq(number_seconds(125.5, b, sizeof b), "2m5.5s");
    ck_assert_str_eq(number_grouped(0, b, sizeof b), "0");
    ck_assert_str_eq(number_grouped(999, b, sizeof b), "999");
    ck_assert_str_eq(number_grouped(1000, b, sizeof b), "1,000");
    ck_assert_str_eq(number_grouped(1234567, b, sizeof b), "1,234,567");
    ck_assert_str_eq(number_grouped(UINT64_MAX, b, sizeof b), "18,446,744,073,709,551,615");
    ck_assert_str_eq(number_grouped(1234567, b, 4), "1,2"); /* as much as there is room for */
}
END_TEST

START_TEST(slower_by_a_tenth)
{
    ck_assert(team_is_slower(0.01110, 0.01));
    ck_assert(!team_is_slower(0.01099, 0.01));
    ck_assert(!team_is_slower(0.01, 0.02));
    ck_assert(team_is_slower(0.00026, 0.00015));
    ck_assert(!team_is_slower(0.00024, 0.00015)); /* 0.09 ms a token */
}
END_TEST

SUITE("number", TEST(integers), TEST(reals), TEST(very_long_reals), TEST(for_people),
      TEST(slower_by_a_tenth))
