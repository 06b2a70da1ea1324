/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* Languages against sets: each operation is done on an expression and on the set of all short texts of
 * a small alphabet, and both must say the same of every text. */
#include "allocs.h"
#include "sample/language/language_parts.h"
#include "sample/language/regex.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget purse(void)
{
    return (struct budget){.bytes = (size_t)256 << 20, .steps = 4000000};
}

/* ---- the universe: texts of up to LONGEST of these characters ---- */

enum { N_CHARS = 3, LONGEST = 5, N_TEXTS = 364 };
static const char *const CHARS[N_CHARS] = {"a", "b", "\xC3\xA9"};
static struct text {
    unsigned char c[LONGEST], n;
    char bytes[2 * LONGEST + 1];
} texts[N_TEXTS];

typedef struct {
    unsigned char has[N_TEXTS];
} set;

static void make_texts(void)
{
    size_t n = 1;
    for (size_t i = 0; n < N_TEXTS; i++)
        for (unsigned char c = 0; c < N_CHARS && n < N_TEXTS; c++) {
            texts[n] = texts[i];
            texts[n].c[texts[n].n++] = c;
            strcat(texts[n++].bytes, CHARS[c]);
        }
}

static size_t number_of(const unsigned char *c, size_t n)
{
    size_t i = 0;
    for (size_t k = 0; k < n; k++)
        i = i * N_CHARS + c[k] + 1;
    return i;
}

static set concat(const set *a, const set *b)
{
    set r = {{0}};
    for (size_t i = 0; i < N_TEXTS; i++)
        for (size_t k = 0; k <= texts[i].n && !r.has[i]; k++)
            r.has[i] = a->has[number_of(texts[i].c, k)] &&
                       b->has[number_of(texts[i].c + k, texts[i].n - k)];
    return r;
}

static set repeat(const set *a, unsigned min, unsigned max)
{
    set r = {{0}}, power = {{1}};
    for (unsigned k = 0; k <= max && k <= min + LONGEST; k++) {
        for (size_t i = 0; k >= min && i < N_TEXTS; i++)
            r.has[i] |= power.has[i];
        power = concat(&power, a);
    }
    return r;
}

/* ---- random expressions ---- */

static uint32_t state;
static unsigned draw(unsigned n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
}

struct both {
    lang a;
    set s;
};

static struct both random_atom(struct languages *ls)
{
    struct both x = {LANG_NONE, {{0}}};
    unsigned kind = draw(8), min = draw(4), max = draw(3) ? min + draw(4) : LANG_MANY;
    if (kind < 3) {
        size_t i = 1 + draw(kind == 2 ? 30 : N_CHARS);
        x.a = lang_text(ls, texts[i].bytes, strlen(texts[i].bytes));
        x.s.has[i] = 1;
    } else if (kind < 5) {
        const uint32_t ranges[2][2] = {{'a', kind == 3 ? 'b' : 'a'}, {0xE9, 0xEB}};
        x.a = lang_chars(ls, ranges, 2);
        x.s.has[1] = x.s.has[3] = 1;
        x.s.has[2] = kind == 3;
    } else if (kind == 5) {
        x.a = LANG_BLANK;
        x.s.has[0] = 1;
    } else {
        x.a = lang_repeat(ls, ls->character, min, max);
        for (size_t i = 0; i < N_TEXTS; i++)
            x.s.has[i] = texts[i].n >= min && texts[i].n <= max;
    }
    return x;
}

static struct both combine(struct languages *ls, const struct both *x, const struct both *y)
{
    struct both r = *x;
    unsigned kind = draw(10), min = draw(3), max = draw(3) ? min + draw(4) : LANG_MANY;
    if (kind < 3) {
        r.a = lang_concat(ls, x->a, y->a);
        r.s = concat(&x->s, &y->s);
    } else if (kind < 5) {
        r.a = lang_repeat(ls, x->a, min, max);
        r.s = repeat(&x->s, min, max);
    } else if (kind == 5) {
        r.a = lang_and(ls, LANG_CHARS, lang_not(ls, x->a));
        for (size_t i = 0; i < N_TEXTS; i++)
            r.s.has[i] = !x->s.has[i];
    } else {
        r.a = kind < 8 ? lang_or(ls, x->a, y->a) : lang_and(ls, x->a, y->a);
        for (size_t i = 0; i < N_TEXTS; i++)
            r.s.has[i] = kind < 8 ? x->s.has[i] | y->s.has[i] : x->s.has[i] & y->s.has[i];
    }
    return r;
}

