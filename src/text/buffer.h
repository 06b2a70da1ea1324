/* A growing run of bytes. reserve and add return false when there is no memory; the contents then
 * stay as they were. */
#ifndef TEXT_BUFFER_H
#define TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    char *p; /* [n] of [cap]; owned */
    size_t n, cap;
};

static inline bool buffer_reserve(struct buffer *b, size_t more)
{
    if (more <= b->cap - b->n)
        return true;
    if (more > SIZE_MAX / 4 - b->cap)
        return false;
    size_t cap = b->cap + b->cap / 2 + more + 64;
    char *p = realloc(b->p, cap);
    if (!p)
        return false;
    b->p = p;
    b->cap = cap;
    return true;
}

static inline bool buffer_add(struct buffer *b, const char *p, size_t n)
{
    if (!buffer_reserve(b, n))
        return false;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return true;
}

static inline void buffer_close(struct buffer *b)
{
    free(b->p);
    *b = (struct buffer){0};
}

#endif
