/* The vocabulary: see vocab.h. Lookup is an open hash table with linear probing, at most half
 * full; a file whose tokens collide absurdly is refused, so that loading stays linear. */
#include "text/vocab.h"

#include "base/hex.h"

#include <stdlib.h>

enum { PROBES_MAX = 4096 };

static uint32_t hash(const char *p, size_t n)
{
    uint64_t h = n * 0x9E3779B97F4A7C15u, part = 0;
    for (; n >= 8; n -= 8, p += 8) {
        h = (h ^ load_u64(p)) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    memcpy(&part, p, n);
    h = (h ^ part) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

int vocab_byte(const char *p, size_t n)
{
    uint32_t byte;
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>' || !hex_read(p + 3, 2, &byte))
        return -1;
    return (int)byte;
}

static bool looked_up(unsigned char type)
{
    return type == TOKEN_NORMAL || type == TOKEN_USER || type == TOKEN_UNUSED;
}

static bool same(const struct vocab *v, uint32_t id, const char *p, size_t n)
{
    return v->start[id + 1] - v->start[id] == n && memcmp(v->bytes + v->start[id], p, n) == 0;
}

int32_t vocab_find(const struct vocab *v, const char *p, size_t n)
{
    if (n > v->longest)
        return -1;
    for (uint32_t i = hash(p, n) & v->mask; v->slots[i]; i = (i + 1) & v->mask)
        if (same(v, v->slots[i] - 1, p, n))
            return (int32_t)(v->slots[i] - 1);
    return -1;
}

static enum tern_status bad(struct tern_error *e, uint32_t id, const char *what)
{
    return error_set(e, TERN_BAD_FILE, "tokenizer: token %u %s", id, what);
}

static enum tern_status index_token(struct vocab *v, uint32_t id, struct tern_error *e)
{
    size_t n;
    const char *p = vocab_text(v, (int32_t)id, &n);
    if (n == 0)
        return bad(e, id, "is empty");
    uint32_t i = hash(p, n) & v->mask;
    for (int probes = 0; v->slots[i]; i = (i + 1) & v->mask) {
        if (same(v, v->slots[i] - 1, p, n))
            return bad(e, id, "repeats the bytes of an earlier one");
        if (++probes > PROBES_MAX)
            return bad(e, id, "cannot be indexed: too many tokens collide");
    }
    v->slots[i] = id + 1;
    if (n > v->longest)
        v->longest = (uint32_t)n;
    return TERN_OK;
}

static enum tern_status index_byte(struct vocab *v, uint32_t id, struct tern_error *e)
{
    size_t n;
    const char *p = vocab_text(v, (int32_t)id, &n);
    int byte = vocab_byte(p, n);
    if (byte < 0)
        return bad(e, id, "is a byte token, but not written as <0x00> to <0xFF>");
    if (v->byte_id[byte] >= 0)
        return bad(e, id, "repeats an earlier byte token");
    v->byte_id[byte] = (int32_t)id;
    return TERN_OK;
}

static enum tern_status build(struct vocab *v, struct tern_error *e)
{
    for (uint32_t id = 0; id < v->n; id++) {
        enum tern_status s = TERN_OK;
        if (v->types[id] > TOKEN_BYTE)
            s = bad(e, id, "has an unknown type");
        else if (looked_up(v->types[id]))
            s = index_token(v, id, e);
        else if (v->types[id] == TOKEN_BYTE)
            s = index_byte(v, id, e);
        if (s)
            return s;
    }
    return TERN_OK;
}

/* Lengths to offsets: their sum must be the bytes stored. */
static enum tern_status place(struct vocab *v, const uint32_t *lengths, uint64_t n_bytes,
                              struct tern_error *e)
{
    uint64_t at = 0;
    for (uint32_t id = 0; id < v->n; id++) {
        v->start[id] = (uint32_t)at;
        at += lengths[id];
        if (at > n_bytes)
            break;
        if (lengths[id] > VOCAB_TOKEN_MAX)
            return bad(e, id, "is longer than 4096 bytes");
        if (lengths[id] > v->longest_text)
            v->longest_text = lengths[id];
    }
    v->start[v->n] = (uint32_t)at;
    if (at != n_bytes)
        return error_set(e, TERN_BAD_FILE,
                         "tokenizer: the token lengths do not add up to the "
                         "%llu bytes of text stored",
                         (unsigned long long)n_bytes);
    return TERN_OK;
}

static enum tern_status take_memory(struct vocab *v, struct tern_error *e)
{
    uint32_t slots = 16;
    while (slots < 2 * v->n)
        slots *= 2;
    v->mask = slots - 1;
    v->start = malloc((v->n + (size_t)1) * sizeof *v->start);
    v->slots = calloc(slots, sizeof *v->slots);
    if (!v->start || !v->slots)
        return error_memory(e, "the vocabulary", (size_t)slots * 4 + v->n * (size_t)4);
    for (int i = 0; i < 256; i++)
        v->byte_id[i] = -1;
    return TERN_OK;
}

enum tern_status vocab_open(struct vocab *v, struct keys *keys, uint64_t rows, struct tern_error *e)
{
    const uint32_t *lengths = NULL;
    const char *types = NULL;
    uint64_t n_bytes = 0, n = 0, n_types = 0;
    enum tern_status s;
    *v = (struct vocab){.bytes = ""};
    if ((s = keys_text(keys, "tokens.bytes", &v->bytes, &n_bytes, e)) ||
        (s = keys_u32s(keys, "tokens.lengths", &lengths, &n, e)) ||
        (s = keys_text(keys, "tokens.types", &types, &n_types, e)))
        return s;
    if (n == 0 || n_types != n || n_bytes > UINT32_MAX)
        return error_set(
            e, TERN_BAD_FILE,
            "tokenizer: %llu token lengths with %llu types (both must be there, alike)",
            (unsigned long long)n, (unsigned long long)n_types);
    if (n > rows || n > 1u << 28)
        return error_set(e, TERN_BAD_FILE,
                         "tokenizer: %llu tokens, but the model's vocabulary has %llu rows",
                         (unsigned long long)n, (unsigned long long)rows);
    v->n = (uint32_t)n;
    v->types = (const unsigned char *)types;
    if ((s = take_memory(v, e)) || (s = place(v, lengths, n_bytes, e)))
        return s;
    return build(v, e);
}

void vocab_close(struct vocab *v)
{
    free(v->start);
    free(v->slots);
}
