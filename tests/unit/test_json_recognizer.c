/* The recognizer of JSON values, on nodes made by hand. */
#include "made.h"
#include "sample/language/numbers.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct budget budget;
static struct shapes s;
static struct reader k;

static void start(void)
{
    budget = (struct budget){.bytes = 64 << 20, .steps = 100 * 1000 * 1000};
    s = made_open(&budget);
}

static void open_with(unsigned flags)
{
    struct recognizer r;
    struct tern_error e;
    enum tern_status status = json_recognizer_open(&r, &s, NULL, flags, &budget, &e);
    ck_assert_msg(status == TERN_OK, "%s", e.text);
    reader_open(&k, r);
}

static void end(void)
{
    const size_t left = budget.bytes;
    reader_close(&k);
    ck_assert(budget.bytes > left);
    ck_assert_uint_eq(budget.bytes, 64 << 20);
}

static void takes(const char *text)
{
    const size_t n = strlen(text), got = reader_read(&k, text, n);
    ck_assert_msg(got == n + 1, "%s: stopped at %zu of %zu", text, got, n);
}

/* The text is refused at the byte after `good`. */
static void refuses(const char *good, const char *byte)
{
    char text[512];
    const size_t n = strlen(good);
    snprintf(text, sizeof text, "%s%s", good, byte);
    const size_t got = reader_read(&k, text, strlen(text));
    ck_assert_msg(got == n, "%s: stopped at %zu, want %zu", text, got, n);
}

#define ALL(function, list)                                    \
    for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++) \
    function(list[i])

