/* Thoughts and answers: see thoughts.h. */
#include "text/thoughts.h"

#include <string.h>

#include "text/chat.h"
#include "text/unicode.h"

static bool is_trimmed(const char *p, size_t n, unsigned how, size_t *len)
{
    uint32_t c = unicode_decode(p, n, len);
    if (how == TRIM_NEWLINES)
        return c == '\n';
    return c != UNICODE_BAD &&
           ((unicode_class(c) & UNICODE_BLANK) || (how == TRIM_SPACE && c >= 0x1C && c <= 0x1F));
}

const char *thoughts_trim(const char *p, size_t *n, unsigned left, unsigned right)
{
    size_t len, back;
    while (left && *n && is_trimmed(p, *n, left, &len))
        p += len, *n -= len;
    while (right && *n) {
        for (back = 1; back < 4 && back < *n && ((unsigned char)p[*n - back] & 0xC0) == 0x80;)
            back++;
        if (!is_trimmed(p + *n - back, back, right, &len) || len != back)
            break;
        *n -= back;
    }
    return p;
}

bool thoughts_is_blank(const char *p, size_t n)
{
    thoughts_trim(p, &n, TRIM_SPACE, TRIM_NOT);
    return n == 0;
}

const char *thoughts_find(const char *p, size_t n, struct mark what, bool last)
{
    const char *found = NULL;
    for (size_t i = 0; i + what.n <= n && (last || !found); i++)
        if (p[i] == *what.p && memcmp(p + i, what.p, what.n) == 0)
            found = p + i;
    return found;
}

/* The first end mark, where the text has a thought and a part before that */
static const char *thought_end(const struct thoughts *t, const char *p, size_t n)
{
    if (t->form & THOUGHTS_BOTH && !thoughts_find(p, n, t->begin, false))
        return NULL;
    return thoughts_find(p, n, t->end, false);
}

/* Takes the next piece of the answer off *p: text up to a mark. */
static struct mark next_piece(const struct thoughts *t, const char **p, const char *end)
{
    const char *at = *p, *begin, *stop;
    begin = thoughts_find(at, (size_t)(end - at), t->begin, false);
    stop = thoughts_find(at, (size_t)(end - at), t->end, false);
    if (begin && (!stop || begin < stop)) {
        *p = stop ? stop + t->end.n : end;
        return (struct mark){at, (size_t)(begin - at)};
    }
    *p = stop ? stop + t->end.n : end;
    return (struct mark){at, (size_t)((stop ? stop : end) - at)};
}

/* The answer where it is one piece: not of THOUGHTS_SPANS */
static struct mark answer_of(const struct thoughts *t, const char *p, size_t n)
{
    const char *end = thought_end(t, p, n);
    if (end && !(t->form & THOUGHTS_FIRST_END))
        end = thoughts_find(p, n, t->end, true);
    return end ? (struct mark){end + t->end.n, n - (size_t)(end + t->end.n - p)}
               : (struct mark){p, n};
}

static struct mark thinks_of(const struct thoughts *t, const char *p, size_t n)
{
    const char *end = thought_end(t, p, n), *begin;
    if (!end && t->form & THOUGHTS_SPANS && thoughts_find(p, n, t->begin, false))
        end = p + n;
    if (!end)
        return (struct mark){p, 0};
    begin = thoughts_find(p, (size_t)(end - p), t->begin, true);
    p = begin ? begin + t->begin.n : p;
    return (struct mark){p, (size_t)(end - p)};
}

bool thoughts_put_answer(const struct thoughts *t, const char *p, size_t n, struct buffer *out)
{
    const char *end = p + n;
    bool ok = true;
    struct mark piece = answer_of(t, p, n);
    if (!(t->form & THOUGHTS_SPANS))
        return buffer_add(out, piece.p, piece.n);
    while (p < end && ok) {
        piece = next_piece(t, &p, end);
        ok = buffer_add(out, piece.p, piece.n);
    }
    return ok;
}

bool thoughts_put_thinks(const struct thoughts *t, const char *p, size_t n, struct buffer *out)
{
    struct mark piece = thinks_of(t, p, n);
    return buffer_add(out, piece.p, piece.n);
}

static bool answer_is_blank(const struct thoughts *t, const char *p, size_t n)
{
    const char *end = p + n;
    struct mark piece = answer_of(t, p, n);
    bool blank = true;
    if (!(t->form & THOUGHTS_SPANS))
        return thoughts_is_blank(piece.p, piece.n);
    while (p < end && blank) {
        piece = next_piece(t, &p, end);
        blank = thoughts_is_blank(piece.p, piece.n);
    }
    return blank;
}

unsigned thoughts_when(const struct thoughts *t, const char *p, size_t n)
{
    bool begins = thoughts_find(p, n, t->begin, false), ends = thoughts_find(p, n, t->end, false);
    bool thought =
        t->form & THOUGHTS_SPANS ? begins || ends : ends && (begins || !(t->form & THOUGHTS_BOTH));
    struct mark thinks = thinks_of(t, p, n);
    size_t left = thinks.n;
    thoughts_trim(thinks.p, &left, TRIM_NEWLINES, TRIM_NOT);
    return (thought ? CHAT_THOUGHT : 0u) | (begins || ends ? CHAT_MARK : 0u) |
           (answer_is_blank(t, p, n) ? CHAT_ANSWER_BLANK : 0u) | (left ? 0u : CHAT_THINKS_EMPTY) |
           (thoughts_is_blank(thinks.p, thinks.n) ? CHAT_THINKS_BLANK : 0u);
}
