/* Classes of characters: see regex_class.h. */
#include "sample/language/regex_class.h"

#include "base/hex.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { LAST_CHAR = 0x10FFFF };

bool regex_refuse(struct regex_text *t, const char *at, const char *why)
{
    error_set(t->e, TERN_USAGE, "regular expression: byte %zu: %s", (size_t)(at - t->start), why);
    return false;
}

/* ---- ranges ---- */

bool ranges_add(struct regex_text *t, struct regex_ranges *r, uint32_t first, uint32_t last)
{
    if (r->n > r->from) { /* a million times the same is one range */
        uint32_t *before = r->p[r->n - 1];
        if (first >= before[0] && first <= before[1] + 1) {
            before[1] = last > before[1] ? last : before[1];
            return true;
        }
    }
    struct budget *b = languages_budget(t->ls);
    if (!budget_step(b, 1) || !budget_grow(b, &r->p, &r->capacity, r->n + (size_t)1, sizeof *r->p))
        return budget_refuse(b, t->e, "regular expression"), false;
    r->p[r->n][0] = first;
    r->p[r->n++][1] = last;
    return true;
}

static int by_first(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Ranges from r->from on ascend and do not touch. */
static void ranges_sort(struct regex_ranges *r)
{
    uint32_t to = r->from;
    if (r->n > r->from)
        qsort(r->p + r->from, r->n - r->from, sizeof *r->p, by_first);
    for (uint32_t i = r->from; i < r->n; i++) {
        uint32_t *last = to > r->from ? r->p[to - 1] : NULL;
        if (last && r->p[i][0] <= last[1] + 1)
            last[1] = r->p[i][1] > last[1] ? r->p[i][1] : last[1];
        else
            memmove(r->p[to++], r->p[i], sizeof *r->p);
    }
    r->n = to;
}

/* Everything else, in the place of the ranges from r->from on. */
static bool ranges_negate(struct regex_text *t, struct regex_ranges *r)
{
    uint32_t next = 0, to = r->from;
    ranges_sort(r);
    for (uint32_t i = r->from; i < r->n; i++) {
        uint32_t first = r->p[i][0], last = r->p[i][1];
        if (first > next) {
            r->p[to][0] = next;
            r->p[to++][1] = first - 1;
        }
        next = last + 1;
    }
    r->n = to;
    return next > LAST_CHAR || ranges_add(t, r, next, LAST_CHAR);
}

/* ---- escapes ---- */

static bool read_hex(struct regex_text *t, size_t n, uint32_t *c)
{
    if ((size_t)(t->end - t->at) < n || !hex_read(t->at, n, c))
        return false;
    t->at += n;
    return true;
}

/* Behind \u: four digits, two such escapes for a pair, or {...}. */
static bool read_unicode(struct regex_text *t, uint32_t *c)
{
    const char *from = t->at;
    uint32_t low;
    if (t->at < t->end && *t->at == '{') {
        *c = 0;
        for (t->at++; t->at < t->end && hex_digit(*t->at) >= 0 && *c <= LAST_CHAR; t->at++)
            *c = *c << 4 | (uint32_t)hex_digit(*t->at);
        if (t->at == from + 1 || *c > LAST_CHAR || t->at == t->end || *t->at != '}')
            return regex_refuse(t, from, "\\u{...} needs a code point in hexadecimal digits");
        t->at++;
        return true;
    }
    if (!read_hex(t, 4, c))
        return regex_refuse(t, from, "\\u needs four hexadecimal digits");
    from = t->at;
    if (*c >= 0xD800 && *c < 0xDC00 && t->end - t->at >= 6 && t->at[0] == '\\' && t->at[1] == 'u') {
        t->at += 2;
        if (read_hex(t, 4, &low) && low >= 0xDC00 && low < 0xE000)
            *c = 0x10000 + ((*c & 0x3FF) << 10 | (low & 0x3FF));
        else
            t->at = from;
    }
    return true;
}

/* \d \w \s and their complements. */
static bool read_shorthand(struct regex_text *t, char name, struct regex_ranges *r)
{
    static const uint32_t digit[][2] = {{'0', '9'}};
    static const uint32_t word[][2] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const uint32_t space[][2] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    char low = (char)(name | 32);
    const uint32_t(*p)[2] = low == 'd' ? digit : low == 'w' ? word : space;
    size_t n = low == 'd' ? 1 : low == 'w' ? 4 : 10;
    r->from = r->n;
    for (size_t i = 0; i < n; i++)
        if (!ranges_add(t, r, p[i][0], p[i][1]))
            return false;
    return low == name || ranges_negate(t, r);
}

/* \p{...} and \P{...}, behind the letter. */
static bool read_property(struct regex_text *t, bool negated, struct regex_ranges *r)
{
    const char *from = t->at, *close = from;
    while (close < t->end && *close != '}')
        close++;
    if (from == t->end || *from != '{' || close == t->end)
        return regex_refuse(t, from, "\\p needs a property between braces");
    t->at = close + 1;
    r->from = r->n;
    return regex_property(t, from + 1, (size_t)(close - from - 1), r) &&
           (!negated || ranges_negate(t, r));
}

/* One character behind '\\' that stands for itself or a control character. */
static bool read_char_escape(struct regex_text *t, uint32_t *c)
{
    static const char names[] = "tnvfr", values[] = "\t\n\v\f\r";
    const char *from = t->at, *name;
    char letter = *t->at++;
    bool digit_follows = t->at < t->end && *t->at >= '0' && *t->at <= '9';
    *c = (unsigned char)letter;
    if (letter && (name = strchr(names, letter)))
        return *c = (unsigned char)values[name - names], true;
    if (letter == '0' && !digit_follows)
        return *c = 0, true;
    if (letter == 'u')
        return read_unicode(t, c);
    if (letter == 'x')
        return read_hex(t, 2, c) || regex_refuse(t, from, "\\x needs two hexadecimal digits");
    if (letter == 'c' && t->at < t->end && (*t->at | 32) >= 'a' && (*t->at | 32) <= 'z')
        return *c = *t->at++ & 31, true;
    if (letter >= '0' && letter <= '9')
        return regex_refuse(t, from - 1, "references to groups are not regular");
    if (letter == 'k')
        return regex_refuse(t, from - 1, "references to groups are not regular");
    if ((letter | 32) >= 'a' && (letter | 32) <= 'z')
        return regex_refuse(t, from - 1, "unknown escape");
    if (*c >= 0x80)
        return regex_refuse(t, from - 1, "unknown escape");
    return true;
}

/* An escape, at its '\\'. *single: it is the one character *c; else its class was added to r. */
static bool read_escape(struct regex_text *t, struct regex_ranges *r, bool *single, uint32_t *c)
{
    if (++t->at == t->end)
        return regex_refuse(t, t->at - 1, "nothing behind the backslash");
    char name = *t->at;
    *single = false;
    if (name == 'p' || name == 'P')
        return t->at++, read_property(t, name == 'P', r);
    if (name && strchr("dDwWsS", name))
        return t->at++, read_shorthand(t, name, r);
    *single = true;
    return read_char_escape(t, c);
}

/* ---- classes ---- */

/* A character, or an escape, at t->at. In brackets \b and \- are characters. */
static bool read_one(struct regex_text *t, bool inside, struct regex_ranges *r, bool *single,
                     uint32_t *c)
{
    size_t len;
    *single = true;
    if (*t->at == '\\') {
        if (inside && t->end - t->at > 1 && t->at[1] == 'b')
            return t->at += 2, *c = 8, true;
        if (!inside && t->end - t->at > 1 && (t->at[1] | 32) == 'b')
            return regex_refuse(t, t->at, "word boundaries (\\b, \\B) are not supported");
        return read_escape(t, r, single, c);
    }
    *c = unicode_decode(t->at, (size_t)(t->end - t->at), &len);
    if (*c == UNICODE_BAD)
        return regex_refuse(t, t->at, "not UTF-8");
    t->at += len;
    return true;
}

/* One member of brackets: a character, a class, or a range. */
static bool read_member(struct regex_text *t, struct regex_ranges *r)
{
    const char *from = t->at;
    bool single, second;
    uint32_t c, last;
    if (!read_one(t, true, r, &single, &c))
        return false;
    r->from = 0;
    bool dash = t->end - t->at >= 2 && t->at[0] == '-' && t->at[1] != ']';
    if (!single)
        return true;
    if (!dash)
        return ranges_add(t, r, c, c);
    t->at++;
    if (!read_one(t, true, r, &second, &last))
        return false;
    r->from = 0;
    if (!second) /* [a-\w]: the dash is one */
        return ranges_add(t, r, c, c) && ranges_add(t, r, '-', '-');
    if (last < c)
        return regex_refuse(t, from, "the range of characters ends before it begins");
    return ranges_add(t, r, c, last);
}

static bool read_brackets(struct regex_text *t, struct regex_ranges *r)
{
    const char *from = t->at++;
    bool negated = t->at < t->end && *t->at == '^';
    t->at += negated;
    while (t->at < t->end && *t->at != ']')
        if (!read_member(t, r))
            return false;
    if (t->at == t->end)
        return regex_refuse(t, from, "'[' without ']'");
    t->at++;
    r->from = 0;
    return !negated || ranges_negate(t, r);
}

/* Any character but those that end a line. */
static bool read_dot(struct regex_text *t, struct regex_ranges *r)
{
    static const uint32_t ends[][2] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    t->at++;
    for (size_t i = 0; i < 3; i++)
        if (!ranges_add(t, r, ends[i][0], ends[i][1]))
            return false;
    return ranges_negate(t, r);
}

/* Half of a surrogate pair is in no text. */
static lang lang_char(struct languages *ls, uint32_t c)
{
    char bytes[4];
    return c >= 0xD800 && c < 0xE000 ? LANG_NONE : lang_text(ls, bytes, unicode_encode(c, bytes));
}

lang regex_class(struct regex_text *t)
{
    struct regex_ranges r = {0};
    bool single = false;
    uint32_t c = 0;
    bool good = *t->at == '['   ? read_brackets(t, &r)
                : *t->at == '.' ? read_dot(t, &r)
                                : read_one(t, false, &r, &single, &c);
    r.from = 0;
    lang a = LANG_FAIL;
    if (good) {
        ranges_sort(&r);
        a = single ? lang_char(t->ls, c) : lang_chars(t->ls, (const uint32_t(*)[2])r.p, r.n);
        if (a == LANG_FAIL)
            budget_refuse(languages_budget(t->ls), t->e, "regular expression");
    }
    budget_free(languages_budget(t->ls), r.p, r.capacity * sizeof *r.p);
    return a;
}
