/* How long the steps of a tokenizer may make a text. Steps work one after another on the whole text,
 * so that 16 of them that write 256 bytes for each byte would multiply to 2^128: every step counts
 * what it writes, over all parts of a text, and stops at the limit. */
#ifndef TEXT_GROWTH_H
#define TEXT_GROWTH_H

#include "base/stop.h"
#include "text/buffer.h"
#include "text/tokenizer_steps.h"

/* Bytes for each byte of a text, and beside those. The most that a real tokenizer writes is 13 for
 * one: NFKC turns U+FDFA, 3 bytes, into 18 characters of 33 bytes, and U+2581 for each of their 3
 * spaces makes that 39. A prefix is 3 bytes. */
enum { GROWTH = 32, GROWTH_MORE = 4096 };

struct growth {
    size_t limit;           /* bytes that a step may write */
    size_t made[STEPS_MAX]; /* bytes that each step has written */
    bool over;              /* a step wanted to write more */
    struct stop *stop;      /* asked as steps write; may be NULL */
};

/* For the steps of a list over a text of n bytes; never above what symbols can be numbered with. */
static inline struct growth growth_of(size_t n)
{
    size_t most = INT32_MAX;
    return (struct growth){.limit =
                               n < (most - GROWTH_MORE) / GROWTH ? n * GROWTH + GROWTH_MORE : most};
}

/* Counts n bytes that step i is about to write. False: over, or stopped. */
static inline bool growth_count(struct growth *g, size_t i, size_t n)
{
    if (n > g->limit - g->made[i])
        return !(g->over = true);
    g->made[i] += n;
    return !stop_asked(g->stop, n);
}

/* Appends what step i writes. False: no memory, over, or stopped. */
static inline bool growth_add(struct growth *g, size_t i, struct buffer *out, const char *p,
                              size_t n)
{
    return growth_count(g, i, n) && buffer_add(out, p, n);
}

#endif
