/* Pattern scanners: see patterns.h. The alternatives of an expression are tried in their order, as
 * a backtracking engine does; comments give the alternative. L, N, S are its \p{L}, \p{N}, \s. */
#include "text/patterns.h"

#include "base/keys.h"
#include "text/unicode.h"

enum { L = UNICODE_LETTER, N = UNICODE_NUMBER, S = UNICODE_SPACE };

static unsigned class_at(const char *text, size_t at, size_t n, size_t *len)
{
    return unicode_class(unicode_decode(text + at, n - at, len));
}

/* End of the longest run from `at` of characters that are (want) or are not of the classes. */
static size_t run(const char *text, size_t at, size_t n, unsigned classes, bool want)
{
    size_t len;
    while (at < n && ((class_at(text, at, n, &len) & classes) != 0) == want)
        at += len;
    return at;
}

static bool newline(char c)
{
    return c == '\r' || c == '\n';
}

/* 's|'t|'re|'ve|'m|'ll|'d, and with `fold` also in capitals and with U+017F for s. */
static size_t contraction(const char *text, size_t at, size_t n, bool fold)
{
    static const char *const tails[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const char *p = text + at + 1;
    if (text[at] != '\'')
        return at;
    if (fold && n - at >= 3 && memcmp(p, "\xC5\xBF", 2) == 0)
        return at + 3;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t len = strlen(tails[i]), same = 0;
        while (same < len && at + 1 + same < n &&
               (p[same] == tails[i][same] || (fold && (p[same] | 32) == tails[i][same])))
            same++;
        if (same == len)
            return at + 1 + len;
    }
    return at;
}

/* \s+(?!\S)|\s+ : a run of whitespace leaves its last character to the word that follows it. */
static size_t spaces(const char *text, size_t at, size_t n)
{
    size_t len, last = at, end = at;
    while (end < n && class_at(text, end, n, &len) & S) {
        last = end;
        end += len;
    }
    return end == n || last == at ? end : last;
}

/* \s*[\r\n]+ : through the last line break of the run of whitespace. */
static size_t lines(const char *text, size_t at, size_t n)
{
    size_t end = run(text, at, n, S, true);
    while (end > at && !newline(text[end - 1]))
        end--;
    return end;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t gpt2(const char *text, size_t at, size_t n)
{
    size_t len, from = at + (text[at] == ' '), end = contraction(text, at, n, false);
    if (end > at)
        return end;
    unsigned class = from < n ? class_at(text, from, n, &len) : S;
    if (class & L)
        return run(text, from, n, L, true);
    if (class & N)
        return run(text, from, n, N, true);
    if (!(class & S))
        return run(text, from, n, L | N | S, false);
    return spaces(text, at, n);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t cl100k(const char *text, size_t at, size_t n, int digits)
{
    size_t len, next, end = contraction(text, at, n, true);
    if (end > at)
        return end;
    unsigned class = class_at(text, at, n, &len), follows = 0;
    if (at + len < n)
        follows = class_at(text, at + len, n, &next);
    if (class & L || (follows & L && !(class & N) && !newline(text[at])))
        return run(text, class & L ? at : at + len, n, L, true);
    if (class & N) {
        for (end = at; digits-- && end < n && class_at(text, end, n, &len) & N;)
            end += len;
        return end;
    }
    size_t from = at + (text[at] == ' ');
    end = run(text, from, n, L | N | S, false);
    if (end > from) {
        while (end < n && newline(text[end]))
            end++;
        return end;
    }
    end = lines(text, at, n);
    return end > at ? end : spaces(text, at, n);
}

static size_t llama3(const char *text, size_t at, size_t n)
{
    return cl100k(text, at, n, 3);
}

static size_t qwen2(const char *text, size_t at, size_t n)
{
    return cl100k(text, at, n, 1);
}

static const struct {
    const char *text;
    size_t (*match)(const char *text, size_t at, size_t n);
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", gpt2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     llama3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     qwen2},
};

int pattern_find(const char *p, size_t n)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (text_is(p, n, patterns[i].text))
            return (int)i;
    return -1;
}

size_t pattern_match(int pattern, const char *text, size_t at, size_t n)
{
    return patterns[pattern].match(text, at, n);
}
