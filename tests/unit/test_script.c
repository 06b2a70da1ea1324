/* Scripts around JSON values: choices, triggers, calls. */
#include "made.h"
#include "suite.h"

#include <stdio.h>
#include <string.h>

static struct budget budget;
static struct shapes s;
static struct script script;
static struct reader k;

static void start(void)
{
    budget = (struct budget){.bytes = 64 << 20, .steps = 100 * 1000 * 1000};
    s = made_open(&budget);
    script_open(&script, &budget);
}

static void open_it(void)
{
    struct recognizer r;
    struct tern_error e;
    enum tern_status status = json_recognizer_open(&r, &s, &script, 0, &budget, &e);
    ck_assert_msg(status == TERN_OK, "%s", e.text);
    reader_open(&k, r);
}

static void end(void)
{
    reader_close(&k);
    ck_assert_uint_eq(budget.bytes, 64 << 20);
}

static void takes(const char *text)
{
    const size_t n = strlen(text), got = reader_read(&k, text, n);
    ck_assert_msg(got == n + 1, "%s: stopped at %zu of %zu", text, got, n);
}

/* It goes on, but must not end here. */
static void begins(const char *text)
{
    const size_t n = strlen(text), got = reader_read(&k, text, n);
    ck_assert_msg(got == n, "%s: stopped at %zu of %zu", text, got, n);
}

static void refuses(const char *good, const char *byte)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", good, byte);
    const size_t n = strlen(good), got = reader_read(&k, text, strlen(text));
    ck_assert_msg(got == n, "%s: stopped at %zu, want %zu", text, got, n);
}

static lang text_of(const char *text)
{
    return made_text(&s, text);
}

START_TEST(choices)
{
    start();
    uint32_t last = script_state(&script);
    script_words(&script, 0, last, script_choice(s.languages, "yes|no|a\\|b\\\\|", 14));
    script_accept(&script, last);
    open_it();
    takes("yes");
    takes("no");
    takes("a|b\\");
    takes("");
    begins("ye");
    refuses("", "m");
    refuses("no", "w");
    refuses("yes", "|");
    end();
}
END_TEST

/* One of two functions, then its own arguments: <call>NAME(VALUE)</call>, as often as wanted. */
static void calls(void)
{
    uint32_t begin = script_state(&script), after = script_state(&script);
    const char *const names[] = {"add", "ask"};
    uint32_t number = made_number(&s, made_integers(&s, 3)), text = made_string(&s, LANG_CHARS);
    const uint32_t list =
        made_array(&s, NODE_NONE, (struct array_shape){.min = 2, .max = 2}, &number, 1);
    const uint32_t nodes[] = {list, text};
    script_words(&script, 0, begin, text_of("\xff<call>"));
    for (size_t i = 0; i < 2; i++) {
        uint32_t named = script_state(&script), closing = script_state(&script);
        char name[8];
        snprintf(name, sizeof name, "%s(", names[i]);
        script_words(&script, begin, named, text_of(name));
        script_hole(&script, named, closing, nodes[i], SCRIPT_JSON);
        script_words(&script, closing, after, text_of(")\xff</call>"));
    }
    script_words(&script, after, begin, text_of("\xff<call>"));
    script_accept(&script, after);
}

START_TEST(calls_in_a_loop)
{
    start();
    calls();
    open_it();
    takes("\xff<call>add([1, 2])\xff</call>");
    takes("\xff<call>ask(\"why?\")\xff</call>\xff<call>add([3,4])\xff</call>");
    begins("\xff<call>add([1, 2])");
    refuses("", "a");
    refuses("\xff<call>a", "c");
    refuses("\xff<call>add(", "\"");
    refuses("\xff<call>ask(", "[");
    refuses("\xff<call>add([1", "]");
    refuses("\xff<call>ask(\"\")", ")");
    end();
}
END_TEST

/* Text is free until the trigger; then it is bound. */
START_TEST(triggers)
{
    for (int may_end = 0; may_end < 2; may_end++) {
        start();
        uint32_t bound = script_state(&script), last = script_state(&script);
        script_until(&script, s.languages, 0, bound, LANG_CHARS, "<<a", 3, may_end);
        script_hole(&script, bound, last, NODE_ANY, SCRIPT_JSON);
        script_accept(&script, last);
        open_it();
        takes("<<a1");
        takes("so <<<a{\"x\": [1]}");
        takes("<< a <<\xc3\xa9<<a[]");
        begins("<<a{\"<<a");
        refuses("<<a", "<");
        refuses("<<<a1", "<");
        refuses("so ", "\xff");
        (may_end ? takes : begins)("no trigger <<");
        end();
    }
}
END_TEST