START_TEST(any_value)
{
    static const char *const good[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-0",
                                       "12.50e-7",
                                       "\"\"",
                                       "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
                                       "\"\xf0\x9f\x98\x80\\ud83d\\ude00\\uD83D\\uDE00\"",
                                       "[]",
                                       "{}",
                                       "[[],{}]",
                                       "[1,2]",
                                       "[1, 2]",
                                       "{\"a\":1}",
                                       "{\"a\": [{\"a\": null}]}",
                                       "{\"\":0,\"\\u0000\":0}",
                                       "[1,{\"b\":2,\"a\":[3]}]"};
    static const char *const bad[][2] = {{"", " "},
                                         {"0", "1"},
                                         {"-", "-"},
                                         {"1.", "}"},
                                         {"nul", "e"},
                                         {"[", " "},
                                         {"[1", " "},
                                         {"[1,", "]"},
                                         {"[1", "}"},
                                         {"{\"a\":1,", "}"},
                                         {"{", "a"},
                                         {"{\"a\"", " "},
                                         {"{\"a\":1, \"b\":", " "},
                                         {"\"", "\n"},
                                         {"\"\\", "x"},
                                         {"\"\\u", "g"},
                                         {"\"\\uD", "g"},
                                         {"\"\\ud83d", "\""},
                                         {"\"\\ud83d\\", "n"},
                                         {"\"\\ud83d\\u", "0"},
                                         {"\"\\ud83d\\ud", "b"},
                                         {"\"\\ud", "c"},
                                         {"\"", "\x80"},
                                         {"\"", "\xc0"},
                                         {"\"\xe0", "\x9f"},
                                         {"\"\xed", "\xa0"},
                                         {"\"\xf4", "\x90"},
                                         {"\"\xc3", "\""},
                                         {"{\"a\":1,\"a", "\""},
                                         {"{\"\xc3\xa9\":1,\"\\u00E9", "\""},
                                         {"\"\\u00", "4"},
                                         {"\"\\u005", "d"},
                                         {"\"\\u00", "3"},
                                         {"{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80", "\""},
                                         {"[]", "]"},
                                         {"1", " "}};
    start();
    open_with(0);
    ALL(takes, good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(bad[i][0], bad[i][1]);
    end();
}
END_TEST

START_TEST(blanks_have_one_style)
{
    static const char *const good[] = {
        "{\"a\":1,\"b\":[2,3]}",
        "{\"a\": 1, \"b\": [2, 3]}",
        "{\"a\": 1,\"b\": [2,3]}",
        "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    3\n  ],\n  \"c\": {}\n}",
        "{\n\t\"a\":1,\n\t\"b\":[\n\t\t2\n\t]\n}",
        "[\n        [2, 3],\n        [\n                4\n        ]\n]"};
    static const char *const bad[][2] = {{"{\"a\":1,\"b\":", " "},
                                         {"{\"a\": 1,\"b\":", "2"},
                                         {"[1, 2,", "3"},
                                         {"[1,2,", " "},
                                         {"[[", "\n"},
                                         {"[", "\r"},
                                         {"[\n", "1"},
                                         {"[\n  1,\n  ", " "},
                                         {"[\n  1,", " "},
                                         {"[\n  1", "]"},
                                         {"[\n  [\n  ", "1"},
                                         {"[\n  1\n", " "},
                                         {"[\n  [\n    1\n  ", " "},
                                         {"[\n        ", " "},
                                         {"[\n\t", "\t"},
                                         {"[\n", "]"},
                                         {"{\n  \"a\":", "\n"}};
    start();
    open_with(0);
    ALL(takes, good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(bad[i][0], bad[i][1]);
    end();
    start();
    open_with(JSON_COMPACT);
    takes("{\"a\":1,\"b\":[2,3]}");
    refuses("[1,", " ");
    refuses("{\"a\":", " ");
    refuses("[", "\n");
    end();
}
END_TEST

/* name required, color optional of two, count required, ok optional; other keys that begin with x. */
static void person(void)
{
    uint32_t color = made_string(&s, made_texts(&s, "red|green"));
    uint32_t text = made_string(&s, LANG_CHARS), count = made_number(&s, made_integers(&s, 3));
    uint32_t ok = made_add(&s, (struct node){.literals = SHAPE_TRUE | SHAPE_FALSE});
    lang x = lang_concat(s.languages, made_text(&s, "x"), LANG_CHARS);
    const struct by_name members[] = {{"name", text, true},
                                      {"color", color, false},
                                      {"count", count, true},
                                      {"ok", ok, false},
                                      {"xx", NODE_NONE, false}};
    const struct member_class others = {x, text, 0, SHAPE_NO_LIMIT};
    s.root = made_object(&s, NODE_NONE, 0, 4, members, 5, &others, 1);
}

START_TEST(members_in_order)
{
    start();
    person();
    open_with(0);
    takes("{\"name\":\"\",\"count\":1}");
    takes("{\"name\": \"a\", \"color\": \"red\", \"count\": -12, \"ok\": true}");
    takes("{\"name\": \"a\", \"count\": 12, \"x\": \"\", \"xa\": \"1\"}");
    refuses("{", "}");
    refuses("{\"", "c");
    refuses("{\"name\":\"\"", "}");
    refuses("{\"name\":\"\",\"", "o");
    refuses("{\"name\":\"\",\"", "x");
    refuses("{\"name\":", "1");
    refuses("{\"name\":\"\",\"count\":1,\"", "n");
    refuses("{\"name\":\"\",\"count\":1,\"", "c");
    refuses("{\"name\":\"\",\"count\":1,\"x\":\"\",\"", "o");
    refuses("{\"name\":\"\",\"count\":1,\"xx", "\"");
    refuses("{\"name\":\"\",\"color\":\"red\",\"count\":1,\"x\":\"\"", ",");
    refuses("{\"name\":\"\",\"color\":\"", "x");
    refuses("{\"name\":\"\",\"color\":\"re", "\\");
    refuses("{\"name\":\"\",\"count\":12", ".");
    end();
    start();
    person();
    open_with(JSON_ANY_ORDER);
    takes("{\"count\":1,\"x\":\"\",\"name\":\"\",\"ok\":false}");
    refuses("{\"count\":1,\"co", "u");
    refuses("{\"x\":\"\",\"xa\":\"\",\"", "x");
    refuses("{\"x\":\"\",\"xa\":\"\",\"", "o");
    end();
}
END_TEST

/* {kind: a, v: integer} or {kind: b, v: string} or {kind: b, v: [...]}: one pass reads all three. */
START_TEST(alternatives)
{
    start();
    uint32_t a = made_string(&s, made_text(&s, "a")), b = made_string(&s, made_text(&s, "b"));
    uint32_t number = made_number(&s, made_integers(&s, 3)), text = made_string(&s, LANG_CHARS);
    uint32_t list = made_array(&s, NODE_NONE, (struct array_shape){.max = 2}, &number, 1);
    const struct by_name one[] = {{"kind", a, true}, {"v", number, true}};
    const struct by_name two[] = {{"kind", b, true}, {"v", text, true}};
    const struct by_name three[] = {{"kind", b, true}, {"v", list, true}, {"w", number, false}};
    s.root = made_object(&s, NODE_NONE, 0, SHAPE_NO_LIMIT, one, 2, NULL, 0);
    made_object(&s, s.root, 0, SHAPE_NO_LIMIT, two, 2, NULL, 0);
    made_object(&s, s.root, 0, SHAPE_NO_LIMIT, three, 3, NULL, 0);
    open_with(0);
    takes("{\"kind\": \"a\", \"v\": 1}");
    takes("{\"kind\": \"b\", \"v\": \"1\"}");
    takes("{\"kind\": \"b\", \"v\": [1, 2], \"w\": 3}");
    refuses("{\"kind\": \"a\", \"v\": ", "\"");
    refuses("{\"kind\": \"b\", \"v\": ", "1");
    refuses("{\"kind\": \"b\", \"v\": \"\"", ",");
    refuses("{\"kind\": \"b\", \"v\": [1, 2", ",");
    end();
}
END_TEST

/* At least two items are red, at most one is green; counts are exact where there is a maximum. */
START_TEST(contains)
{
    start();
    uint32_t red = made_string(&s, made_text(&s, "red")),
             green = made_string(&s, made_text(&s, "green"));
    uint32_t any = made_string(&s, made_texts(&s, "red|blue"));
    const uint32_t items[] = {any, red, green, NODE_NONE};
    s.root = made_array(
        &s, NODE_NONE,
        (struct array_shape){
            .max = 4, .n_contains = 2, .contains_min = {2, 0}, .contains_max = {SHAPE_NO_LIMIT, 1}},
        items, 4);
    open_with(0);
    takes("[\"red\",\"red\"]");
    takes("[\"blue\",\"red\",\"green\",\"red\"]");
    takes("[\"red\",\"red\",\"red\",\"green\"]");
    refuses("[\"red\"", "]");
    refuses("[\"green\",\"", "g");
    refuses("[\"blue\",\"blue\",\"", "b");
    refuses("[\"red\",\"red\",\"blue\",\"red\"", ",");
    end();
}
END_TEST

START_TEST(unique_items)
{
    start();
    uint32_t color = made_string(&s, made_texts(&s, "red|green|red ink"));
    s.root =
        made_array(&s, NODE_NONE,
                   (struct array_shape){.min = 1, .max = SHAPE_NO_LIMIT, .unique = 1}, &color, 1);
    open_with(0);
    takes("[\"green\",\"red ink\",\"red\"]");
    refuses("[\"red\",\"red", "\"");
    refuses("[\"red\",\"green\",\"r", "\\");
    refuses("[\"green\",\"", "g");
    refuses("[\"red\",\"red ink\",\"", "r");
    refuses("[\"green\",\"red ink\",\"red\"", ",");
    end();
    start();
    const uint32_t any = NODE_ANY;
    s.root = made_array(&s, NODE_NONE, (struct array_shape){.max = SHAPE_NO_LIMIT, .unique = 1},
                        &any, 1);
    open_with(0);
    takes("[1,10,true,\"1\",null,[],[1],{},{\"a\":1},[{\"a\":1}],0.1]");
    refuses("[1,1", "]");
    refuses("[1,1", ",");
    refuses("[1", "e");
    refuses("[-0", "]");
    refuses("[1.0", "]");
    refuses("[{\"a\":1,\"b\":[2]},{\"b\":[2],\"a\":1", "}");
    refuses("[\"\xc3\xa9\",\"\\u00e9", "\"");
    refuses("[[1,2],[1,2", "]");
    refuses("[null,", "n");
    end();
    start(); /* numbers that are too large to be written without an exponent */
    struct number_rule large = {.has_lo = true, .lo = {.n = 1, .digits = "1", .exponent = 64}};
    uint32_t item = made_number(&s, numbers_lang(s.languages, &large));
    s.root =
        made_array(&s, NODE_NONE, (struct array_shape){.min = 2, .max = 9, .unique = 1}, &item, 1);
    open_with(0);
    takes("[1e64,1.5e64,1.05e99,1e100]");
    refuses("[1e64,1e6", "4");
    refuses("[1.0", "e");
    end();
}
END_TEST

/* Numbers of up to three digits, each once, and what else might follow each byte: with few left, too. */
START_TEST(every_unique_item)
{
    enum { MOST = 1000 };
    start();
    lang digit = lang_char_range(s.languages, '0', '9');
    lang number = lang_concat(s.languages, lang_char_range(s.languages, '1', '9'),
                              lang_repeat(s.languages, digit, 0, 2));
    uint32_t item = made_number(&s, lang_or(s.languages, made_text(&s, "0"), number));
    s.root = made_array(&s, NODE_NONE, (struct array_shape){.min = MOST, .max = MOST, .unique = 1},
                        &item, 1);
    open_with(JSON_COMPACT);
    static bool came[MOST];
    ck_assert(k.r.begin(k.r.self, &k.t, &k.p) == STEP_ALIVE);
    for (unsigned i = 0; i < MOST; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%c%u", i ? ',' : '[', i * 7 % MOST);
        unsigned begun = 0;
        for (int b = 0; b < n; b++) {
            for (unsigned c = '0'; c <= '9' && b; c++) {
                struct place q = k.p;
                unsigned x = begun * 10 + c - '0';
                bool alive = b == 1 || (begun && x < MOST), left = false;
                for (unsigned ten = 1; alive && ten <= (x ? 100 : 1) && x * ten < MOST; ten *= 10)
                    for (unsigned more = 0; more < ten && !left; more++)
                        left = x * ten + more < MOST && !came[x * ten + more];
                ck_assert((k.r.step(k.r.self, &k.t, &q, (unsigned char)c) == STEP_ALIVE) == left);
            }
            ck_assert(k.r.step(k.r.self, &k.t, &k.p, (unsigned char)text[b]) == STEP_ALIVE);
            begun = b ? begun * 10 + (unsigned)text[b] - '0' : 0;
        }
        came[i * 7 % MOST] = true;
    }
    ck_assert(k.r.step(k.r.self, &k.t, &k.p, ',') == STEP_DEAD);
    ck_assert(k.r.step(k.r.self, &k.t, &k.p, ']') == STEP_ALIVE);
    end();
}
END_TEST

static double read_numbers(unsigned n)
{
    clock_t from = clock();
    ck_assert(k.r.begin(k.r.self, &k.t, &k.p) == STEP_ALIVE);
    for (unsigned i = 0; i < n; i++) {
        char text[16];
        snprintf(text, sizeof text, "%c%u", i ? ',' : '[', i * 37 % 999983);
        for (const char *c = text; *c; c++)
            ck_assert(k.r.step(k.r.self, &k.t, &k.p, (unsigned char)*c) == STEP_ALIVE);
    }
    return (double)(clock() - from) / CLOCKS_PER_SEC;
}

/* An item is found among many without a walk over all. */
START_TEST(many_unique_items)
{
    start();
    uint32_t item = made_number(&s, made_integers(&s, 6));
    s.root = made_array(&s, NODE_NONE, (struct array_shape){.max = SHAPE_NO_LIMIT, .unique = 1},
                        &item, 1);
    open_with(JSON_COMPACT);
    k.t.limit = 64 << 20;
    double few = read_numbers(4000), many = read_numbers(32000);
    ck_assert_msg(many < 20 * few + 0.05, "%.3f s for 4,000 items, %.3f s for 32,000", few, many);
    end();
}
END_TEST

/* A string that no item begins with can be none of them: its language decides about tokens. */
START_TEST(words_of_unique_items)
{
    bool in_string;
    start();
    lang letter = lang_char_range(s.languages, 'a', 'z');
    uint32_t item = made_string(&s, lang_repeat(s.languages, letter, 1, 20));
    s.root = made_array(&s, NODE_NONE, (struct array_shape){.max = SHAPE_NO_LIMIT, .unique = 1},
                        &item, 1);
    open_with(JSON_COMPACT);
    reader_read(&k, "[\"abc\",\"abd\",\"a", 15);
    ck_assert_uint_eq(k.r.word(k.r.self, &k.t, &k.p, 16, &in_string), LANG_NONE);
    reader_read(&k, "[\"abc\",\"abd\",\"ac", 16);
    ck_assert_uint_ne(k.r.word(k.r.self, &k.t, &k.p, 16, &in_string), LANG_NONE);
    ck_assert(in_string);
    end();
}
END_TEST

/* Objects of a boolean and a color: six values, of which at least five come. */
START_TEST(unique_objects)
{
    start();
    uint32_t ok = made_add(&s, (struct node){.literals = SHAPE_TRUE | SHAPE_FALSE});
    uint32_t color = made_string(&s, made_texts(&s, "red|green"));
    const struct by_name members[] = {{"a", ok, true}, {"c", color, false}};
    uint32_t item = made_object(&s, NODE_NONE, 0, SHAPE_NO_LIMIT, members, 2, NULL, 0);
    s.root =
        made_array(&s, NODE_NONE,
                   (struct array_shape){.min = 5, .max = SHAPE_NO_LIMIT, .unique = 1}, &item, 1);
    open_with(0);
    takes("[{\"a\":true},{\"a\":true,\"c\":\"red\"},{\"a\":true,\"c\":\"green\"},{\"a\":false},{"
          "\"a\":false,\"c\":\"red\"}]");
    refuses("[{\"a\":true},{\"a\":true", "}");
    refuses("[{\"a\":true},{\"a\":true,\"c\":\"red\"},{\"a\":true,\"c\":\"green\"},{\"a\":", "t");
    char out[4096];
    for (uint64_t seed = 0; seed < 50; seed++)
        ck_assert_msg(reader_walk(&k, seed, 40, out, sizeof out) != SIZE_MAX, "%s", out);
    end();
}
END_TEST

/* An array of unique items in another one: after any first item a number must come, and the search for
 * an end must not follow the endless other items. */
START_TEST(unique_that_contain)
{
    char out[4096];
    start();
    uint32_t number = made_number(&s, made_integers(&s, 1));
    const uint32_t items[] = {NODE_ANY, number};
    uint32_t item = made_array(&s, NODE_NONE,
                               (struct array_shape){.max = 4,
                                                    .unique = 1,
                                                    .n_contains = 1,
                                                    .contains_min = {1},
                                                    .contains_max = {SHAPE_NO_LIMIT}},
                               items, 2);
    s.root = made_array(&s, NODE_NONE, (struct array_shape){.max = 3, .unique = 1}, &item, 1);
    open_with(0);
    takes("[[true,1],[1,true]]");
    refuses("[[true,1],[true,1", "]");
    refuses("[[true,1,", "t");
    for (uint64_t seed = 0; seed < 50; seed++)
        ck_assert_msg(reader_walk(&k, seed, 40, out, sizeof out) != SIZE_MAX, "%s", out);
    end();
}
END_TEST

/* A key pattern of two keys, both of which must come: the second one is forced. */
START_TEST(few_keys)
{
    start();
    uint32_t text = made_string(&s, LANG_CHARS);
    const struct member_class few = {made_texts(&s, "ab|ac"), text, 0, 2};
    s.root = made_object(&s, NODE_NONE, 2, SHAPE_NO_LIMIT, NULL, 0, &few, 1);
    open_with(0);
    takes("{\"ac\":\"\",\"ab\":\"\"}");
    refuses("{\"ac\":\"\",\"a", "c");
    refuses("{\"ac\":\"\"", "}");
    refuses("{\"ac\":\"\",\"ab\":\"\"", ",");
    end();
}
END_TEST

/* Characters are counted, whatever their escapes. */
START_TEST(strings_of_three_characters)
{
    const char *text[] = {"\"abc\"", "\"\\u00e9\xf0\x9f\x98\x80\\n\"",
                          "\"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\""};
    start();
    lang one = lang_char_range(s.languages, 0, 0x10ffff);
    s.root = made_string(&s, lang_repeat(s.languages, one, 3, 3));
    open_with(0);
    ALL(takes, text);
    refuses("\"abc", "\\");
    refuses("\"\\ud83d\\ude00b", "\"");
    end();
    start();
    s.root = made_string(
        &s, lang_repeat(s.languages, lang_char_range(s.languages, 0x10400, 0x107ff), 1, 1));
    open_with(0);
    takes("\"\\uD801\\uDC12\"");
    refuses("\"\\uD80", "2");
    refuses("\"", "a");
    end();
}
END_TEST

/* ---- walks: no dead end, going back, compact tracks ------------------------------------------ */

static void build(int which)
{
    start();
    if (which == 1)
        person();
    if (which == 2) {
        const uint32_t any = NODE_ANY;
        s.root = made_array(&s, NODE_NONE, (struct array_shape){.min = 1, .max = 5, .unique = 1},
                            &any, 1);
    }
}

START_TEST(walks)
{
    static char out[20000];
    build(_i);
    open_with(_i == 0 ? JSON_ANY_ORDER : 0);
    for (uint64_t seed = 0; seed < 60; seed++) {
        const size_t n = reader_walk(&k, seed, 10 * seed, out, sizeof out);
        ck_assert_msg(n != SIZE_MAX, "%s", out);
        ck_assert(n == sizeof out || reader_read(&k, out, n) == n + 1);
    }
    end();
}
END_TEST

/* From any place, what follows is the same after going on and back, and on a compact track. */
START_TEST(back_and_compact)
{
    static char out[4000];
    static struct place at[sizeof out + 1];
    build(_i);
    open_with(0);
    for (uint64_t seed = 0; seed < 20; seed++) {
        const size_t n = reader_walk(&k, seed, 200, out, sizeof out);
        reader_read(&k, "", 0);
        for (size_t i = 0; i < n; i++) {
            at[i] = k.p;
            k.r.step(k.r.self, &k.t, &k.p, (unsigned char)out[i]);
        }
        at[n] = k.p;
        struct track small = {.limit = 1 << 20};
        const size_t from = n / 3;
        struct place p[3] = {at[from], at[n / 2], at[n]};
        ck_assert(k.r.compact(k.r.self, &k.t, &small, p, 3) == STEP_ALIVE);
        ck_assert(p[2].used <= at[n].used);
        ck_assert(k.r.signature(k.r.self, &small, &p[1]) ==
                  k.r.signature(k.r.self, &k.t, &at[n / 2]));
        struct place q = p[0];
        for (size_t i = from; i < n; i++) {
            ck_assert(k.r.signature(k.r.self, &small, &q) == k.r.signature(k.r.self, &k.t, &at[i]));
            struct place r = at[i];
            for (unsigned c = 0; c < 256; c += 5) {
                struct place x = q, y = r;
                ck_assert(k.r.step(k.r.self, &small, &x, (unsigned char)c) ==
                          k.r.step(k.r.self, &k.t, &y, (unsigned char)c));
            }
            k.r.step(k.r.self, &k.t, &r, (unsigned char)out[i]);
            ck_assert(k.r.step(k.r.self, &small, &q, (unsigned char)out[i]) == STEP_ALIVE);
        }
        free(small.bytes);
    }
    end();
}
END_TEST

/* The signature is that of the future: the past is forgotten where it does not matter. */
START_TEST(signatures)
{
    start();
    open_with(0);
    uint64_t a, b;
    reader_read(&k, "[\"a", 3);
    a = k.r.signature(k.r.self, &k.t, &k.p);
    reader_read(&k, "[\"bcd", 5);
    b = k.r.signature(k.r.self, &k.t, &k.p);
    ck_assert(a && a == b);
    reader_read(&k, "[1, [\"bcd", 9);
    b = k.r.signature(k.r.self, &k.t, &k.p);
    ck_assert(a != b);
    reader_read(&k, "[[1,2],3,", 9);
    a = k.r.signature(k.r.self, &k.t, &k.p);
    reader_read(&k, "[[1,2],", 7);
    b = k.r.signature(k.r.self, &k.t, &k.p);
    ck_assert(a == b);
    end();
}
END_TEST

/* Whatever the budget, an answer comes; where it is too small, it says so. */
START_TEST(small_budgets)
{
    static const char text[] = "{\"name\": \"a\", \"color\": \"red\", \"count\": 1, \"xy\": \"\"}";
    for (size_t bytes = 0; bytes < 40000; bytes += 97) {
        struct recognizer r;
        struct tern_error e;
        start();
        person();
        budget.bytes = bytes;
        if (json_recognizer_open(&r, &s, NULL, 0, &budget, &e)) {
            ck_assert_int_eq(e.code, TERN_LIMIT);
            continue;
        }
        reader_open(&k, r);
        r.begin(r.self, &k.t, &k.p);
        for (size_t i = 0; i < sizeof text - 1; i++) {
            enum step step = r.step(r.self, &k.t, &k.p, (unsigned char)text[i]);
            ck_assert(step != STEP_DEAD);
            if (step == STEP_NO_ROOM)
                break;
        }
        reader_close(&k);
    }
}
END_TEST

SUITE("json recognizer", TEST(any_value), TEST(blanks_have_one_style), TEST(members_in_order),
      TEST(alternatives), TEST(contains), TEST(unique_items), TEST(every_unique_item),
      TEST(many_unique_items), TEST(words_of_unique_items), TEST(unique_objects),
      TEST(unique_that_contain), TEST(few_keys), TEST(strings_of_three_characters),
      LOOP(walks, 0, 3), LOOP(back_and_compact, 0, 3), TEST(signatures), TEST(small_budgets))
