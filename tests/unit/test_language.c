/* Languages against sets: each operation is done on an expression and on the set of all short texts of
 * a small alphabet, and both must say the same of every text. */
#include "sample/constraint/language_parts.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget purse(void)
{
    return (struct budget){(size_t)64 << 20, 1 << 26, false};
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
    ck_assert(a != LANG_FAIL);
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

static void check(struct languages *ls, const struct both *x)
{
    uint32_t count, expected = 0;
    int end = reaches_end(ls, x->a);
    enum lang_answer live = lang_is_live(ls, x->a);
    ck_assert(live != LANG_UNKNOWN);
    if (end >= 0)
        ck_assert_int_eq(live == LANG_YES, end);
    for (size_t i = 0; i < N_TEXTS; i++) {
        expected += x->s.has[i];
        ck_assert_msg(accepts(ls, x->a, texts[i].bytes) == x->s.has[i], "node %u: %s", x->a,
                      texts[i].bytes);
    }
    ck_assert(lang_count(ls, x->a, 3, &count));
    ck_assert_uint_ge(count, expected < 4 ? expected : 4);
    ck_assert_uint_le(count, 4);
}

START_TEST(expressions_are_sets)
{
    enum { POOL = 16, ROUNDS = 100 };
    struct both pool[POOL];
    struct budget b = purse();
    make_texts();
    state = (uint32_t)_i;
    struct languages *ls = languages_open(&b);
    for (size_t i = 0; i < POOL; i++)
        pool[i] = random_atom(ls);
    for (size_t i = 0; i < ROUNDS; i++) {
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

SUITE("language", LOOP(expressions_are_sets, 0, 4000))
