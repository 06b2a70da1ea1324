/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* The reader of JSON texts: what it takes, refuses and finds, and what it costs. */
#include "allocs.h"
#include "text/json_read.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget purse(void)
{
    return (struct budget){.bytes = 4 << 20, .steps = 1 << 20};
}

static enum tern_status read_text(struct json *j, const char *text, size_t n, struct budget *b,
                                  struct tern_error *e)
{
    char *exact = malloc(n + 1);
    memcpy(exact, text, n);
    char *fits = realloc(exact, n ? n : 1); /* a read beyond is seen */
    enum tern_status s = json_read(j, fits, n, "schema", b, e);
    free(fits);
    return s;
}

START_TEST(a_tree_has_the_values_in_order)
{
    static const char text[] = " {\"a\":[1, -0.5e+3,\"x\\u00e9\\ud83d\\ude00\\n\"],\"\":{},"
                               "\"b\\/~\":{\"c\":true,\"d\":null}} ";
    struct budget b = purse();
    struct json j;
    char place[32];
    ck_assert(!read_text(&j, text, sizeof text - 1, &b, NULL));
    ck_assert_uint_eq(j.n_values, 9);
    ck_assert_uint_eq(j.values[0].type, JSON_OBJECT);
    ck_assert_uint_eq(j.values[0].n_children, 3);
    uint32_t a = json_find(&j, 0, "a", 1);
    ck_assert_uint_eq(a, 1);
    ck_assert_uint_eq(j.values[a].n_children, 3);
    const struct json_value *v = &j.values[j.values[a].first];
    ck_assert_uint_eq(v->n_text, 1);
    v = &j.values[v->next];
    ck_assert_mem_eq(j.text + v->text, "-0.5e+3", 7);
    v = &j.values[v->next];
    ck_assert_uint_eq(v->n_text, 8);
    ck_assert_mem_eq(j.text + v->text, "x\xC3\xA9\xF0\x9F\x98\x80\n", 8);
    ck_assert_uint_eq(v->next, 0);
    uint32_t c = json_find(&j, json_find(&j, 0, "b/~", 3), "c", 1);
    ck_assert_uint_eq(j.values[c].type, JSON_TRUE);
    json_place(&j, c, place, sizeof place);
    ck_assert_str_eq(place, "#/b~1~0/c");
    json_place(&j, c, place, 5);
    ck_assert_str_eq(place, "#/b~");
    json_place(&j, 4, place, sizeof place);
    ck_assert_str_eq(place, "#/a/2");
    json_place(&j, 0, place, sizeof place);
    ck_assert_str_eq(place, "#");
    ck_assert_uint_eq(json_find(&j, 0, "c", 1), 0);
    ck_assert_uint_eq(json_find(&j, a, "a", 1), 0);
    ck_assert_uint_ne(json_find(&j, 0, NULL, 0), 0);
    json_close(&j);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

static const struct {
    const char *text, *why; /* why: NULL: it is taken */
} texts[] = {
    {"0", NULL},
    {"-0.0E-0", NULL},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\"", NULL},
    {"[]", NULL},
    {"[[],{},[{}]]", NULL},
    {"\t\r\n true", NULL},
    {"{\"a\":{\"a\":1},\"b\":{\"a\":1}}", NULL},
    {"\"\xF0\x9F\x98\x80\x7F\"", NULL},
    {"", "schema: byte 0: not a JSON value"},
    {"01", "schema: byte 1: text behind the value"},
    {"-", "schema: byte 1: not a JSON value"},
    {"1.", "schema: byte 2: not a JSON value"},
    {"1e", "schema: byte 2: not a JSON value"},
    {".5", "schema: byte 0: not a JSON value"},
    {"+1", "schema: byte 0: not a JSON value"},
    {"nul", "schema: byte 0: not a JSON value"},
    {"nulll", "schema: byte 4: text behind the value"},
    {"NaN", "schema: byte 0: not a JSON value"},
    {"[1,]", "schema: byte 3: not a JSON value"},
    {"[1 2]", "schema: byte 3: expected ',' or ']'"},
    {"[1", "schema: byte 2: expected ',' or ']'"},
    {"[", "schema: byte 1: not a JSON value"},
    {"{\"a\":1,}", "schema: byte 7: expected the key of a member"},
    {"{1:1}", "schema: byte 1: expected the key of a member"},
    {"{\"a\" 1}", "schema: byte 5: expected ':'"},
    {"{\"a\":1]", "schema: byte 6: expected ',' or '}'"},
    {"{\"a\":1,\"\\u0061\":2}", "schema: byte 15: a key of this object comes twice"},
    {"]", "schema: byte 0: not a JSON value"},
    {"\"a", "schema: byte 2: the string does not end"},
    {"\"\\\"", "schema: byte 3: the string does not end"},
    {"\"\\", "schema: byte 2: the string does not end"},
    {"\"a\nb\"", "schema: byte 2: control character in a string"},
    {"\"\\x\"", "schema: byte 2: unknown escape"},
    {"\"\\u12g4\"", "schema: byte 3: \\u needs four hexadecimal digits"},
    {"\"\\ud800\"", "schema: byte 3: half of a surrogate pair"},
    {"\"\\ud800\\n1234\"", "schema: byte 3: half of a surrogate pair"},
    {"\"\\ud800\\ud800\"", "schema: byte 3: half of a surrogate pair"},
    {"\"\\udc00\\udc00\"", "schema: byte 3: half of a surrogate pair"},
    {"\"\xC0\x80\"", "schema: byte 1: the string is not UTF-8"},
    {"\"\xED\xA0\x80\"", "schema: byte 1: the string is not UTF-8"},
    {"\xEF\xBB\xBF"
     "1",
     "schema: byte 0: not a JSON value"},
};

