/* UTF-8 in and out, and properties of code points: see unicode.h. The byte ranges are those of table
 * 3-7 of the Unicode standard (well-formed UTF-8), so surrogates and overlong forms are broken at
 * their second byte. */
#include "text/unicode.h"

#include "base/pool.h"
#include "text/unicode_tables.h"

#include <stdlib.h>

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

/* Length of the sequence that byte a begins (0: none) and the range of its second byte. */
static size_t lead(unsigned char a, unsigned char *low, unsigned char *high)
{
    *low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;
    *high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
    return a < 0x80 ? 1 : a < 0xC2 ? 0 : a < 0xE0 ? 2 : a < 0xF0 ? 3 : a < 0xF5 ? 4 : 0;
}

/* Bytes of p[0..n) that fit the character begun by p[0]: *want when it is whole. */
static size_t fitting(const unsigned char *p, size_t n, size_t *want)
{
    unsigned char low, high;
    size_t have = 1;
    *want = lead(p[0], &low, &high);
    while (have < *want && have < n && p[have] >= low && p[have] <= high) {
        have++;
        low = 0x80;
        high = 0xBF;
    }
    return have;
}

uint32_t unicode_decode(const char *text, size_t n, size_t *len)
{
    static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *p = (const unsigned char *)text;
    size_t want;
    if (p[0] < 0x80) {
        *len = 1;
        return p[0];
    }
    *len = fitting(p, n, &want);
    if (*len != want)
        return UNICODE_BAD;
    uint32_t c = p[0] & mask[want];
    for (size_t i = 1; i < want; i++)
        c = c << 6 | (p[i] & 0x3F);
    return c;
}

size_t unicode_encode(uint32_t c, char *p)
{
    if (c < 0x80) {
        p[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3F));
    p[0] = (char)(mark[n] | c);
    return n;
}

size_t unicode_tail(const char *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *at = (const unsigned char *)p + n - back;
        size_t want;
        if (*at >= 0x80 && *at < 0xC0)
            continue;
        return fitting(at, back, &want) == back && want > back ? back : 0;
    }
    return 0;
}

bool unicode_valid(const char *p, size_t n)
{
    size_t len;
    uint64_t eight;
    for (size_t i = 0; i < n; i += len) {
        for (; n - i >= 8; i += 8) { /* mostly ASCII */
            memcpy(&eight, p + i, 8);
            if (eight & 0x8080808080808080u)
                break;
        }
        if (i == n)
            break;
        if (unicode_decode(p + i, n - i, &len) == UNICODE_BAD)
            return false;
    }
    return true;
}

bool unicode_repair(struct buffer *out, const char *p, size_t n)
{
    size_t len, from = 0;
    for (size_t i = 0; i < n; i += len) {
        if (unicode_decode(p + i, n - i, &len) != UNICODE_BAD)
            continue;
        if (!buffer_add(out, p + from, i - from) || !buffer_add(out, REPLACEMENT, 3))
            return false;
        from = i + len;
    }
    return buffer_add(out, p + from, n - from);
}

/* ---- properties ---- */

enum { PAGE = 256, PAGES = 0x110000 / PAGE, MAX_MIXED = 160 };

/* The tables, unpacked: 90 KB that no file has to hold. */
static struct {
    /* kind of code point c: kind_of[page_of[c / PAGE]][c % PAGE]. The pages of one kind come first. */
    uint8_t page_of[PAGES], kind_of[N_UNICODE_KINDS + MAX_MIXED][PAGE];
    uint64_t steps[N_UNICODE_STEPS];        /* c << 42 | first << 21 | second, ascending */
    uint64_t composed[N_UNICODE_COMPOSED];  /* first << 42 | second << 21 | c, ascending */
    uint32_t ranks[N_UNICODE_RANKS][3];     /* first code point, the one after the last, rank */
    uint32_t scripts[N_UNICODE_SCRIPTS][2]; /* code point, the script from there on */
} tables;

static uint32_t take(const uint8_t **p)
{
    uint32_t x = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        x |= (uint32_t)(byte & 127) << shift;
        if (byte < 128)
            return x;
    }
}

/* The number whose difference from `last` is next */
static uint32_t take_from(const uint8_t **p, uint32_t last)
{
    uint32_t x = take(p);
    return x & 1 ? last - x / 2 : last + x / 2;
}

