/* Base64: see base64.h. */
#include "app/serve/api/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(struct growing_text *t, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0u);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                        left > 2 ? digits[v & 63] : '='};
        growing_text_add(t, four, sizeof four);
    }
}

/* 0 to 63; -1: no digit */
static int value_of(char c)
{
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool base64_read(struct growing_text *t, const char *text, size_t n)
{
    if (n % 4)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        bool last = i + 4 == n;
        int pads = last && text[i + 3] == '=' ? 1 + (text[i + 2] == '=') : 0;
        uint32_t v = 0;
        for (int k = 0; k < 4; k++) {
            int digit = k >= 4 - pads ? 0 : value_of(text[i + (size_t)k]);
            if (digit < 0)
                return false;
            v = v << 6 | (uint32_t)digit;
        }
        char three[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        growing_text_add(t, three, (size_t)(3 - pads));
    }
    return true;
}

json_t *base64_floats(const float *v, size_t n)
{
    struct growing_text text = {0};
    base64_write(&text, v, n * sizeof *v);
    json_t *out = text.failed ? NULL : json_stringn(text.p, text.n);
    growing_text_close(&text);
    return out;
}
