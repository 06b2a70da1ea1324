/* BPE by ranks of merges: the units of a word (bytes, or characters with byte fallback) are
 * joined, the pair of the least rank first, leftmost of equals. Reference: the tokenizers
 * package, models/bpe. */
#include "text/bpe.h"
#include "text/unicode.h"

#include <stdlib.h>

enum { PROBES_MAX = 4096 };

static uint32_t hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

/* Number of the merge of left and right, or -1. */
static int64_t rank_of(const struct ranks *r, uint32_t left, uint32_t right)
{
    for (uint32_t i = hash(left, right) & r->mask; r->slots[i]; i = (i + 1) & r->mask) {
        const uint32_t *m = r->merges + 3 * (size_t)(r->slots[i] - 1);
        if (m[0] == left && m[1] == right)
            return r->slots[i] - 1;
    }
    return -1;
}

static bool find(void *model, const struct merge *m, const struct symbol *left,
                 const struct symbol *right, int32_t *id, uint32_t *rank)
{
    const struct ranks *r = model;
    (void)m;
    int64_t i = rank_of(r, (uint32_t)left->id, (uint32_t)right->id);
    if (i < 0)
        return false;
    *rank = (uint32_t)i;
    *id = (int32_t)r->merges[3 * i + 2];
    return true;
}

static bool add_bytes(struct encoding *c, const char *p, size_t len, size_t at, bool *done)
{
    const int32_t *byte_id = c->t->vocab.byte_id;
    *done = c->t->byte_fallback;
    for (size_t i = 0; i < len && *done; i++)
        *done = byte_id[(unsigned char)p[i]] >= 0;
    for (size_t i = 0; i < len && *done; i++)
        if (!merge_add(&c->merge, at + i, 1, byte_id[(unsigned char)p[i]], false))
            return false;
    return true;
}

/* The units of the word. An unknown one waits (`unk_len` bytes so far), so that its neighbours can
 * join it; as in the reference, byte tokens that come meanwhile go before it. */
static bool add_units(struct encoding *c, const char *p, size_t n)
{
    const struct tokenizer *t = c->t;
    size_t len = 1, unk_len = 0, unk_at = 0;
    bool done;
    for (size_t at = 0; at < n; at += len) {
        if (!t->byte_level)
            unicode_decode(p + at, n - at, &len);
        int32_t id =
            t->byte_level ? t->byte_unit[(unsigned char)p[at]] : vocab_find(&t->vocab, p + at, len);
        if (id >= 0) {
            if ((unk_len && !merge_add(&c->merge, unk_at, unk_len, t->unk, false)) ||
                !merge_add(&c->merge, at, len, id, false))
                return false;
            unk_len = 0;
            continue;
        }
        if (!add_bytes(c, p + at, len, at, &done))
            return false;
        if (done || t->unk < 0)
            continue;
        if (unk_len && !t->fuse_unk && !merge_add(&c->merge, unk_at, unk_len, t->unk, false))
            return false;
        unk_at = unk_len && t->fuse_unk ? unk_at : at;
        unk_len = unk_len && t->fuse_unk ? unk_len + len : len;
    }
    return !unk_len || merge_add(&c->merge, unk_at, unk_len, t->unk, false);
}

bool bpe_word(struct encoding *c, const char *p, size_t n)
{
    const struct tokenizer *t = c->t;
    int32_t whole = t->ignore_merges ? vocab_find(&t->vocab, p, n) : -1;
    if (whole >= 0)
        return encoding_put(c, whole);
    merge_begin(&c->merge, p);
    if (!add_units(c, p, n) ||
        !merge_run(&c->merge, (struct merge_rule){find, NULL, (void *)&t->ranks}))
        return false;
    for (size_t i = 0; i < c->merge.n; i++)
        if (c->merge.symbols[i].len)
            encoding_put(c, c->merge.symbols[i].id);
    return true;
}

/* A merge must give the token whose bytes are those of its parts, one after the other. */
static bool sound(const struct tokenizer *t, const uint32_t *m)
{
    const struct vocab *v = &t->vocab;
    if (m[0] >= v->n || m[1] >= v->n || m[2] >= v->n)
        return false;
    size_t left_n, right_n, n;
    const char *left = vocab_text(v, (int32_t)m[0], &left_n);
    const char *right = vocab_text(v, (int32_t)m[1], &right_n);
    const char *joined = vocab_text(v, (int32_t)m[2], &n);
    return left_n && right_n && n == left_n + right_n && memcmp(joined, left, left_n) == 0 &&
           memcmp(joined + left_n, right, right_n) == 0;
}

static enum tern_status index_merges(struct tokenizer *t, struct tern_error *e)
{
    struct ranks *r = &t->ranks;
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t *m = r->merges + 3 * (size_t)i;
        if (!sound(t, m))
            return error_set(e, TERN_BAD_FILE,
                             "tokenizer: merge %u does not give the token of its two parts", i);
        uint32_t slot = hash(m[0], m[1]) & r->mask;
        for (int probes = 0; r->slots[slot]; slot = (slot + 1) & r->mask) {
            const uint32_t *other = r->merges + 3 * (size_t)(r->slots[slot] - 1);
            if ((other[0] == m[0] && other[1] == m[1]) || ++probes > PROBES_MAX)
                return error_set(e, TERN_BAD_FILE, "tokenizer: merge %u repeats an earlier one", i);
        }
        r->slots[slot] = i + 1;
    }
    return TERN_OK;
}

static enum tern_status read_merges(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    uint64_t count = 0;
    uint32_t slots = 16;
    enum tern_status s = keys_u32s(keys, "merges", &t->ranks.merges, &count, e);
    if (s)
        return s;
    if (count % 3 || count / 3 > 1u << 28)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %llu numbers are no list of merges",
                         (unsigned long long)count);
    t->ranks.n = (uint32_t)(count / 3);
    while (slots < 2 * t->ranks.n)
        slots *= 2;
    t->ranks.mask = slots - 1;
    t->ranks.slots = calloc(slots, sizeof *t->ranks.slots);
    if (!t->ranks.slots)
        return error_memory(e, "the merges", slots * sizeof *t->ranks.slots);
    return index_merges(t, e);
}

enum tern_status bpe_open(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    enum tern_status s = read_merges(t, keys, e);
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        t->byte_unit[b] = vocab_find(&t->vocab, &byte, 1);
    }
    return s;
}

void bpe_close(struct tokenizer *t)
{
    free(t->ranks.slots);
}