static void unpack_classes(void)
{
    const uint8_t *p = UNICODE_CLASSES;
    size_t pages = N_UNICODE_KINDS;
    for (uint32_t c = 0, n; c < UNICODE_BAD;) {
        uint32_t run = take(&p), kind = run & 31;
        for (uint32_t left = run >> 5; left > 0; left -= n, c += n) {
            uint8_t *page = &tables.page_of[c / PAGE];
            n = left < PAGE - c % PAGE ? left : PAGE - c % PAGE;
            if (c % PAGE == 0)
                *page = (uint8_t)(n == PAGE ? kind : pages++);
            memset(tables.kind_of[*page] + c % PAGE, (int)kind, n);
        }
    }
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void unpack_steps(void)
{
    const uint8_t *p = UNICODE_STEPS;
    uint32_t c = 0, first = 0, second = 0;
    size_t composed = 0;
    for (size_t i = 0; i < N_UNICODE_STEPS; i++) {
        uint32_t gap = take(&p);
        c += gap / 2;
        first = take_from(&p, first);
        second = take_from(&p, second);
        tables.steps[i] = (uint64_t)c << 42 | (uint64_t)first << 21 | second;
        if (gap & 1)
            tables.composed[composed++] = (uint64_t)first << 42 | (uint64_t)second << 21 | c;
    }
    qsort(tables.composed, composed, sizeof *tables.composed, ascending);
}

static void unpack_runs(void)
{
    const uint8_t *p = UNICODE_RANKS;
    uint32_t c = 0;
    for (size_t i = 0; i < N_UNICODE_RANKS; i++) {
        tables.ranks[i][0] = c += take(&p);
        tables.ranks[i][1] = c + take(&p);
        tables.ranks[i][2] = take(&p);
    }
    p = UNICODE_SCRIPTS;
    c = 0;
    for (size_t i = 0; i < N_UNICODE_SCRIPTS; i++) {
        tables.scripts[i][0] = c += take(&p);
        tables.scripts[i][1] = take(&p);
    }
}

static void unpack(void)
{
    unpack_classes();
    unpack_steps();
    unpack_runs();
}

static atomic_bool is_unpacked;

/* Before any table is read, in any thread */
static void need_tables(void)
{
    pool_once(&is_unpacked, unpack);
}

/* Asked about every character of a text, so it calls nothing once they are there. */
unsigned unicode_class(uint32_t c)
{
    if (!atomic_load_explicit(&is_unpacked, memory_order_acquire))
        need_tables();
    return c < UNICODE_BAD ? UNICODE_CLASS_OF[tables.kind_of[tables.page_of[c / PAGE]][c % PAGE]]
                           : 0;
}

/* The number of x[0..n), ascending, that are below `limit` */
static size_t count_below(const uint64_t *x, size_t n, uint64_t limit)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (x[mid] < limit)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool unicode_decompose(uint32_t c, uint32_t *first, uint32_t *second)
{
    need_tables();
    size_t i = count_below(tables.steps, N_UNICODE_STEPS, (uint64_t)c << 42);
    if (i == N_UNICODE_STEPS || tables.steps[i] >> 42 != c)
        return false;
    *first = tables.steps[i] >> 21 & 0x1FFFFF;
    *second = tables.steps[i] & 0x1FFFFF;
    return true;
}

uint32_t unicode_compose(uint32_t first, uint32_t second)
{
    need_tables();
    const uint64_t pair = (uint64_t)first << 21 | second;
    size_t i = count_below(tables.composed, N_UNICODE_COMPOSED, pair << 21);
    if (i == N_UNICODE_COMPOSED || tables.composed[i] >> 21 != pair)
        return 0;
    return tables.composed[i] & 0x1FFFFF;
}

unsigned unicode_rank(uint32_t c)
{
    need_tables();
    size_t low = 0, high = N_UNICODE_RANKS; /* runs below low end before c */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (tables.ranks[mid][1] <= c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < N_UNICODE_RANKS && tables.ranks[low][0] <= c ? tables.ranks[low][2] : 0;
}

unsigned unicode_script(uint32_t c)
{
    need_tables();
    size_t low = 1, high = N_UNICODE_SCRIPTS; /* runs below low begin at c or before it */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (tables.scripts[mid][0] <= c)
            low = mid + 1;
        else
            high = mid;
    }
    return tables.scripts[low - 1][1];
}