START_TEST(takes_what_is_json_and_says_where_it_is_not)
{
    struct budget b = purse();
    struct tern_error e = {0};
    struct json j;
    const char *text = texts[_i].text, *why = texts[_i].why;
    enum tern_status s = read_text(&j, text, strlen(text), &b, &e);
    if (why)
        ck_assert_str_eq(e.text, why);
    ck_assert_int_eq(s, why ? TERN_USAGE : TERN_OK);
    json_close(&j);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

/* n times `one`, then `end`. */
static enum tern_status repeated(const char *one, size_t n, const char *end, struct budget *b,
                                 struct tern_error *e)
{
    size_t each = strlen(one);
    char *text = malloc(n * each + strlen(end) + 1);
    struct json j;
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * each, one, each);
    memcpy(text + n * each, end, strlen(end) + 1);
    enum tern_status s = json_read(&j, text, n * each + strlen(end), "schema", b, e);
    json_close(&j);
    free(text);
    return s;
}

START_TEST(depth_and_size_are_bounded)
{
    struct budget b = purse();
    struct tern_error e;
    ck_assert(repeated("[", 1000000, "", &b, &e) == TERN_USAGE);
    ck_assert_str_eq(e.text, "schema: byte 64: values are nested deeper than 64");
    ck_assert(repeated("{\"\":", 60000, "", &b, &e) == TERN_USAGE);
    ck_assert(repeated("[", 64, "]", &b, &e) == TERN_USAGE);
    ck_assert_str_eq(e.text, "schema: byte 65: expected ',' or ']'");
    ck_assert(repeated("[[],", 1, "0]", &b, &e) == TERN_OK);
    ck_assert(repeated("[0,0", 1, "]", &b, &e) == TERN_OK);
    b.bytes = 100000;
    ck_assert(repeated("0,", 100000, "", &b, &e) == TERN_USAGE);
    ck_assert(repeated("[0,0,0,0", 1, "]", &b, &e) == TERN_OK);
    ck_assert_uint_eq(b.bytes, 100000);
    b.bytes = 100;
    ck_assert(repeated("[0,0,0,0", 1, "]", &b, &e) == TERN_LIMIT);
    ck_assert_str_eq(e.text, "schema: too large for the budget (bytes are used up)");
    ck_assert_uint_eq(b.bytes, 100);
    b = (struct budget){.bytes = 4 << 20, .steps = 3};
    ck_assert(repeated("[0,0,0,0", 1, "]", &b, &e) == TERN_LIMIT);
    ck_assert_str_eq(e.text, "schema: too large for the budget (steps are used up)");
    b = (struct budget){.bytes = 4 << 20, .steps = 3, .all_steps = 7};
    ck_assert(repeated("[0,0,0,0", 1, "]", &b, &e) == TERN_LIMIT);
    ck_assert_str_eq(
        e.text,
        "schema: too large for the budget (it needs more than the 7 steps that one may take)");
}
END_TEST

/* 3000 members of one object and the same keys in its first one: none is lost, none is twice. */
START_TEST(many_members_are_found)
{
    static char text[200000];
    struct budget b = purse();
    struct json j;
    size_t n = 0;
    text[n++] = '{';
    for (int i = 0; i < 3000; i++)
        n += (size_t)sprintf(text + n, "%s\"k%d\":%s", i ? "," : "", i, i ? "1" : "{\"k1\":2}");
    text[n++] = '}';
    ck_assert(!read_text(&j, text, n, &b, NULL));
    for (int i = 0; i < 3000; i++) {
        char key[8];
        uint32_t v = json_find(&j, 0, key, (size_t)sprintf(key, "k%d", i));
        ck_assert_uint_eq(j.values[v].index, (uint32_t)i);
        ck_assert_uint_eq(j.values[v].parent, 0);
    }
    ck_assert_uint_eq(j.values[json_find(&j, 1, "k1", 2)].parent, 1);
    ck_assert_uint_eq(json_find(&j, 1, "k2", 2), 0);
    json_close(&j);
}
END_TEST

START_TEST(every_failing_allocation_is_reported)
{
    static const char text[] = "[{\"a\":\"b\"},{\"b\":[1,2,3,4,5,6,7,8,9,1,2,3,4]}]";
    size_t at = 0;
    struct json j;
    for (enum tern_status s = TERN_NO_MEMORY; s; at++) {
        struct budget b = purse();
        struct tern_error e;
        allocs_start(at + 1, 0);
        s = json_read(&j, text, sizeof text - 1, "schema", &b, &e);
        allocs_stop();
        ck_assert_int_eq(s, s ? TERN_NO_MEMORY : TERN_OK);
        json_close(&j);
        ck_assert_uint_eq(b.bytes, purse().bytes);
        ck_assert_uint_eq(allocs_live(), 0);
    }
    ck_assert_uint_gt(at, 3);
}
END_TEST

SUITE("json_read", TEST(a_tree_has_the_values_in_order),
      LOOP(takes_what_is_json_and_says_where_it_is_not, 0, sizeof texts / sizeof *texts),
      TEST(depth_and_size_are_bounded), TEST(many_members_are_found),
      TEST(every_failing_allocation_is_reported))
