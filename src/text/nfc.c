/* Normalization forms C and D (Unicode annex 15): see nfc.h. In form C a stable character (class
 * without UNICODE_UNSTABLE) composes with nothing before it, so the text is done in runs: a stable
 * character and the unstable ones behind it are decomposed, sorted and composed. Most runs are one
 * character and are copied. In form D only ASCII counts as stable, and nothing is composed. */
#include "text/nfc.h"

#include "text/unicode.h"

enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7 };
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT };

static bool add_point(struct buffer *points, uint32_t c)
{
    return buffer_add(points, (const char *)&c, sizeof c);
}

static bool decompose_hangul(struct buffer *points, uint32_t s)
{
    return add_point(points, L_BASE + s / (V_COUNT * T_COUNT)) &&
           add_point(points, V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT) &&
           (s % T_COUNT == 0 || add_point(points, T_BASE + s % T_COUNT));
}

static bool decompose(struct buffer *points, uint32_t c)
{
    uint32_t seconds[8], second; /* the longest decomposition has 4 */
    size_t n = 0;
    if (c >= S_BASE && c < S_BASE + S_COUNT)
        return decompose_hangul(points, c - S_BASE);
    while (n < 8 && unicode_decompose(c, &c, &second))
        if (second)
            seconds[n++] = second;
    bool ok = add_point(points, c);
    while (ok && n)
        ok = add_point(points, seconds[--n]);
    return ok;
}

/* What a and b compose to, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE && b < V_BASE + V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
    if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE &&
        b < T_BASE + T_COUNT)
        return a + (b - T_BASE);
    return unicode_compose(a, b);
}

struct work {
    struct buffer points, scratch;
    struct stop *stop;
    bool compose;
};

/* Sorts c[0..n) by rank, equals in their order: a pass over all for each rank, so it is linear. False: no
 * memory, or stopped. */
static bool sort_marks(struct work *w, uint32_t *c, size_t n)
{
    unsigned before = 0, rank, top = 0;
    bool sorted = true;
    for (size_t i = 0; i < n; i++, before = rank) {
        rank = unicode_rank(c[i]);
        sorted &= rank >= before;
        top = rank > top ? rank : top;
    }
    if (sorted)
        return true;
    w->scratch.n = 0;
    for (rank = 1; rank <= top && !stop_asked(w->stop, n); rank++)
        for (size_t i = 0; i < n; i++)
            if (unicode_rank(c[i]) == rank && !add_point(&w->scratch, c[i]))
                return false;
    if (rank <= top)
        return false;
    memcpy(c, w->scratch.p, n * sizeof *c);
    return true;
}

static bool sort_all(struct work *w, uint32_t *c, size_t n)
{
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && unicode_rank(c[end]); end++)
            ;
        if (end - i > 1 && !sort_marks(w, c + i, end - i))
            return false;
    }
    return true;
}

/* Composes c[0..n) in place and returns the new length. A mark reaches the starter unless one of
 * its rank or higher stands between. */
static size_t compose_all(uint32_t *c, size_t n)
{
    size_t kept = 0, starter = SIZE_MAX;
    int between = -1; /* rank of the last mark kept behind the starter */
    for (size_t i = 0; i < n; i++) {
        int rank = (int)unicode_rank(c[i]);
        uint32_t whole = starter != SIZE_MAX && between < rank ? compose(c[starter], c[i]) : 0;
        if (whole) {
            c[starter] = whole;
            continue;
        }
        between = rank ? rank : -1;
        starter = rank ? starter : kept;
        c[kept++] = c[i];
    }
    return kept;
}

/* The form of a run of more than one character, or of an unstable one. */
static bool append_run(struct buffer *out, struct work *w, const char *p, size_t n)
{
    size_t len;
    w->points.n = 0;
    for (size_t i = 0; i < n; i += len)
        if (stop_asked(w->stop, 1) || !decompose(&w->points, unicode_decode(p + i, n - i, &len)))
            return false;
    uint32_t *c = (uint32_t *)(void *)w->points.p;
    size_t count = w->points.n / sizeof *c;
    if (!sort_all(w, c, count))
        return false;
    if (w->compose)
        count = compose_all(c, count);
    if (!buffer_reserve(out, 4 * count))
        return false;
    for (size_t i = 0; i < count; i++)
        out->n += unicode_encode(c[i], out->p + out->n);
    return true;
}

static bool unstable_at(const struct work *w, const char *p, size_t n, size_t *len)
{
    uint32_t c = unicode_decode(p, n, len);
    return w->compose ? unicode_class(c) & UNICODE_UNSTABLE : c >= 128;
}

bool nfc_append(struct buffer *out, const char *p, size_t n, bool compose, struct stop *stop)
{
    struct work w = {.stop = stop, .compose = compose};
    bool ok = true;
    size_t len, done = 0, last = 0; /* appended so far; start of the character before */
    for (size_t i = 0; ok && i < n;) {
        if (!unstable_at(&w, p + i, n - i, &len)) {
            last = i;
            i += len;
            continue;
        }
        while (i < n && unstable_at(&w, p + i, n - i, &len))
            i += len;
        ok = !stop_asked(stop, i - done) && buffer_add(out, p + done, last - done) &&
             append_run(out, &w, p + last, i - last);
        done = last = i;
    }
    ok = ok && buffer_add(out, p + done, n - done);
    buffer_close(&w.points);
    buffer_close(&w.scratch);
    return ok;
}
