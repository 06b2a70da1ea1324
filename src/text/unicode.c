/* UTF-8 in and out, and properties of code points: see unicode.h. The byte ranges are those of table
 * 3-7 of the Unicode standard (well-formed UTF-8), so surrogates and overlong forms are broken at
 * their second byte. */
#include "text/unicode.h"

#include "text/unicode_tables.h"

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

unsigned unicode_class(uint32_t c)
{
    if (c >= UNICODE_BAD)
        return 0;
    unsigned block = UNICODE_BLOCK_OF[UNICODE_PAGE_OF[c / 1024] * 64 + c / 16 % 64];
    return UNICODE_CLASS_OF[UNICODE_KIND_OF[block * 16 + c % 16]];
}

bool unicode_decompose(uint32_t c, uint32_t *first, uint32_t *second)
{
    size_t low = 0, high = N_UNICODE_STEPS; /* steps below low are of smaller code points */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (UNICODE_STEPS[mid] >> 42 < c)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == N_UNICODE_STEPS || UNICODE_STEPS[low] >> 42 != c)
        return false;
    *first = UNICODE_STEPS[low] >> 21 & 0x1FFFFF;
    *second = UNICODE_STEPS[low] & 0x1FFFFF;
    return true;
}

uint32_t unicode_compose(uint32_t first, uint32_t second)
{
    const uint64_t pair = (uint64_t)first << 21 | second, mask = ((uint64_t)1 << 42) - 1;
    size_t low = 0, high = N_UNICODE_COMPOSED; /* those below low are of smaller pairs */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if ((UNICODE_STEPS[UNICODE_COMPOSED[mid]] & mask) < pair)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == N_UNICODE_COMPOSED || (UNICODE_STEPS[UNICODE_COMPOSED[low]] & mask) != pair)
        return 0;
    return (uint32_t)(UNICODE_STEPS[UNICODE_COMPOSED[low]] >> 42);
}

unsigned unicode_rank(uint32_t c)
{
    size_t low = 0, high = N_UNICODE_RANKS; /* runs below low end before c */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (UNICODE_RANKS[mid].first + UNICODE_RANKS[mid].n <= c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < N_UNICODE_RANKS && UNICODE_RANKS[low].first <= c ? UNICODE_RANKS[low].rank : 0;
}

unsigned unicode_script(uint32_t c)
{
    size_t low = 1, high = N_UNICODE_SCRIPTS; /* runs below low begin at c or before it */
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (UNICODE_SCRIPTS[mid] >> 8 <= c)
            low = mid + 1;
        else
            high = mid;
    }
    return UNICODE_SCRIPTS[low - 1] & 0xFF;
}