static bool accepts(struct languages *ls, lang a, const char *p)
{
    for (; *p && a != LANG_FAIL; p++)
        a = lang_step(ls, a, (unsigned char)*p);
    ck_assert(a != LANG_FAIL || !ls->budget->steps);
    return lang_accepts(ls, a);
}

/* Whether an accepting state can be reached, without any knowledge of expressions. -1: not found out. */
static int reaches_end(struct languages *ls, lang a)
{
    enum { MOST = 400 };
    lang found[MOST] = {a};
    static const unsigned char bytes[] = {'a', 'b', 'c', 0xC3, 0xA9, 0xAB, 0xB0, 0xE1, 0xF0, 0x90};
    size_t n = 1;
    for (size_t i = 0; i < n; i++) {
        if (lang_accepts(ls, found[i]))
            return 1;
        for (size_t k = 0; k < sizeof bytes; k++) {
            lang to = lang_derive(ls, found[i], bytes[k]);
            size_t j = 0;
            while (j < n && found[j] != to)
                j++;
            if (j == n && n == MOST)
                return -1;
            found[j] = to;
            n += j == n;
        }
    }
    return 0;
}

/* a and b go on with the same bytes, and accept the same texts, for n bytes. */
static void check_near(struct languages *ls, lang a, lang b, unsigned n)
{
    static const unsigned char bytes[] = {'a', 'b', 'c', 0xC3, 0xA9, 0xB0, 0xF0};
    if (a == LANG_FAIL || b == LANG_FAIL)
        return;
    ck_assert_int_eq(lang_accepts(ls, a), lang_accepts(ls, b));
    for (size_t i = 0; n && a != b && i < sizeof bytes; i++) {
        lang x = lang_step(ls, a, bytes[i]), y = lang_step(ls, b, bytes[i]);
        if (x != LANG_FAIL && y != LANG_FAIL)
            ck_assert_msg((x == LANG_NONE) == (y == LANG_NONE), "%u near %u by %02x", a, b,
                          bytes[i]);
        check_near(ls, x, y, n - 1);
    }
}

/* What lang_decide has decided needs hardly a search. */
static void check_decided(struct languages *ls, lang a, unsigned n)
{
    static const unsigned char bytes[] = {'a', 'b', 'c', 0xC3, 0xA9, 0xB0, 0xF0};
    uint64_t steps = ls->budget->steps;
    if (lang_is_live(ls, a) != LANG_YES)
        return;
    ck_assert(steps - ls->budget->steps < 1000);
    for (size_t i = 0; n && i < sizeof bytes; i++)
        check_decided(ls, lang_derive(ls, a, bytes[i]), n - 1);
}

static void check(struct languages *ls, const struct both *x)
{
    uint32_t count, expected = 0;
    int end = reaches_end(ls, x->a);
    enum lang_answer live = lang_is_live(ls, x->a);
    bool spent = !ls->budget->steps;
    ck_assert(spent || live != LANG_UNKNOWN);
    if (end >= 0 && !spent)
        ck_assert_int_eq(live == LANG_YES, end);
    for (size_t i = 0; i < N_TEXTS && !spent; i++) {
        expected += x->s.has[i];
        ck_assert_msg(accepts(ls, x->a, texts[i].bytes) == x->s.has[i], "node %u: %s", x->a,
                      texts[i].bytes);
    }
    spent = !lang_count(ls, x->a, 3, &count);
    ck_assert(spent || count <= 4);
    ck_assert(spent || count >= (expected < 4 ? expected : 4));
    for (unsigned n = 1; n < 4 && !spent; n++)
        check_near(ls, x->a, lang_near(ls, x->a, n), n);
    if (lang_decide(ls, x->a) == LANG_YES)
        check_decided(ls, x->a, 3);
}