/* A number ends where a text that follows begins; the longer number wins. */
START_TEST(numbers_before_text)
{
    start();
    uint32_t a = script_state(&script), last = script_state(&script);
    script_hole(&script, 0, a, made_number(&s, made_integers(&s, 3)), SCRIPT_JSON);
    script_words(&script, a, last, made_texts(&s, " km|e|"));
    script_accept(&script, last);
    open_it();
    takes("12");
    takes("12 km");
    takes("7e");
    refuses("", "k");
    refuses("123", "4");
    refuses("12e", "1");
    end();
}
END_TEST

START_TEST(python)
{
    start();
    uint32_t last = script_state(&script);
    script_hole(&script, 0, last, NODE_ANY, SCRIPT_PYTHON);
    script_accept(&script, last);
    open_it();
    takes("{\"a\": [True, False, None], \"\\u00e9\\n\": -1.5}");
    refuses("", "t");
    refuses("[", "n");
    refuses("\"\\", "/");
    refuses("\"\\ud", "8");
    refuses("\"\xf0\x9f\x98\x80\\ud", "8");
    end();
}
END_TEST

/* Edges that lead nowhere are taken away; where no text is left, the script is refused. */
START_TEST(dead_edges)
{
    start();
    uint32_t trap = script_state(&script), last = script_state(&script);
    script_words(&script, 0, trap, text_of("a"));
    script_words(&script, trap, trap, text_of("a"));
    script_words(&script, 0, last, text_of("b"));
    script_accept(&script, last);
    open_it();
    takes("b");
    refuses("", "a");
    end();
    start();
    struct recognizer r;
    struct tern_error e;
    script_words(&script, 0, script_state(&script), text_of("a"));
    ck_assert_int_eq(json_recognizer_open(&r, &s, &script, 0, &budget, &e), TERN_USAGE);
    ck_assert_uint_eq(budget.bytes, 64 << 20);
}
END_TEST

START_TEST(walks)
{
    char out[4000];
    start();
    calls();
    open_it();
    for (uint64_t seed = 0; seed < 100; seed++) {
        const size_t n = reader_walk(&k, seed, 5 * seed, out, sizeof out);
        ck_assert_msg(n != SIZE_MAX, "%s", out);
        ck_assert(n == sizeof out || reader_read(&k, out, n) == n + 1);
    }
    end();
}
END_TEST

/* A state of a script has a word where only text goes on: masks are kept under its language. */
START_TEST(words)
{
    bool in_string;
    start();
    uint32_t bound = script_state(&script), last = script_state(&script);
    script_until(&script, s.languages, 0, bound, LANG_CHARS, "{{", 2, true);
    script_hole(&script, bound, last, NODE_ANY, SCRIPT_JSON);
    script_accept(&script, last);
    open_it();
    reader_read(&k, "some {", 6);
    lang a = k.r.word(k.r.self, &k.t, &k.p, 128, &in_string);
    ck_assert(a != LANG_NONE && !in_string && lang_step(k.r.languages, a, 'x') != LANG_NONE);
    const uint64_t signature = k.r.signature(k.r.self, &k.t, &k.p);
    reader_read(&k, "{ other text, {", 15);
    ck_assert_uint_eq(k.r.signature(k.r.self, &k.t, &k.p), signature);
    reader_read(&k, "{{", 2);
    ck_assert(k.r.word(k.r.self, &k.t, &k.p, 128, &in_string) == LANG_NONE);
    reader_read(&k, "{{\"a", 4);
    ck_assert(k.r.word(k.r.self, &k.t, &k.p, 128, &in_string) != LANG_NONE && in_string);
    ck_assert(k.r.same_end(k.r.self, &k.t, &k.p));
    end();
}
END_TEST

SUITE("script", TEST(choices), TEST(calls_in_a_loop), TEST(triggers), TEST(numbers_before_text),
      TEST(python), TEST(dead_edges), TEST(walks), TEST(words))
