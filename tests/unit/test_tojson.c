/* JSON values as Python prints them. The answers are CPython's (json.dumps, str, repr). */
#include "suite.h"
#include "text/real.h"
#include "text/tojson.h"

#include <string.h>

enum { JSON = TOJSON_JSON, STR = TOJSON_STR, REPR = TOJSON_REPR };
#define INDENT(n) ((n) << TOJSON_INDENT)

static const struct {
    uint32_t style;
    const char *text, *want;
} values[] = {
    {JSON, "[1,2.50,-0,-0.0,0.0,1E5,1e16,1e15,123456789012345678901234567890]",
     "[1, 2.5, 0, -0.0, 0.0, 100000.0, 1e+16, 1000000000000000.0, 123456789012345678901234567890]"},
    {JSON, "[1e-4,1e-5,0.1,1e23,1e22,9007199254740993.0,5e-324,2.2250738585072014e-308]",
     "[0.0001, 1e-05, 0.1, 1e+23, 1e+22, 9007199254740992.0, 5e-324, 2.2250738585072014e-308]"},
    {JSON, "[1e400,-1e400,1e-400,1.7976931348623157e308,5.684341886080802e-14,9.5367431640625e-7]",
     "[Infinity, -Infinity, 0.0, 1.7976931348623157e+308, 5.684341886080802e-14, "
     "9.5367431640625e-07]"},
    {JSON, "[2.47032822920623272e-324,2.4703282292062328e-324,12e10000000000,0.1e-99999999999]",
     "[0.0, 5e-324, Infinity, 0.0]"},
    {STR, "1e400", "inf"},
    {JSON, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80<&'>\"",
     "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80<&'>\""},
    {JSON | TOJSON_ASCII, "\"\x7f\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80\"",
     "\"\\u007f\\u00e9\\u2028\\ud83d\\ude00\""},
    {JSON | TOJSON_ASCII | TOJSON_HTML | TOJSON_SORT, "{\"b\":\"<&'>\",\"a\":{\"d\":1,\"C\":2}}",
     "{\"a\": {\"C\": 2, \"d\": 1}, \"b\": \"\\u003c\\u0026\\u0027\\u003e\"}"},
    {JSON, "{\"b\":[],\"a\":{},\"c\":[null,true,false]}",
     "{\"b\": [], \"a\": {}, \"c\": [null, true, false]}"},
    {JSON | TOJSON_TIGHT, "{\"b\": [1, 2], \"a\": 1}", "{\"b\":[1,2],\"a\":1}"},
    {JSON | INDENT(4), "{\"b\":[1,{}],\"a\":[]}",
     "{\n    \"b\": [\n        1,\n        {}\n    ],\n    \"a\": []\n}"},
    {JSON | INDENT(1) | TOJSON_TIGHT, "[{\"a\":1}]", "[\n {\n  \"a\":1\n }\n]"},
    {STR, "\"it's\\n\"", "it's\n"},
    {STR, "[\"it's\",\"a\\\"'\",null,true,1.0,{\"k\":false}]",
     "[\"it's\", 'a\"\\'', None, True, 1.0, {'k': False}]"},
    {REPR, "\"a\\\\\\n\\u0001\\u007f\xC2\xA0\xC3\xA9\xE2\x80\x8B\xE3\x80\x80\xF0\x9F\x98\x80\"",
     "'a\\\\\\n\\x01\\x7f\\xa0\xC3\xA9\\u200b\\u3000\xF0\x9F\x98\x80'"},
    {STR, "false", "False"},
};

START_TEST(prints_as_python_does)
{
    struct budget budget = {.bytes = 1 << 20, .steps = 1 << 20};
    struct buffer out = {0};
    struct json j;
    struct tern_error e = {0};
    const char *text = values[_i].text, *want = values[_i].want;
    ck_assert_msg(!json_read(&j, text, strlen(text), "text", &budget, &e), "%s", e.text);
    ck_assert(tojson_check(values[_i].style) && tojson_put(&j, 0, values[_i].style, &out));
    ck_assert_msg(out.n == strlen(want) && !memcmp(out.p, want, out.n), "got %.*s, want %s",
                  (int)out.n, out.p, want);
    buffer_close(&out);
    json_close(&j);
}
END_TEST

START_TEST(zeros_at_the_front_are_no_digits)
{
    char digits[1000];
    memset(digits, '0', sizeof digits);
    memcpy(digits + 900, "12345", 5);
    ck_assert(real_of_digits(digits, 905, 905) == 12345);
    memcpy(digits + 797, "12345", 5); /* across the last digit that is kept */
    ck_assert(real_of_digits(digits, 802, 802) == 12345);
}
END_TEST

START_TEST(sorts_as_jinja_does)
{
    static const char text[] = "[{\"b\":1,\"B\":2,\"a\":3,\"aa\":4,\"_\":5,\"A\":6}]";
    static const char *const want[] = {"_", "a", "A", "aa", "b", "B"};
    struct budget budget = {.bytes = 1 << 20, .steps = 1 << 20};
    struct json j;
    ck_assert(!json_read(&j, text, sizeof text - 1, "text", &budget, NULL));
    uint32_t *order = tojson_sorted(&j, 1, false);
    for (size_t i = 0; order && i < 6; i++)
        ck_assert(!memcmp(j.text + j.values[order[i]].key, want[i], strlen(want[i])));
    ck_assert(order != NULL);
    free(order);
    json_close(&j);
}
END_TEST

START_TEST(knows_its_styles)
{
    static const uint32_t bad[] = {9, 10, 1 << 12, 1 << 15, 17 << 16, 1u << 24, 1u << 31};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert(!tojson_check(bad[i]));
}
END_TEST

/* Every double whose bits are few comes back, and from no fewer digits. */
START_TEST(digits_come_back)
{
    for (uint64_t i = 1; i < 2047; i++) {
        const uint64_t mantissas[] = {0, 1, (UINT64_C(1) << 52) - 1, UINT64_C(0x9E3779B97F4A7) * i};
        for (size_t k = 0; k < 4; k++) {
            uint64_t bits = i << 52 | (mantissas[k] & ((UINT64_C(1) << 52) - 1));
            char digits[REAL_DIGITS + 1];
            size_t n;
            double x;
            memcpy(&x, &bits, sizeof x);
            long e = real_shortest(x, digits, &n);
            ck_assert(real_of_digits(digits, n, e) == x);
            ck_assert(n == 1 || real_of_digits(digits, n - 1, e) != x);
        }
    }
}
END_TEST

SUITE("tojson", LOOP(prints_as_python_does, 0, sizeof values / sizeof *values),
      TEST(zeros_at_the_front_are_no_digits), TEST(sorts_as_jinja_does), TEST(knows_its_styles),
      TEST(digits_come_back))