START_TEST(expressions_are_sets)
{
    enum { POOL = 16, ROUNDS = 60 };
    struct both pool[POOL];
    struct budget b = purse();
    make_texts();
    state = (uint32_t)_i;
    struct languages *ls = languages_open(&b);
    for (size_t i = 0; i < POOL; i++)
        pool[i] = random_atom(ls);
    for (size_t i = 0; i < ROUNDS && b.steps; i++) {
        struct both *x = &pool[draw(POOL)], *y = &pool[draw(POOL)];
        struct both r = combine(ls, x, y);
        check(ls, &r);
        if (draw(4) && ls->n_nodes < 20000)
            pool[draw(POOL)] = r;
        else
            pool[draw(POOL)] = random_atom(ls);
    }
    languages_close(ls);
    ck_assert_uint_eq(b.bytes, purse().bytes);
}
END_TEST

/* ---- large bounds ---- */

enum { LARGE = 1000000 };

static lang regex(struct languages *ls, const char *pattern)
{
    return regex_compile(ls, pattern, strlen(pattern), false, NULL);
}

/* Patterns of a million characters are decided from what their parts are, not state by state. */
static const struct {
    const char *pattern;
    uint32_t min, max;
    enum lang_answer live;
} large[] = {
    {"^[a-z]+$", 3, LARGE, LANG_YES},
    {"^[a-z]{1,63}(\\.[a-z]{1,63})*$", LARGE, LARGE + 1000, LANG_YES},
    {"^[a-z]{1,63}$", 64, LARGE, LANG_NO},
    {"^x.{1000000}$", 0, LARGE, LANG_NO},
    {"^x.{999999}$", 0, LARGE, LANG_YES},
    {"^(ab)*$", 0, LARGE, LANG_YES},
    {"^(ab)*$", LARGE, LANG_MANY, LANG_YES},
    {"a", LARGE, LARGE, LANG_YES},
    {"^(.{1000}x)*$", LARGE, LARGE + 2000, LANG_YES},
    {"^[a-z]{1,500000}-?[0-9]{1,400000}$", 900002, LARGE, LANG_NO},
    {"^[a-z]{1,500000}-?[0-9]{1,400000}$", 900001, LARGE, LANG_YES},
};

START_TEST(large_bounds_are_not_counted)
{
    struct budget b = {.bytes = (size_t)4 << 20, .steps = 3000};
    struct languages *ls = languages_open(&b);
    lang length = lang_length(ls, 0, large[_i].min, large[_i].max);
    lang a = lang_and(ls, regex(ls, large[_i].pattern), length);
    ck_assert_int_eq(lang_decide(ls, a), LANG_YES);
    ck_assert_int_eq(lang_is_live(ls, a), large[_i].live);
    languages_close(ls);
}
END_TEST

/* (ab)* of an odd length: too many states to look at, and nothing else says so. */
START_TEST(what_cannot_be_proven_is_not_claimed)
{
    struct budget b = {.bytes = (size_t)4 << 20, .steps = 100000};
    struct languages *ls = languages_open(&b);
    lang a = lang_and(ls, regex(ls, "^(ab)*$"), lang_length(ls, 0, LARGE + 1, LARGE + 1));
    ck_assert_int_eq(lang_decide(ls, a), LANG_UNKNOWN);
    languages_close(ls);
    b.steps = 100000;
    ls = languages_open(&b);
    a = lang_and(ls, regex(ls, "^(ab)*$"), lang_length(ls, 0, 101, 101));
    ck_assert_int_eq(lang_decide(ls, a), LANG_YES);
    ck_assert_int_eq(lang_is_live(ls, a), LANG_NO);
    ck_assert_int_eq(lang_step(ls, a, 'a'), LANG_NONE);
    languages_close(ls);
}
END_TEST

/* States far from both bounds are one for a mask; near them they are not. */
START_TEST(masks_share_the_states_of_a_counter)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    lang a = lang_repeat(ls, ls->character, 0, LARGE), near = lang_near(ls, a, 20);
    ck_assert_int_eq(near, LANG_CHARS);
    for (size_t i = 0; i < 1000; i++)
        ck_assert_int_eq(lang_near(ls, a = lang_step(ls, a, 'x'), 20), near);
    a = lang_repeat(ls, ls->character, 0, 20);
    ck_assert_int_eq(lang_near(ls, a, 20), a);
    lang pattern = regex(ls, "^[a-z][a-z0-9-]*[a-z]$");
    a = lang_and(ls, pattern, lang_length(ls, 0, 2, LARGE));
    near = lang_near(ls, lang_step(ls, lang_step(ls, a, 'x'), 'x'), 20);
    a = lang_step(ls, lang_step(ls, a, 'x'), 'x');
    ck_assert_int_ne(near, a);
    for (size_t i = 0; i < 1000; i++)
        ck_assert_int_eq(lang_near(ls, a = lang_step(ls, a, 'x'), 20), near);
    languages_close(ls);
}
END_TEST

