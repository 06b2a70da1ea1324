/* UTF-8: see utf8.h. */
#include "app/cli/utf8.h"

size_t utf8_character(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
    if (*p < 0x80)
        return 1;
    if (*p < 0xc2 || *p > 0xf4 || more >= n)
        return 0;
    for (size_t i = 1; i <= more; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || /* too long, surrogates */
        (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
        return 0;
    return more + 1;
}

bool utf8_is_valid(const char *text, size_t n)
{
    size_t i = 0, bytes = 1;
    for (; bytes && i < n; i += bytes)
        bytes = utf8_character(text + i, n - i);
    return bytes != 0;
}
