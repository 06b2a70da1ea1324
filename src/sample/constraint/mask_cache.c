/* A hash table with open addressing: see mask_cache.h. */
#include "sample/constraint/mask_cache.h"

#include <stdlib.h>

enum { SLOTS_FIRST = 64 };

static uint32_t hash(struct mask_key k)
{
    uint64_t h = (k.what ^ k.where * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

/* Where the key is, or where it would be */
static uint32_t place_of_key(struct mask_entry *const *slots, uint32_t n_slots, struct mask_key k)
{
    uint32_t i = hash(k) & (n_slots - 1);
    while (slots[i] && (slots[i]->key.what != k.what || slots[i]->key.where != k.where))
        i = (i + 1) & (n_slots - 1);
    return i;
}

const struct mask_entry *mask_cache_find(const struct mask_cache *c, struct mask_key key)
{
    return c->n_slots ? c->slots[place_of_key(c->slots, c->n_slots, key)] : NULL;
}

static void drop_all(struct mask_cache *c)
{
    for (uint32_t i = 0; i < c->n_slots; i++) {
        free(c->slots[i]);
        c->slots[i] = NULL;
    }
    quota_give(c->quota, c->bytes);
    c->n_used = 0, c->bytes = 0;
}

static bool grow(struct mask_cache *c)
{
    uint32_t n = c->n_slots ? 2 * c->n_slots : SLOTS_FIRST;
    if (!quota_take(c->quota, n * sizeof(struct mask_entry *)))
        return false;
    struct mask_entry **slots = calloc(n, sizeof(struct mask_entry *));
    if (!slots) {
        quota_give(c->quota, n * sizeof(struct mask_entry *));
        return false;
    }
    for (uint32_t i = 0; i < c->n_slots; i++)
        if (c->slots[i])
            slots[place_of_key(slots, n, c->slots[i]->key)] = c->slots[i];
    free(c->slots);
    quota_give(c->quota, c->n_slots * sizeof(struct mask_entry *));
    c->slots = slots, c->n_slots = n;
    return true;
}

const struct mask_entry *mask_cache_add(struct mask_cache *c, struct mask_key key,
                                        const struct mask_set *inside,
                                        const struct mask_cross *cross, uint32_t n_cross)
{
    bool is_bits = inside->n >= inside->n_words;
    uint32_t n = is_bits ? inside->n_words : inside->n;
    size_t bytes = sizeof(struct mask_entry) + n * sizeof(uint32_t) + n_cross * sizeof *cross;
    if (c->bytes + bytes > c->limit)
        drop_all(c);
    if (2 * (c->n_used + 1) > c->n_slots && !grow(c))
        return NULL;
    if (!quota_take(c->quota, bytes)) {
        drop_all(c);
        if (!quota_take(c->quota, bytes))
            return NULL;
    }
    struct mask_entry *x = malloc(bytes);
    if (!x) {
        quota_give(c->quota, bytes);
        return NULL;
    }
    *x = (struct mask_entry){key, n, n_cross, is_bits};
    memcpy(x->data, is_bits ? inside->bits : inside->list, n * sizeof(uint32_t));
    if (n_cross)
        memcpy(x->data + n, cross, n_cross * sizeof *cross);
    c->slots[place_of_key(c->slots, c->n_slots, key)] = x;
    c->n_used++, c->bytes += bytes;
    return x;
}

void mask_cache_close(struct mask_cache *c)
{
    drop_all(c);
    free(c->slots);
    quota_give(c->quota, c->n_slots * sizeof(struct mask_entry *));
    *c = (struct mask_cache){.limit = c->limit, .quota = c->quota};
}

void mask_entry_give(const struct mask_entry *x, struct mask_set *s)
{
    if (!x->is_bits) {
        for (uint32_t i = 0; i < x->n_inside; i++)
            mask_set_add(s, x->data[i]);
        return;
    }
    for (uint32_t i = 0; i < x->n_inside; i++)
        s->bits[i] |= x->data[i];
    s->n = UINT32_MAX;
}