/* A bound is kept where a rest of the pattern comes to it within the bytes that a mask looks at. */
START_TEST(masks_keep_the_bounds_that_they_reach)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    lang a = lang_and(ls, regex(ls, "^a(bcdefgh)?$"), lang_length(ls, 0, 0, 4));
    check_near(ls, a, lang_near(ls, a, 3), 3);
    a = lang_and(ls, regex(ls, "^(aaaaa|bbbb)$"), lang_length(ls, 0, 5, LANG_MANY));
    check_near(ls, a, lang_near(ls, a, 3), 3);
    languages_close(ls);
}
END_TEST

START_TEST(subsets_and_texts)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    uint64_t first[4];
    lang a = regex(ls, "^(b|a|abc)$"), c = regex(ls, "^[a-c]+$");
    ck_assert_int_eq(lang_subset(ls, a, c), LANG_YES);
    ck_assert_int_eq(lang_subset(ls, c, a), LANG_NO);
    ck_assert_int_eq(lang_subset(ls, c, LANG_CHARS), LANG_YES);
    ck_assert_int_eq(lang_subset(ls, LANG_ALL, LANG_CHARS), LANG_NO);
    lang_first(ls, a, first);
    ck_assert_uint_eq(first[1], (uint64_t)3 << ('a' - 64));
    ck_assert_uint_eq(first[0] | first[2] | first[3], 0);
    languages_close(ls);
}
END_TEST

/* Whatever was read, a text is left, also where that is looked for: `without` is not closed by its form. */
static void check_rests(struct languages *ls, lang a, lang without, int depth)
{
    static const unsigned char bytes[] = "ab0\n\xC3\xA9\xE0\xA0\x80\xF4\x8F";
    if (a == LANG_NONE)
        return;
    ck_assert(has_flag(ls, a, LANG_CLOSED));
    ck_assert_int_eq(lang_is_live(ls, without), LANG_YES);
    for (size_t i = 0; depth && i + 1 < sizeof bytes; i++)
        check_rests(ls, lang_derive(ls, a, bytes[i]), lang_derive(ls, without, bytes[i]), depth - 1);
}

static bool is_closed(struct languages *ls, const char *const *patterns, size_t n)
{
    lang a = LANG_CHARS, other = regex(ls, "zzz");
    for (size_t i = 0; i < n; i++)
        a = lang_and(ls, a, regex(ls, patterns[i]));
    bool closed = has_flag(ls, a, LANG_CLOSED);
    if (closed)
        check_rests(ls, a, lang_and(ls, a, lang_not(ls, other)), 4);
    return closed;
}

/* Twenty patterns that match somewhere have texts in common: nobody counts their 2^20 states. */
START_TEST(patterns_that_match_anywhere_meet)
{
    static const char *const together[] = {"a.*b", "[0-9]", "\u00e9|\u0800a", "[^]{3,}", "ab|ba"};
    static const char *const apart[][2] = {{"a.*b", "^b"}, {"a.*b", "0$"}, {"^a", "^b"}, {"a", "^.{5}$"}};
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    ck_assert(is_closed(ls, together, sizeof together / sizeof *together));
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        is_closed(ls, apart[i], 2);
    lang a = LANG_CHARS;
    for (char text[] = "a.*A.*b"; text[3] < 'U'; text[3]++)
        a = lang_and(ls, a, regex(ls, text));
    b.steps = 10000;
    ck_assert_int_eq(lang_decide(ls, a), LANG_YES);
    ck_assert_int_eq(lang_is_live(ls, a), LANG_YES);
    /* rests of other characters have nothing in common */
    uint64_t low[4] = {0, 0, 0xFFFFFFFF, 0}, high[4] = {0, 0, 0xFFFFFFFF00000000, 0},
             all[4] = {0, 0, UINT64_MAX, 0};
    lang rest = lang_concat(ls, lang_set(ls, all), LANG_CHARS);
    lang x = lang_and(ls, lang_concat(ls, lang_set(ls, low), rest),
                      lang_concat(ls, lang_set(ls, high), rest));
    ck_assert(!has_flag(ls, x, LANG_CLOSED));
    ck_assert_int_eq(lang_is_live(ls, x), LANG_NO);
    languages_close(ls);
}
END_TEST

