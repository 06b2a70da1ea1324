/* Key blocks: see keys.h for the layout. Untrusted bytes in, a checked list out. */
#include "weights/keys.h"

#include <stdlib.h>

enum { KEY_MIN_BYTES = 40, KEY_NAME_MAX = 256 }; /* a key: four numbers and a name */

static uint64_t type_bytes(uint64_t type)
{
    switch (type) {
    case KEY_U64:
        return 8;
    case KEY_F32:
    case KEY_U32:
        return 4;
    case KEY_TEXT:
        return 1;
    default:
        return 0;
    }
}

static enum tern_status bad_key(const struct keys *keys, size_t i, const char *what,
                                struct tern_error *e)
{
    return error_set(e, TERN_BAD_FILE, "section '%s', key %zu: %s", keys->where, i, what);
}

static bool same_name(const struct key *a, const struct key *b)
{
    return a->name_bytes == b->name_bytes && memcmp(a->name, b->name, a->name_bytes) == 0;
}

static bool printable(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < 33 || s[i] > 126)
            return false;
    return n > 0;
}

static enum tern_status parse_key(struct keys *keys, struct bytes *b, const void *start,
                                  struct tern_error *e)
{
    struct key *k = &keys->list[keys->n];
    uint64_t flags = bytes_u64(b), type = bytes_u64(b), bytes;
    k->count = bytes_u64(b);
    k->name_bytes = (size_t)bytes_u64(b);
    if (b->bad)
        return bad_key(keys, keys->n, "the block ends inside it", e);
    if (k->name_bytes > KEY_NAME_MAX)
        return bad_key(keys, keys->n, "its name is longer than 256 bytes", e);
    k->name = bytes_take(b, k->name_bytes);
    bytes_align8(b, start);
    if (b->bad || !printable(k->name, k->name_bytes))
        return bad_key(keys, keys->n, "its name is cut or not plain text", e);
    if (flags > 1 || !type_bytes(type))
        return bad_key(keys, keys->n, "its flags or type are unknown", e);
    if (!size_mul(k->count, type_bytes(type), &bytes))
        return bad_key(keys, keys->n, "its count overflows", e);
    k->values = bytes_take(b, bytes);
    bytes_align8(b, start);
    if (b->bad)
        return bad_key(keys, keys->n, "its values reach past the end of the section", e);
    k->type = (enum key_type)type;
    k->critical = flags & 1;
    for (size_t i = 0; i < keys->n; i++)
        if (same_name(&keys->list[i], k))
            return bad_key(keys, keys->n, "a key of this name came before", e);
    keys->n++;
    return TERN_OK;
}

enum tern_status keys_parse(struct keys *keys, const char *where, const void *p, size_t n,
                            struct tern_error *e)
{
    struct bytes b = bytes_of(p, n);
    uint64_t count = bytes_u64(&b);
    *keys = (struct keys){.where = where};
    if (b.bad || count > bytes_left(&b) / KEY_MIN_BYTES || count > 1024)
        return error_set(e, TERN_BAD_FILE, "section '%s': its key count does not fit its %zu bytes",
                         where, n);
    keys->list = calloc(count ? (size_t)count : 1, sizeof *keys->list);
    if (!keys->list)
        return error_memory(e, "keys", (size_t)count * sizeof *keys->list);
    while (keys->n < count) {
        enum tern_status s = parse_key(keys, &b, p, e);
        if (s) {
            keys_close(keys);
            return s;
        }
    }
    if (bytes_left(&b)) {
        error_set(e, TERN_BAD_FILE, "section '%s': %zu bytes follow its last key", where,
                  bytes_left(&b));
        keys_close(keys);
        return TERN_BAD_FILE;
    }
    return TERN_OK;
}

void keys_close(struct keys *keys)
{
    free(keys->list);
    *keys = (struct keys){.where = keys->where};
}

const struct key *keys_find(struct keys *keys, const char *name)
{
    for (size_t i = 0; i < keys->n; i++) {
        struct key *k = &keys->list[i];
        if (text_is(k->name, k->name_bytes, name)) {
            k->used = true;
            return k;
        }
    }
    return NULL;
}

static enum tern_status get(struct keys *keys, const char *name, enum key_type type,
                            const void **out, uint64_t *count, struct tern_error *e)
{
    static const char *const names[] = {"", "u64", "f32", "text", "u32"};
    const struct key *k = keys_find(keys, name);
    if (!k)
        return TERN_OK;
    if (k->type != type)
        return error_set(e, TERN_BAD_FILE, "section '%s', key '%s': it is %s, want %s", keys->where,
                         name, names[k->type], names[type]);
    *out = k->values;
    *count = k->count;
    return TERN_OK;
}

static enum tern_status one(struct keys *keys, const char *name, enum key_type type,
                            const void **out, struct tern_error *e)
{
    uint64_t count = 1;
    enum tern_status s = get(keys, name, type, out, &count, e);
    if (!s && count != 1)
        return error_set(e, TERN_BAD_FILE, "section '%s', key '%s': %llu values, want one",
                         keys->where, name, (unsigned long long)count);
    return s;
}

enum tern_status keys_u64(struct keys *keys, const char *name, uint64_t *out, struct tern_error *e)
{
    const void *p = NULL;
    enum tern_status s = one(keys, name, KEY_U64, &p, e);
    if (!s && p)
        *out = load_u64(p);
    return s;
}

enum tern_status keys_f32(struct keys *keys, const char *name, float *out, struct tern_error *e)
{
    const void *p = NULL;
    enum tern_status s = one(keys, name, KEY_F32, &p, e);
    if (!s && p)
        *out = load_f32(p);
    return s;
}

enum tern_status keys_u64s(struct keys *keys, const char *name, const uint64_t **out,
                           uint64_t *count, struct tern_error *e)
{
    const void *p = *out;
    enum tern_status s = get(keys, name, KEY_U64, &p, count, e);
    *out = p;
    return s;
}

enum tern_status keys_u32s(struct keys *keys, const char *name, const uint32_t **out,
                           uint64_t *count, struct tern_error *e)
{
    const void *p = *out;
    enum tern_status s = get(keys, name, KEY_U32, &p, count, e);
    *out = p;
    return s;
}

enum tern_status keys_f32s(struct keys *keys, const char *name, const float **out, uint64_t *count,
                           struct tern_error *e)
{
    const void *p = *out;
    enum tern_status s = get(keys, name, KEY_F32, &p, count, e);
    *out = p;
    return s;
}

enum tern_status keys_text(struct keys *keys, const char *name, const char **out, uint64_t *count,
                           struct tern_error *e)
{
    const void *p = *out;
    enum tern_status s = get(keys, name, KEY_TEXT, &p, count, e);
    *out = p;
    return s;
}

enum tern_status keys_unknown(const struct keys *keys, struct tern_error *e)
{
    for (size_t i = 0; i < keys->n; i++) {
        const struct key *k = &keys->list[i];
        if (k->critical && !k->used)
            return error_set(e, TERN_BAD_FILE,
                             "section '%s': key '%.*s' is needed and unknown to this version (%s)",
                             keys->where, (int)k->name_bytes, k->name, TERN_VERSION);
    }
    return TERN_OK;
}

bool text_is(const char *text, uint64_t n, const char *want)
{
    return n == strlen(want) && memcmp(text, want, (size_t)n) == 0;
}
