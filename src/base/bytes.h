/* Cursor over untrusted little-endian bytes. A read past the end yields zero and sets `bad`, which
 * stays set: read everything, then test once. No other code does pointer arithmetic on file data.
 * All size arithmetic on values from a file goes through size_mul and size_add. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "base/strict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const unsigned char *at, *end;
    bool bad;
};

static inline struct bytes bytes_of(const void *p, size_t n)
{
    return (struct bytes){p, (const unsigned char *)p + n, false};
}

static inline size_t bytes_left(const struct bytes *b)
{
    return (size_t)(b->end - b->at);
}

/* Borrows the next n bytes, or NULL (and bad) when fewer are left. */
static inline const void *bytes_take(struct bytes *b, uint64_t n)
{
    if (b->bad || n > bytes_left(b)) {
        b->bad = true;
        return NULL;
    }
    const void *p = b->at;
    b->at += n;
    return p;
}

static inline uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v); /* little-endian machines only: strict.h refuses the others */
    return v;
}

static inline uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float load_f32(const void *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t bytes_u64(struct bytes *b)
{
    const void *p = bytes_take(b, 8);
    return p ? load_u64(p) : 0;
}

/* Skips zero bytes up to the next multiple of 8 from `start`; a byte that is not zero is bad. */
static inline void bytes_align8(struct bytes *b, const void *start)
{
    while (!b->bad && (size_t)(b->at - (const unsigned char *)start) % 8) {
        const unsigned char *p = bytes_take(b, 1);
        if (p && *p)
            b->bad = true;
    }
}

/* *out = a * b, a + b; false when it does not fit. */
static inline bool size_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool size_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* *out = a rounded up to a multiple of m (m > 0); false when it does not fit. */
static inline bool size_round_up(uint64_t a, uint64_t m, uint64_t *out)
{
    uint64_t up;
    if (!size_add(a, m - 1, &up))
        return false;
    *out = up - up % m;
    return true;
}

#endif