/* The union of n texts is what the texts are, and the same expression in any order. */
START_TEST(texts_are_united)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    struct lang_span list[64];
    uint32_t in = 0, random = (uint32_t)_i * 2654435761u;
    make_texts();
    for (uint32_t i = 0; i < 32; i++) {
        random = random * 1664525 + 1013904223;
        const struct text *t = &texts[(random >> 8) % (_i % 2 ? 40 : N_TEXTS)];
        list[i] = list[63 - i] = (struct lang_span){t->bytes, strlen(t->bytes)};
    }
    lang a = lang_texts(ls, list, 64);
    for (size_t i = 0; i < N_TEXTS; i++) {
        bool has = false;
        lang x = a;
        for (const char *c = texts[i].bytes; *c; c++)
            x = lang_step(ls, x, (unsigned char)*c);
        for (size_t k = 0; k < 64; k++)
            has |= list[k].n == strlen(texts[i].bytes) && !memcmp(list[k].p, texts[i].bytes, list[k].n);
        ck_assert_msg(lang_accepts(ls, x) == has, "%s", texts[i].bytes);
        in += has;
    }
    uint32_t n;
    ck_assert(lang_count(ls, a, 1000, &n));
    ck_assert_uint_eq(n, in);
    ck_assert_uint_eq(lang_texts(ls, list + _i % 64, 0), LANG_NONE);
    for (size_t i = 0; i < 32; i++) {
        struct lang_span x = list[i];
        list[i] = list[63 - i], list[63 - i] = x;
    }
    ck_assert_uint_eq(lang_texts(ls, list, 64), a);
    languages_close(ls);
}
END_TEST

static bool join_texts(void *arg, const char *p, size_t n)
{
    char *to = arg;
    strncat(to, p, n);
    strcat(to, "|");
    return strlen(to) < 40;
}

START_TEST(all_texts_come_in_order)
{
    struct budget b = purse();
    struct languages *ls = languages_open(&b);
    char found[100] = "";
    ck_assert(lang_each(ls, regex(ls, "^(b?|a|ab{0,2}c)$"), join_texts, found));
    ck_assert_str_eq(found, "|a|abbc|abc|ac|b|");
    ck_assert(!lang_each(ls, regex(ls, "^ba*b$"), join_texts, found));
    found[0] = 0;
    ck_assert(!lang_each(ls, regex(ls, "^[ab]{5}$"), join_texts, found));
    ck_assert(lang_each(ls, LANG_NONE, join_texts, found));
    languages_close(ls);
}
END_TEST

/* ---- leaves: numbers in which the digits' sum is a multiple of three ---- */

static uint32_t leaf_step(void *owner, uint32_t s, unsigned char byte)
{
    (void)owner;
    return byte < '0' || byte > '9' ? LEAF_DEAD : (s + byte - '0') % 3;
}
static bool leaf_accepts(void *owner, uint32_t s)
{
    (void)owner;
    return s == 0;
}
static uint32_t leaf_near(void *owner, uint32_t s, uint32_t n)
{
    (void)owner;
    (void)n;
    return s;
}
static const char *leaf_cuts(void *owner, uint32_t s)
{
    (void)owner;
    (void)s;
    return "0123456789:";
}
static bool leaf_lengths(void *owner, uint32_t s, struct leaf_lengths *out)
{
    (void)owner;
    (void)s;
    (void)out;
    return false;
}
static void leaf_close(void *owner)
{
    ++*(int *)owner;
}

