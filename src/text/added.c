/* Added tokens: see added.h. A match is found by narrowing the sorted list byte by byte, which
 * costs at most ADDED_MAX steps a position and mostly one table look-up. */
#include "text/added.h"

#include "text/unicode.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    if (c)
        return c;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void added_sort(struct added_set *set)
{
    uint32_t i = 0;
    if (set->n)
        qsort(set->list, set->n, sizeof *set->list, compare);
    for (unsigned b = 0; b < 257; b++) {
        while (i < set->n && (unsigned char)set->list[i].p[0] < b)
            i++;
        set->first[b] = i;
    }
}

/* First of list[lo..hi), all longer than `depth` and alike up to it, whose byte there is >= want.
 */
static uint32_t lower(const struct added_token *list, uint32_t lo, uint32_t hi, size_t depth,
                      unsigned want)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)list[mid].p[depth] < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct added_token *added_match(const struct added_set *set, const char *p, size_t n)
{
    unsigned c = (unsigned char)p[0];
    uint32_t lo = set->first[c], hi = set->first[c + 1];
    const struct added_token *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        if (set->list[lo].n == depth)
            best = &set->list[lo];
        while (lo < hi && set->list[lo].n == depth)
            lo++;
        if (depth == n)
            break;
        c = (unsigned char)p[depth];
        lo = lower(set->list, lo, hi, depth, c);
        hi = lower(set->list, lo, hi, depth, c + 1);
    }
    return best;
}

/* Length of the last character of p[0..n), n > 0, which is UTF-8. */
static size_t last_char(const char *p, size_t n)
{
    size_t len = 1;
    while (len < n && ((unsigned char)p[n - len] & 0xC0) == 0x80)
        len++;
    return len;
}

static unsigned class_at(const char *p, size_t n, size_t *len)
{
    return unicode_class(unicode_decode(p, n, len));
}

static bool beside_word(const char *p, size_t n, size_t start, size_t stop)
{
    size_t len, back = start ? last_char(p, start) : 0;
    return (start && class_at(p + start - back, back, &len) & UNICODE_WORD) ||
           (stop < n && class_at(p + stop, n - stop, &len) & UNICODE_WORD);
}

/* Widens [*start, *stop) over whitespace, to the left not beyond `from`; what was swallowed already
 * is not stripped again, and nothing may be left. */
static void swallow(const char *p, size_t n, unsigned flags, size_t from, size_t *start,
                    size_t *stop)
{
    size_t len;
    if (flags & ADDED_LSTRIP && *start < from)
        *start = from;
    while (flags & ADDED_LSTRIP && *start > from) {
        size_t back = last_char(p, *start);
        if (!(class_at(p + *start - back, back, &len) & UNICODE_BLANK))
            break;
        *start -= back;
    }
    while (flags & ADDED_RSTRIP && *stop < n &&
           class_at(p + *stop, n - *stop, &len) & UNICODE_BLANK)
        *stop += len;
}

bool added_split(const struct added_set *set, const char *p, size_t n, bool plain, bool first,
                 struct added_sink sink)
{
    size_t from = 0; /* text before it has been given away */
    for (size_t at = 0; set->n && at < n;) {
        const struct added_token *t = added_match(set, p + at, n - at);
        if (!t) {
            at++;
            continue;
        }
        size_t start = at, stop = at + t->n;
        at = stop;
        if ((plain && t->flags & ADDED_SPECIAL) ||
            (t->flags & ADDED_SINGLE_WORD && beside_word(p, n, start, stop)))
            continue;
        swallow(p, n, t->flags, from, &start, &stop);
        if (start >= stop)
            continue;
        if (from < start && !sink.text(sink.arg, p + from, start - from, first && from == 0))
            return false;
        if (!sink.token(sink.arg, t->id))
            return false;
        from = stop;
    }
    return from == n || sink.text(sink.arg, p + from, n - from, first && from == 0);
}
