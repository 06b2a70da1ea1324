/* A key block: named, typed values, the body of the sections `config`, `tokenizer`, `generation`,
 * `provenance`, `vectors` and `seal` of the weights file (src/weights/FORMAT.md draws it).
 *
 *   u64 n_keys, then per key, each part padded with zeros to 8 bytes:
 *     u64 flags (bit 0: critical), u64 type, u64 count, u64 name_bytes, name, values
 *   type 1: u64 [count]   2: f32 [count]   3: bytes or UTF-8 text of `count` bytes   4: u32 [count]
 *
 * keys_parse validates the whole block and allocates n_keys entries, a number bounded by the
 * block's own size. Values stay in the caller's memory, which must outlive the keys. Every getter
 * checks the type and marks the key as used, so that keys_unknown can name a critical key that
 * nobody asked for: that is how a file with a feature that the engine lacks is refused. */
#ifndef WEIGHTS_KEYS_H
#define WEIGHTS_KEYS_H

#include "base/bytes.h"
#include "base/error.h"

enum key_type { KEY_U64 = 1, KEY_F32 = 2, KEY_TEXT = 3, KEY_U32 = 4 };

struct key {
    const char *name; /* name_bytes, not NUL-terminated; borrowed */
    size_t name_bytes;
    enum key_type type;
    bool critical, used;
    uint64_t count;
    const void *values; /* 8-byte aligned when the block is */
};

struct keys {
    const char *where; /* section name, for messages */
    struct key *list;  /* [n] */
    size_t n;
};

enum tern_status keys_parse(struct keys *keys, const char *where, const void *p, size_t n,
                            struct tern_error *e);
void keys_close(struct keys *keys);

/* The key, marked as used, or NULL when absent. */
const struct key *keys_find(struct keys *keys, const char *name);

/* Typed getters. A key of another type, or whose count is not the wanted one, is TERN_BAD_FILE.
 * An absent key leaves *out as it was (the default) and is TERN_OK. */
enum tern_status keys_u64(struct keys *keys, const char *name, uint64_t *out, struct tern_error *e);
enum tern_status keys_f32(struct keys *keys, const char *name, float *out, struct tern_error *e);

/* Arrays and text: *out is borrowed, *count the number of elements or bytes. */
enum tern_status keys_u64s(struct keys *keys, const char *name, const uint64_t **out,
                           uint64_t *count, struct tern_error *e);
enum tern_status keys_u32s(struct keys *keys, const char *name, const uint32_t **out,
                           uint64_t *count, struct tern_error *e);
enum tern_status keys_f32s(struct keys *keys, const char *name, const float **out, uint64_t *count,
                           struct tern_error *e);
enum tern_status keys_text(struct keys *keys, const char *name, const char **out, uint64_t *count,
                           struct tern_error *e);

/* TERN_BAD_FILE, naming it, when a critical key was never asked for. */
enum tern_status keys_unknown(const struct keys *keys, struct tern_error *e);

/* True when the key's text is exactly the NUL-terminated `want`. */
bool text_is(const char *text, uint64_t n, const char *want);

#endif