START_TEST(leaves_are_languages)
{
    static const struct leaf_calls calls = {leaf_step,
                                            leaf_accepts,
                                            leaf_near,
                                            leaf_cuts,
                                            leaf_lengths,
                                            leaf_close,
                                            {(uint64_t)0x3FF << '0', 0, 0, 0}};
    struct budget b = purse();
    int closed = 0;
    struct languages *ls = languages_open(&b);
    ck_assert_ptr_null(lang_leaf_owner(ls));
    lang_set_leaf_owner(ls, &calls, &closed);
    ck_assert_ptr_eq(lang_leaf_owner(ls), &closed);
    lang a = lang_leaf(ls, 0), c = lang_concat(ls, lang_leaf(ls, 1), lang_text(ls, "x", 1));
    ck_assert(accepts(ls, a, "12") && accepts(ls, a, "") && !accepts(ls, a, "13"));
    ck_assert(accepts(ls, c, "2x") && !accepts(ls, c, "1x") && !accepts(ls, c, "2"));
    ck_assert(lang_step(ls, a, 'x') == LANG_NONE);
    a = lang_and(ls, a, regex(ls, "^[124]{1,2}$"));
    ck_assert_int_eq(lang_decide(ls, a), LANG_YES);
    ck_assert(accepts(ls, a, "12") && !accepts(ls, a, "3"));
    ck_assert_int_eq(lang_is_live(ls, lang_and(ls, a, regex(ls, "^1+$"))), LANG_NO);
    ck_assert_int_eq(lang_leaf(ls, LEAF_DEAD), LANG_NONE);
    ck_assert_uint_eq(lang_leaf(ls, LEAF_NO_BUDGET), LANG_FAIL);
    languages_close(ls);
    ck_assert_int_eq(closed, 1);
}
END_TEST

/* ---- the budget and memory ---- */

/* Everything once; true: nothing failed. */
static bool use_all(struct budget *b)
{
    struct languages *ls = languages_open(b);
    uint64_t first[4];
    uint32_t count;
    char found[200] = "";
    if (!ls)
        return false;
    lang a = regex(ls, "^(\\p{Lu}|[a-c]{0,300}|x(y|z$))+"), c = regex(ls, "^(abc|abd|ab){3,9}$");
    a = lang_and(ls, a, lang_not(ls, lang_or(ls, c, lang_length(ls, 0, 3, 5))));
    bool good = lang_decide(ls, a) == LANG_YES && lang_is_live(ls, a) != LANG_UNKNOWN;
    good &= lang_subset(ls, c, a) != LANG_UNKNOWN && lang_near(ls, a, 7) != LANG_FAIL;
    for (size_t i = 0; i < 40; i++)
        a = lang_step(ls, a, (unsigned char)"abc"[i % 3]);
    c = lang_step(ls, regex(ls, "^(abc|abd|a)?$"), 'a');
    good &= a != LANG_FAIL && c != LANG_FAIL;
    if (c != LANG_FAIL)
        lang_first(ls, c, first);
    struct lang_span list[] = {{"abcd", 4}, {"", 0}, {"abd", 3}, {"abc", 3}};
    good &= lang_texts(ls, list, 4) != LANG_FAIL;
    good &= lang_count(ls, c, 10, &count) && lang_each(ls, c, join_texts, found);
    languages_close(ls);
    return good;
}

START_TEST(every_failing_allocation_is_reported)
{
    size_t at = 0;
    for (bool good = false; !good; at++) {
        struct budget b = purse();
        allocs_start(at + 1, _i);
        good = use_all(&b);
        bool failed = allocs_count() > at;
        allocs_stop();
        ck_assert_uint_eq(allocs_live(), 0);
        ck_assert_uint_eq(b.bytes, purse().bytes);
        if (!failed)
            ck_assert(good);
        good &= !failed;
    }
    ck_assert_uint_gt(at, 20);
}
END_TEST

START_TEST(every_budget_is_kept)
{
    for (size_t bytes = 0, steps = 0; steps < 40000; steps += 1 + steps / 50, bytes += 4000) {
        struct budget b = {.bytes = _i ? bytes : (size_t)64 << 20, .steps = _i ? 1000000 : steps};
        const size_t before = b.bytes;
        bool good = use_all(&b);
        ck_assert_uint_eq(b.bytes, before);
        ck_assert(!b.no_memory);
        if (good)
            return;
    }
    ck_abort_msg("it never came to its end");
}
END_TEST

SUITE("language", LOOP(expressions_are_sets, 0, 100),
      LOOP(large_bounds_are_not_counted, 0, sizeof large / sizeof *large),
      TEST(what_cannot_be_proven_is_not_claimed), TEST(masks_share_the_states_of_a_counter),
      TEST(masks_keep_the_bounds_that_they_reach), TEST(subsets_and_texts),
      LOOP(texts_are_united, 0, 20), TEST(patterns_that_match_anywhere_meet),
      TEST(all_texts_come_in_order), TEST(leaves_are_languages),
      LOOP(every_failing_allocation_is_reported, 0, 2), LOOP(every_budget_is_kept, 0, 2))
