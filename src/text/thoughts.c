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

/* Takes the next run off *p that holds nothing to be skipped. */
static struct mark next_run(const struct thoughts *t, const char **p, const char *end)
{
    const char *from = *p, *stop = end;
    *p = end;
    for (size_t i = 0; i < t->n_skip; i++) {
        const char *at = thoughts_find(from, (size_t)(end - from), t->skip[i], false);
        if (at && at < stop)
            stop = at, *p = at + t->skip[i].n;
    }
    return (struct mark){from, (size_t)(stop - from)};
}

/* Calls `take` with each run of the answer until it returns false; whether none did. */
static bool each_run(const struct thoughts *t, const char *p, size_t n,
                     bool (*take)(void *arg, struct mark run), void *arg)
{
    const char *end = p + n;
    bool ok = true, whole = !(t->form & THOUGHTS_SPANS);
    do {
        struct mark piece = whole ? answer_of(t, p, n) : next_piece(t, &p, end);
        const char *at = piece.p;
        do {
            ok = take(arg, next_run(t, &at, piece.p + piece.n));
        } while (ok && at < piece.p + piece.n);
    } while (ok && !whole && p < end);
    return ok;
}

static bool put_run(void *out, struct mark run)
{
    return buffer_add(out, run.p, run.n);
}

bool thoughts_put_answer(const struct thoughts *t, const char *p, size_t n, struct buffer *out)
{
    return each_run(t, p, n, put_run, out);
}

bool thoughts_put_thinks(const struct thoughts *t, const char *p, size_t n, struct buffer *out)
{
    struct mark piece = thinks_of(t, p, n);
    return buffer_add(out, piece.p, piece.n);
}

/* Nothing is left when *how is trimmed. */
static bool run_is_blank(void *how, struct mark run)
{
    thoughts_trim(run.p, &run.n, *(const unsigned *)how, TRIM_NOT);
    return run.n == 0;
}

static unsigned answer_when(const struct thoughts *t, const char *p, size_t n)
{
    unsigned space = TRIM_SPACE, newlines = TRIM_NEWLINES, nothing = TRIM_NOT;
    if (!each_run(t, p, n, run_is_blank, &space))
        return 0;
    return CHAT_ANSWER_BLANK |
           (each_run(t, p, n, run_is_blank, &newlines) ? CHAT_ANSWER_NEWLINES : 0u) |
           (each_run(t, p, n, run_is_blank, &nothing) ? CHAT_ANSWER_EMPTY : 0u);
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
           answer_when(t, p, n) | (left ? 0u : CHAT_THINKS_EMPTY) |
           (thoughts_is_blank(thinks.p, thinks.n) ? CHAT_THINKS_BLANK : 0u);
}
