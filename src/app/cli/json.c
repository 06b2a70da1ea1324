/* JSON: see json.h. */
#include "app/cli/json.h"

#include <stdio.h>

/* Bytes of the character at p [n], n > 0; 0 when there is none. */
static size_t character(const unsigned char *p, size_t n)
{
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

bool json_is_utf8(const char *text, size_t n)
{
    size_t i = 0, bytes = 1;
    for (; bytes && i < n; i += bytes)
        bytes = character((const unsigned char *)text + i, n - i);
    return bytes != 0;
}

void json_text(json_put put, void *arg, const char *text, size_t n)
{
    for (size_t i = 0, bytes; i < n; i += bytes) {
        char escape[8];
        unsigned char c = (unsigned char)text[i];
        bytes = character((const unsigned char *)text + i, n - i);
        if (bytes && c >= 32 && c != '"' && c != '\\') {
            put(arg, text + i, bytes);
            continue;
        }
        put(arg, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", bytes ? c : 0xfffdu));
        bytes += !bytes;
    }
}
