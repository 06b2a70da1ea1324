/* UTF-8 in and out: see unicode.h. The byte ranges are those of table 3-7 of the Unicode standard
 * (well-formed UTF-8), so surrogates and overlong forms are broken at their second byte. */
#include "text/unicode.h"

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
