/* Pattern scanners: see patterns.h. The alternatives of an expression are tried in their order, as
 * a backtracking engine does; comments give the alternative. L, N, S are its \p{L}, \p{N}, \s; U
 * and W its capital and small letters, to both of which belong letters without case and marks. */
#include "text/patterns.h"

#include "weights/keys.h"
#include "text/split_class.h"
#include "text/split_number.h"
#include "text/unicode.h"

enum {
    L = UNICODE_LETTER,
    N = UNICODE_NUMBER,
    S = UNICODE_SPACE,
    U = UNICODE_UPPER,
    W = UNICODE_LOWER,
    PS = UNICODE_SYMBOL,
    LM = U | W, /* [\p{L}\p{M}] */
};

/* What follows a run of other characters: [\r\n]*, [\r\n/]*, [\r\n/]? or nothing */
enum tail { TAIL_LINES, TAIL_SLASHES, TAIL_ONE, TAIL_NONE };

/* A pattern: its text, and the scanner with its parameters. */
struct pattern {
    const char *text;
    size_t (*match)(const struct pattern *self, const char *text, size_t at, size_t n);
    unsigned class; /* classes that it looks for */
    int number;     /* most characters of a kind in a row, or 0 */
};

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
static size_t gpt2(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
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

/* At most `most` characters of the classes. */
static size_t few(const char *text, size_t at, size_t n, unsigned classes, int most)
{
    size_t len;
    while (most-- && at < n && class_at(text, at, n, &len) & classes)
        at += len;
    return at;
}

/* ?[^\s\p{L}\p{N}]+ and its tail|\s*[\r\n]+|\s+(?!\S)|\s+ ; `known`: classes of other words */
static size_t others(const char *text, size_t at, size_t n, unsigned known, enum tail tail)
{
    size_t from = at + (text[at] == ' '), end = run(text, from, n, known | N | S, false);
    if (end > from) {
        bool slash = tail == TAIL_SLASHES || tail == TAIL_ONE;
        while (end < n && tail != TAIL_NONE && (newline(text[end]) || (slash && text[end] == '/')))
            if (end++, tail == TAIL_ONE)
                break;
        return end;
    }
    end = lines(text, at, n);
    return end > at ? end : spaces(text, at, n);
}

/* [^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+ and its tail|\s*[\r\n]+|\s+(?!\S)
 * |\s+ ; with class LM, [\p{L}\p{M}] for \p{L} of words */
static size_t words_tail(const struct pattern *self, const char *text, size_t at, size_t n,
                         enum tail tail)
{
    size_t len, next;
    unsigned class = class_at(text, at, n, &len), follows = 0;
    unsigned letter = self->class ? self->class : L;
    if (at + len < n)
        follows = class_at(text, at + len, n, &next);
    if (follows & letter && !(class & (L | N)) && !newline(text[at]))
        return run(text, at + len, n, letter, true);
    if (class & letter)
        return run(text, at, n, letter, true);
    return class & N ? few(text, at, n, N, self->number) : others(text, at, n, letter, tail);
}

static size_t words(const struct pattern *self, const char *text, size_t at, size_t n)
{
    return words_tail(self, text, at, n, TAIL_LINES);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d), then words */
static size_t cl100k(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t end = contraction(text, at, n, true);
    return end > at ? end : words(self, text, at, n);
}

static size_t seed(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t end = contraction(text, at, n, true);
    return end > at ? end : words_tail(self, text, at, n, TAIL_NONE);
}

/* \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} */
static size_t halves(const char *text, size_t at, size_t n)
{
    size_t len, count = 0, take = 512, end = at;
    for (; end < n && count <= 512 && class_at(text, end, n, &len) & S; end += len)
        count++;
    count -= count && end < n && count <= 512; /* the last of a run belongs to the word */
    while (take > count && take > 1)
        take /= 2;
    return few(text, at, n, S, (int)take);
}

/* cl100k, but for runs of whitespace */
static size_t jais2(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t end = cl100k(self, text, at, n);
    bool space = end > at && run(text, at, end, S, true) == end;
    return space && lines(text, at, n) == at ? halves(text, at, n) : end;
}

/* \p{L}\p{M}* and further ones, each straight behind the last or one space away */
static size_t phrase(const char *text, size_t at, size_t n)
{
    size_t len, end = at, from = at;
    while (from < n && class_at(text, from, n, &len) & L) {
        end = from + len;
        while (end < n && (class_at(text, end, n, &len) & (LM | L)) == LM)
            end += len;
        from = end + (end < n && text[end] == ' ');
    }
    return end;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}
 * | ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+ */
static size_t phrases(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    size_t len, end = contraction(text, at, n, true);
    if (end > at)
        return end;
    unsigned class = class_at(text, at, n, &len);
    size_t from = class & (L | N) || newline(text[at]) ? at : at + len;
    if ((end = phrase(text, from, n)) > from)
        return end;
    return class & N ? few(text, at, n, N, 1) : others(text, at, n, L, TAIL_ONE);
}

static size_t han_end(const char *text, size_t at, size_t n)
{
    size_t len;
    while (at < n && split_class_han(unicode_decode(text + at, n - at, &len)))
        at += len;
    return at;
}

/* Class in words of o200k, of which Han characters may be none */
static unsigned case_at(const char *text, size_t at, size_t n, bool apart, size_t *len)
{
    unsigned class = class_at(text, at, n, len);
    bool han = apart && class & L && split_class_han(unicode_decode(text + at, n - at, len));
    return han ? 0 : class;
}

static size_t case_run(const char *text, size_t at, size_t n, bool apart, unsigned classes)
{
    size_t len;
    while (at < n && case_at(text, at, n, apart, &len) & classes)
        at += len;
    return at;
}

/* U*W+ from `from`, or `from`. U* takes all it can, and gives back up to the last that is also W.
 */
static size_t small_end(const char *text, size_t from, size_t n, bool apart)
{
    size_t len, end = from, last = from;
    for (; end < n; end += len) {
        unsigned class = case_at(text, end, n, apart, &len);
        if (!(class & U))
            return class & W ? case_run(text, end, n, apart, W) : last;
        if (class & W)
            last = end + len;
    }
    return last;
}

/* [^\r\n\p{L}\p{N}]?U*W+ | [^\r\n\p{L}\p{N}]?U+W* , then the rest of the pattern. With `class`, a
 * contraction belongs to the word before it. */
static size_t case_words(const struct pattern *self, const char *text, size_t at, size_t n,
                         enum tail tail, bool apart)
{
    size_t len, end, next = at;
    unsigned class = class_at(text, at, n, &len);
    if (apart && (end = han_end(text, at, n)) > at)
        return end;
    if (!(class & (L | N)) && !newline(text[at]))
        next = at + len;
    end = small_end(text, next, n, apart);
    if (end == next)
        end = small_end(text, at, n, apart);
    if (end == at && (end = case_run(text, next, n, apart, U)) == next)
        end = case_run(text, at, n, apart, U);
    if (end > at)
        return self->class && end < n ? contraction(text, end, n, true) : end;
    return class & N ? few(text, at, n, N, self->number) : others(text, at, n, L, tail);
}

static size_t o200k(const struct pattern *self, const char *text, size_t at, size_t n)
{
    return case_words(self, text, at, n, TAIL_SLASHES, false);
}

/* Han characters are words of their own, and no slash follows others. */
static size_t kimi(const struct pattern *self, const char *text, size_t at, size_t n)
{
    return case_words(self, text, at, n, TAIL_LINES, true);
}

static bool is_ascii_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 * | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t deepseek3(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t len, end = at + 1, from = at + (text[at] == ' ');
    (void)self;
    unsigned class = class_at(text, at, n, &len);
    if (class & PS && text[at] > 0) {
        while (end < n && is_ascii_letter(text[end]))
            end++;
        if (end > at + 1)
            return end;
    }
    if (!(class & (LM | PS)) && !newline(text[at]) &&
        (end = run(text, at + len, n, LM, true)) > at + len)
        return end;
    if (class & LM)
        return run(text, at, n, LM, true);
    if ((end = run(text, from, n, PS, true)) > from) {
        while (end < n && newline(text[end]))
            end++;
        return end;
    }
    end = lines(text, at, n);
    return end > at ? end : spaces(text, at, n);
}

/* [class]+ or, with a number, [class]{1,number} */
static size_t classes(const struct pattern *self, const char *text, size_t at, size_t n)
{
    return self->number ? few(text, at, n, self->class, self->number)
                        : run(text, at, n, self->class, true);
}

/* \s?[class]+ */
static size_t spaced(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t len, end;
    if (class_at(text, at, n, &len) & S &&
        (end = run(text, at + len, n, self->class, true)) > at + len)
        return end;
    return run(text, at, n, self->class, true);
}

/* Whether c is in the class that the pattern spells out: characters, and ranges a-b. With `number`
 * all of them are capital or small letters, which is seen sooner. */
static bool spelled(const struct pattern *self, uint32_t c)
{
    const char *p = strchr(self->text, '[') + 1, *end = strrchr(self->text, ']');
    unsigned class = unicode_class(c);
    if (self->number && !(class & U) == !(class & W))
        return false;
    while (p < end) {
        size_t len;
        uint32_t low = unicode_decode(p, (size_t)(end - p), &len), high = low;
        p += len;
        if (*p == '-') {
            high = unicode_decode(p + 1, (size_t)(end - p), &len);
            p += 1 + len;
        }
        if (c >= low && c <= high)
            return true;
        if (c < 128 && low >= 128) /* ASCII comes first */
            return false;
    }
    return false;
}

/* [spelled]+ , and with `class` \s?[spelled]+ */
static size_t letters(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t len, from = at;
    if (self->class && class_at(text, at, n, &len) & self->class)
        from += len;
    size_t end = from;
    while (end < n && spelled(self, unicode_decode(text + end, n - end, &len)))
        end += len;
    if (end > from || from == at)
        return end;
    for (end = at; end < n && spelled(self, unicode_decode(text + end, n - end, &len));)
        end += len;
    return end;
}

/* \s+$ : to the end of the text or of a line. Where it does not match it matches nowhere in the
 * same run of whitespace, which is looked at once. */
static size_t trailing(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    if (at && unicode_class(split_class_before(text, at)) & S)
        return at;
    size_t end = run(text, at, n, S, true);
    if (end == n)
        return end;
    while (end > at && text[end] != '\n')
        end--;
    return end;
}

static size_t line_break(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    (void)n;
    return at + newline(text[at]);
}

/* [0-9][0-9][0-9] */
static size_t three_digits(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    for (size_t i = at; i < at + 3; i++)
        if (i >= n || text[i] < '0' || text[i] > '9')
            return at;
    return at + 3;
}

/* \d{1,3}(?=(?:\d{3})*\b) */
static size_t last_thirds(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    return split_number_end(text, at, n, true);
}

/* \p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})) */
static size_t thirds(const struct pattern *self, const char *text, size_t at, size_t n)
{
    (void)self;
    return split_number_end(text, at, n, false);
}

/* [^\n]+|[\n]+ */
static size_t line_or_breaks(const struct pattern *self, const char *text, size_t at, size_t n)
{
    bool breaks = text[at] == '\n';
    (void)self;
    while (at < n && (text[at] == '\n') == breaks)
        at++;
    return at;
}

/* ?[^(\s|.,!?…。，、।۔،)]+ */
static size_t bloom(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t len, from = at + (text[at] == ' '), end = from;
    (void)self;
    for (; end < n; end += len) {
        uint32_t c = unicode_decode(text + end, n - end, &len);
        static const uint32_t marks[] = {'(',    ')',    '|',    '.',    ',',   '!',   '?',
                                         0x2026, 0x3002, 0xFF0C, 0x3001, 0x964, 0x6D4, 0x60C};
        bool mark = (unicode_class(c) & S) != 0;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            mark |= c == marks[i];
        if (mark)
            break;
    }
    return end > from ? end : at;
}

/* Four classes, of which the first that holds the character takes its run */
static size_t east_asian(const struct pattern *self, const char *text, size_t at, size_t n)
{
    static const struct pattern parts[] = {{.text = "[\uAC00-\uD7A3\u3131-\u318E]"},
                                           {.text = "[\u2014\u2018\u2019\u201C\u201D\u2026\u3001-"
                                                    "\u303F\uFE30-\uFE4F\uFF01\uFF0C\uFF1A\uFF1B]"},
                                           {.text = "[\u3105-\u312F]"},
                                           {.text = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]"}};
    size_t end = at;
    (void)self;
    for (size_t i = 0; i < 4 && end == at; i++)
        end = letters(&parts[i], text, at, n);
    return end;
}

/* [\p{P}\$\+<=>\^~\|]+ */
static size_t marks(const struct pattern *self, const char *text, size_t at, size_t n)
{
    size_t len;
    for (; at < n; at += len)
        if (!(class_at(text, at, n, &len) & self->class) &&
            !(text[at] && strchr("$+<=>^~|", text[at])))
            break;
    return at;
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CL100K_WORDS(digits) \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
#define CL100K(digits) CONTRACTIONS "|" CL100K_WORDS(digits) "\\s+(?!\\S)|\\s+"
#define SEED(crlf)                                                                     \
    CONTRACTIONS "|[^" crlf "\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}" crlf \
                 "]+|\\s*[" crlf "]+|\\s+(?!\\S)|\\s+"
#define NO_HAN "&&[^\\p{Han}]"
#define KIMI_CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NO_HAN "]"
#define KIMI_SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NO_HAN "]"
#define KIMI                                                                                 \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_CAPITALS "*" KIMI_SMALL "+" CONTRACTIONS       \
    "?|[^\\r\\n\\p{L}\\p{N}]?" KIMI_CAPITALS "+" KIMI_SMALL "*" CONTRACTIONS "?|\\p{N}{1,3}" \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K(tail, digits)                                                                       \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"    \
    "+" tail "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}" \
    "\\p{M}]*" tail "|\\p{N}" digits                                                              \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* The published files have the characters CR and LF in these, not their escapes; both are known. */
#define DEEPSEEK3(crlf)                                                           \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^" crlf               \
    "\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[" crlf "]*|\\s*[" crlf \
    "]+|\\s+(?!\\S)|\\s+"

static const struct pattern patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", gpt2, 0,
     0},
    {CL100K("{1,3}"), cl100k, 0, 3},                    /* Llama 3, OLMo 2, Phi-4 */
    {CL100K(""), cl100k, 0, 1},                         /* Qwen2, StableLM 2 */
    {CL100K("+"), cl100k, 0, 1 << 30},                  /* MiniCPM5, behind \\p{N}{1,3} */
    {CL100K_WORDS("") "\\s+(?!\\S)|\\s+", words, 0, 1}, /* Ufakzeka */
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
     "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     cl100k, 0, 1},                                  /* Ling */
    {O200K(CONTRACTIONS "?", "{1,3}"), o200k, 1, 3}, /* gpt-oss, Phi-4-mini */
    {O200K("", ""), o200k, 0, 1},                    /* Tekken */
    {CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
     "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     cl100k, LM, 1}, /* Qwen3.5 */
    {KIMI, kimi, 1, 3},
    {O200K(CONTRACTIONS "?", ""), o200k, 1, 1}, /* Youtu, behind this one: */
    {"[\uAC00-\uD7A3\u3131-\u318E]+|["
     "\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B\uFF0C\u3001-"
     "\u303F\uFE30-\uFE4F]+|[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
     east_asian, 0, 0},
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     phrases, 0, 1},            /* EXAONE MoE */
    {SEED("\r\n"), seed, 0, 1}, /* Seed */
    {SEED("\\r\\n"), seed, 0, 1},
    {CONTRACTIONS
     "|" CL100K_WORDS("{1,3}") "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)"
                               "|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
                               "|\\s{1,2}(?!\\S)|\\s{1}",
     jais2, 0, 3},
    {"\\d{1,3}(?=(?:\\d{3})*\\b)", last_thirds, 0, 0},         /* Cohere, before O200K */
    {"[^\\n]+|[\\n]+", line_or_breaks, 0, 0},                  /* Laguna, before Qwen2's */
    {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", thirds, 0, 0}, /* Trinity, before this one: */
    {"[\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F\u2F00-"
     "\u2FDF\u0E40-"
     "\u0E7F\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-"
     "\u11FF]+",
     letters, 0, 0},
    {" ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+", bloom, 0, 0},
    {" ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+", bloom, 0, 0},
    {"\\w+", classes, UNICODE_WORD, 0}, /* Whitespace; a Split's \w is another */
    {"\\p{N}", classes, N, 1},
    {"\\p{N}+", classes, N, 0},
    {"\\p{N}{1,3}", classes, N, 3}, /* DeepSeek-V3 */
    {"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", letters, 0, 0},
    {DEEPSEEK3("\r\n"), deepseek3, 0, 0},
    {DEEPSEEK3("\\r\\n"), deepseek3, 0, 0},
    {"[\r\n]", line_break, 0, 0}, /* DeepSeek-V2 */
    {"[\\r\\n]", line_break, 0, 0},
    {"\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-"
     "\u02AF"
     "\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-"
     "\u03F5"
     "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA"
     "\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45"
     "\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE"
     "\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC"
     "\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-"
     "\u2134\u2139"
     "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-"
     "\u2CEE\u2CF2\u2CF3"
     "\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06"
     "\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3"
     "\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF"
     "\U0001E900-\U0001E943]+",
     letters, S, 1},
    {"\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", letters, S, 0},
    {"\\s+$", trailing, 0, 0},
    {"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+", letters, 0, 0},
    {"\\s?\\p{L}+", spaced, L, 0}, /* DeepSeek-Coder */
    {"\\s?\\p{P}+", spaced, UNICODE_PUNCT, 0},
    {"[0-9][0-9][0-9]", three_digits, 0, 0},                /* Falcon */
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", marks, UNICODE_PUNCT, 0}, /* llama.cpp's default */
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
    return patterns[pattern].match(&patterns[pattern], text, at, n);
}

bool pattern_again(int pattern, const char *text, size_t at, size_t n)
{
    return patterns[pattern].match != last_thirds || !split_number_within(text, at, n);
}
