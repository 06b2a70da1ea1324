/* What must not come twice: see json_seen.h. */
#include "sample/recognize/json_seen.h"

#include <string.h>

struct seen_key seen_key_of(uint64_t hash, const char *text, size_t n)
{
    struct seen_key k = {.bits[SEEN_BITS / 64 - 1] = hash};
    for (size_t i = 0; i < n && i < SEEN_TEXT; i++)
        k.bits[i / 8] |= (uint64_t)(unsigned char)text[i] << (56 - i % 8 * 8);
    return k;
}

/* The first bit in which they differ; SEEN_BITS: none. */
static unsigned first_difference(const struct seen_key *a, const struct seen_key *b)
{
    for (unsigned i = 0; i < SEEN_BITS / 64; i++)
        if (a->bits[i] != b->bits[i])
            return i * 64 + (unsigned)__builtin_clzll(a->bits[i] ^ b->bits[i]);
    return SEEN_BITS;
}

/* It and those that agree with it up to `bit`. */
static uint32_t count_from(const struct seen *s, unsigned bit)
{
    uint32_t count = 1;
    for (uint32_t i = s->n_others; i-- > 0 && s->others[i].bit >= bit;)
        count += s->others[i].count;
    return count;
}

static uint32_t other_at(const struct seen *s, unsigned bit)
{
    for (uint32_t i = 0; i < s->n_others && s->others[i].bit <= bit; i++)
        if (s->others[i].bit == bit)
            return s->others[i].at;
    return 0;
}

/* How many agree with the key in the first n bits. */
static uint32_t count_like(const struct track *t, uint32_t set, const struct seen_key *key,
                           unsigned n)
{
    while (set) {
        const struct seen *s = seen_at(t, set);
        unsigned bit = first_difference(&s->key, key);
        if (bit >= n)
            return count_from(s, n);
        set = other_at(s, bit);
    }
    return 0;
}

bool seen_has(const struct track *t, uint32_t set, const struct seen_key *key)
{
    return count_like(t, set, key, SEEN_BITS);
}

uint32_t seen_beginning(const struct track *t, uint32_t set, const char *text, size_t n)
{
    struct seen_key key = seen_key_of(0, text, n);
    return count_like(t, set, &key, 8 * (unsigned)(n < SEEN_TEXT ? n : SEEN_TEXT));
}

/* The others of a new record; returns how many. */
static uint32_t find_others(const struct track *t, uint32_t set, const struct seen_key *key,
                            struct seen_other others[SEEN_BITS])
{
    uint32_t n = 0;
    unsigned from = 0;
    while (set) {
        const struct seen *s = seen_at(t, set);
        unsigned bit = first_difference(&s->key, key);
        for (uint32_t i = 0; i < s->n_others && s->others[i].bit < bit; i++)
            if (s->others[i].bit >= from)
                others[n++] = s->others[i];
        if (bit == SEEN_BITS)
            break;
        others[n++] = (struct seen_other){set, bit & 255, count_from(s, bit + 1) & 0xffffff};
        set = other_at(s, bit);
        from = bit + 1;
    }
    return n;
}

bool seen_add(struct track *t, struct place *p, uint32_t *set, const struct seen_key *key)
{
    struct seen_other others[SEEN_BITS];
    uint32_t at = (p->used + 7) & ~7u, n = find_others(t, *set, key, others);
    struct seen s = {*set, n, *key};
    uint64_t end = (uint64_t)at + sizeof s + n * sizeof *others;
    if (!track_room(t, end))
        return false;
    memcpy(t->bytes + at, &s, sizeof s);
    memcpy(t->bytes + at + sizeof s, others, n * sizeof *others);
    p->used = (uint32_t)end;
    *set = at;
    return true;
}
