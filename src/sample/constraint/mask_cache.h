/* Sets of tokens under a key, in bounded memory: when it is full, all are dropped. */
#ifndef CONSTRAINT_MASK_CACHE_H
#define CONSTRAINT_MASK_CACHE_H

#include "base/quota.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mask_key {
    uint64_t what, where;
};

/* A set of tokens being made: a bit for each, and a list as long as it is short. */
struct mask_set {
    uint32_t *bits; /* [n_words] */
    uint32_t n_words;
    uint32_t *list; /* [n_words] */
    uint32_t n;     /* tokens added; beyond n_words the list is not kept */
};

static inline void mask_set_clear(struct mask_set *s)
{
    memset(s->bits, 0, s->n_words * sizeof *s->bits);
    s->n = 0;
}
/* A token that is not in it */
static inline void mask_set_add(struct mask_set *s, uint32_t token)
{
    s->bits[token / 32] |= (uint32_t)1 << token % 32;
    if (s->n < s->n_words)
        s->list[s->n++] = token;
    else
        s->n = UINT32_MAX;
}
static inline bool mask_set_has(const struct mask_set *s, uint32_t token)
{
    return s->bits[token / 32] >> token % 32 & 1;
}

/* A node of the tree at which a word may be left, and its depth */
struct mask_cross {
    uint32_t node, depth;
};

struct mask_entry {
    struct mask_key key;
    uint32_t n_inside, n_cross;
    bool is_bits;    /* of `inside`: a bit per token instead of a list */
    uint32_t data[]; /* inside, then the crossings */
};

struct mask_cache {
    struct mask_entry **slots; /* [n_slots], a power of two; owned */
    uint32_t n_slots, n_used;
    size_t bytes, limit;
    struct quota *quota; /* of which its memory is */
};

/* Borrowed until the next mask_cache_add; NULL: not there. */
const struct mask_entry *mask_cache_find(const struct mask_cache *c, struct mask_key key);

/* Keeps a set and nodes. NULL: no memory. */
const struct mask_entry *mask_cache_add(struct mask_cache *c, struct mask_key key,
                                        const struct mask_set *inside,
                                        const struct mask_cross *cross, uint32_t n_cross);
void mask_cache_close(struct mask_cache *c);

/* Adds the tokens of an entry, which are not in the set. */
void mask_entry_give(const struct mask_entry *x, struct mask_set *s);
static inline const struct mask_cross *mask_entry_cross(const struct mask_entry *x)
{
    return (const struct mask_cross *)(x->data + x->n_inside);
}

#endif
