/* A limit of bytes that many share, in any thread. */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct quota {
    atomic_size_t used, most; /* now; and the most that it ever was */
    size_t limit;
    int (*make_room)(void *arg); /* NULL, or asked when it is full: whether something was given back */
    void *arg;
    struct quota *of; /* NULL, or what this one counts a part of, and has its limit from */
    atomic_size_t refused; /* what `used` would have become when `of` last had no room */
};

/* False: it has no room for n bytes, and nothing was taken. q may be NULL, which has room for all. */
bool quota_take(struct quota *q, size_t n);
void quota_give(struct quota *q, size_t n);
/* What q was refused is more than all of `of`: waiting for others does not help. */
bool quota_never_fits(const struct quota *q);

#endif
