/* Hexadecimal digits: see hex.h. */
#include "base/hex.h"

int hex_digit(char c)
{
    char low = c | 32;
    return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

bool hex_read(const char *p, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return false;
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}
