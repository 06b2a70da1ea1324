/* What must not come twice in a container: keys, or items. Each set is a tree of records in a track, which are
 * never changed: a place keeps the set that it had. Finding and adding one of n takes about log2 n steps.
 *
 * A record has the first bytes of its text and the hash of its value, 192 bits in all. It is the root of all
 * that came before it in its container: for each bit it names the newest record that agrees with it up to there
 * and differs there, and how many do. */
#ifndef RECOGNIZE_JSON_SEEN_H
#define RECOGNIZE_JSON_SEEN_H

#include "sample/recognize/recognizer.h"

enum { SEEN_TEXT = 16 /* bytes of a text */, SEEN_BITS = 8 * SEEN_TEXT + 64 };

struct seen_key {
    uint64_t bits[SEEN_BITS / 64]; /* the text's first bytes, then the hash */
};

struct seen {
    uint32_t before; /* the one that came before it; 0: none */
    uint32_t n_others;
    struct seen_key key;
    struct seen_other {
        uint32_t at;
        uint32_t bit : 8, count : 24; /* count: it and all that agree with it in this bit, too */
    } others[];                       /* by bit */
};

static inline const struct seen *seen_at(const struct track *t, uint32_t at)
{
    return (const struct seen *)(const void *)(t->bytes + at);
}
static inline size_t seen_size(const struct seen *s)
{
    return sizeof *s + s->n_others * sizeof *s->others;
}

/* Of a value with this hash, and its text; n 0: it has none. */
struct seen_key seen_key_of(uint64_t hash, const char *text, size_t n);

/* `set` is its newest record; 0: it is empty. */
bool seen_has(const struct track *t, uint32_t set, const struct seen_key *key);
/* How many have a text that begins so; more may be counted than there are. */
uint32_t seen_beginning(const struct track *t, uint32_t set, const char *text, size_t n);
/* Adds it at p->used; false: no room. */
bool seen_add(struct track *t, struct place *p, uint32_t *set, const struct seen_key *key);

#endif
