/* Arithmetic on sizes that cannot overflow where they are used: shapes are bounded when a file is
 * read. */
#ifndef BASE_SIZES_H
#define BASE_SIZES_H

#include <stddef.h>

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t round_up(size_t n, size_t m)
{
    return (n + m - 1) / m * m;
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

#endif
