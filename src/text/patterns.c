/* Pattern scanners: see patterns.h. */
#include "text/patterns.h"

#include "text/unicode.h"

int pattern_find(const char *p, size_t n)
{
    (void)p, (void)n;
    return -1;
}

size_t pattern_match(int pattern, const char *text, size_t at, size_t n)
{
    (void)pattern, (void)text, (void)n;
    return at;
}
