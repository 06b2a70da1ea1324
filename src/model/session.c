/* Session files: see session.h. */
#include "model/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/keywriter.h"
#include "model/attention.h"
#include "model/layout.h"
#include "model/load.h"
#include "model/writer.h"

typedef unsigned long long ull; /* for printf */

/* A layer's share of the blocks first .. end is one f32 tensor of this name, [16, k]. */
struct share {
    char name[16];
    size_t first, end, bytes; /* blocks; bytes of one */
    uint64_t k;
};

static struct share share_of(const struct cache *c, const struct model *m, size_t l, size_t first,
                             size_t n)
{
    struct share s = {.first = first, .end = (n + BLOCK - 1) / BLOCK};
    s.bytes = 2 * m->layers[l].n_kv_heads * c->layers[l].kv_bytes;
    s.k = (s.end - first) * (s.bytes / (TILE_ROWS * sizeof(float)));
    snprintf(s.name, sizeof s.name, "layer.%zu", l);
    return s;
}

/* The features that no tensor shows, such as the RoPE frequencies. */
static uint64_t config_hash(const struct model *m)
{
    size_t n = 0;
    const void *body = weights_section(m->weights, "config", &n);
    return xxh64(body, n);
}

/* ---- save --------------------------------------------------------------------------------- */

static void write_keys(struct keywriter *k, const struct cache *c, const struct model *m,
                       size_t seq, uint64_t *first)
{
    for (size_t l = 0; l < c->n_layers; l++)
        first[l] = cache_first(c, l, seq);
    keywriter_u64(k, "arith", TERN_ARITH);
    keywriter_u64(k, "model", weights_content_id(m->weights));
    keywriter_u64(k, "config", config_hash(m));
    keywriter_u64(k, "cache_type", c->type);
    keywriter_add(k, "tokens", true, KEY_U32, c->tokens + seq * c->n_ctx, c->length[seq]);
    keywriter_add(k, "first", true, KEY_U64, first, c->n_layers);
}

/* What lies behind the sequence's end is of another text, or of none: it is not written. */
static enum tern_status clear_tail(const struct cache *c, const struct layer *w,
                                   unsigned char *block, size_t p, size_t kv_bytes,
                                   struct tern_error *e)
{
    void *zeros = calloc(w->head_dim + GROUP, sizeof(float));
    if (!zeros)
        return error_memory(e, "a key", w->head_dim * sizeof(float));
    for (; p < BLOCK; p++)
        for (size_t h = 0; h < 2 * w->n_kv_heads; h++)
            attention_put(block + h * kv_bytes, c->type, h % 2 == 0, zeros, zeros, w->head_dim, p);
    free(zeros);
    return TERN_OK;
}

static enum tern_status write_layer(struct writer *w, const struct cache *c, const struct model *m,
                                    size_t seq, size_t l, struct tern_error *e)
{
    size_t n = c->length[seq];
    struct share s = share_of(c, m, l, cache_first(c, l, seq), n);
    unsigned char *block = malloc(s.bytes);
    enum tern_status status = block ? TERN_OK : error_memory(e, "a block of the cache", s.bytes);
    for (size_t b = s.first; b < s.end && !status; b++) {
        memcpy(block, cache_k(c, l, seq, b * BLOCK, 0), s.bytes);
        if (b == n / BLOCK)
            status = clear_tail(c, &m->layers[l], block, n % BLOCK, c->layers[l].kv_bytes, e);
        if (!status)
            status = writer_data(w, block, s.bytes, e);
    }
    free(block);
    return status;
}

static enum tern_status write_all(struct writer *w, const struct cache *c, size_t seq,
                                  const struct model *m, uint64_t *first, struct tern_error *e)
{
    struct keywriter k;
    keywriter_init(&k);
    write_keys(&k, c, m, seq, first);
    enum tern_status s = k.failed ? error_memory(e, "the session", k.bytes)
                                  : writer_section(w, "config", true, k.data, k.bytes, e);
    keywriter_close(&k);
    for (size_t l = 0; l < c->n_layers && !s; l++) {
        struct share t = share_of(c, m, l, first[l], c->length[seq]);
        s = writer_tensor(w, t.name, TERN_F32, TILE_ROWS, t.k, 1, e);
    }
    for (size_t l = 0; l < c->n_layers && !s; l++)
        s = write_layer(w, c, m, seq, l, e);
    return s ? s : writer_finish(w, e);
}

static enum tern_status write_file(const struct cache *c, size_t seq, const struct model *m,
                                   const char *path, struct tern_error *e)
{
    struct writer *w = NULL;
    uint64_t *first = calloc(c->n_layers, sizeof *first);
    enum tern_status s = first ? writer_open_kind(&w, path, LAYOUT_KIND_SESSION, e)
                               : error_memory(e, "a session", c->n_layers * sizeof *first);
    if (!s)
        s = write_all(w, c, seq, m, first, e);
    writer_close(w);
    free(first);
    return s;
}

enum tern_status session_save(const struct cache *c, size_t seq, const struct model *m,
                              const char *path, struct tern_error *e)
{
    char *temporary = NULL;
    if (!c->length[seq])
        return error_set(e, TERN_USAGE, "%s: the sequence is empty, there is nothing to save",
                         path);
    enum tern_status s = file_check_target(path, weights_path(m->weights), e);
    if (!s && !(s = file_take_temporary(&temporary, path, e)) &&
        ((s = write_file(c, seq, m, temporary, e)) || (s = file_replace(temporary, path, e))))
        file_remove(temporary);
    free(temporary);
    return s;
}

/* ---- load --------------------------------------------------------------------------------- */

struct session {
    struct weights *file;
    const uint32_t *tokens; /* [n], in the file's header */
    uint64_t n;
    const uint64_t *first; /* [n_first], of each layer */
    uint64_t n_first;
};

/* One value of the file must be ours. */
static enum tern_status check_value(struct keys *keys, const char *name, uint64_t want,
                                    const char *what, struct tern_error *e)
{
    uint64_t found = ~want;
    enum tern_status s = keys_u64(keys, name, &found, e);
    return s || found == want
               ? s
               : error_set(e, TERN_BAD_FILE, "it was saved with another %s (%llx, not %llx)",
                           what, (ull)found, (ull)want);
}

static enum tern_status check_tokens(const struct session *t, const struct cache *c,
                                     const struct model *m, struct tern_error *e)
{
    if (!t->n)
        return error_set(e, TERN_BAD_FILE, "it has no tokens");
    if (t->n > c->n_ctx)
        return error_set(e, TERN_LIMIT,
                         "it holds %llu tokens and the context %zu positions: ask for a larger "
                         "context",
                         (ull)t->n, c->n_ctx);
    for (uint64_t i = 0; i < t->n; i++)
        if (t->tokens[i] >= m->vocab)
            return error_set(e, TERN_BAD_FILE, "token %u is outside the vocabulary of %zu",
                             t->tokens[i], m->vocab);
    return TERN_OK;
}

static enum tern_status check_layers(struct session *t, struct keys *keys, const struct cache *c,
                                     const struct model *m, struct tern_error *e)
{
    const struct tensor *unused;
    enum tern_status s = keys_u64s(keys, "first", &t->first, &t->n_first, e);
    if (!s && (t->n_first != c->n_layers || !cache_fits(c, t->n, t->first)))
        s = error_set(e, TERN_BAD_FILE, "its blocks are not those of %llu tokens", (ull)t->n);
    for (size_t l = 0; l < c->n_layers && !s; l++) {
        struct share share = share_of(c, m, l, t->first[l], t->n);
        s = weights_bind(t->file, share.name, 1u << TERN_F32, TILE_ROWS, share.k, 1, &unused, e);
    }
    return s;
}

/* Everything about the file but the bytes of its tensors. */
static enum tern_status check_session(struct session *t, const struct cache *c,
                                      const struct model *m, struct tern_error *e)
{
    struct keys *keys = weights_config(t->file);
    enum tern_status s;
    if ((s = check_value(keys, "arith", TERN_ARITH, "revision of the arithmetic", e)) ||
        (s = check_value(keys, "model", weights_content_id(m->weights), "model", e)) ||
        (s = check_value(keys, "config", config_hash(m), "config of the model", e)) ||
        (s = check_value(keys, "cache_type", c->type, "type of cache (--cache-type)", e)) ||
        (s = keys_u32s(keys, "tokens", &t->tokens, &t->n, e)) || (s = check_tokens(t, c, m, e)) ||
        (s = check_layers(t, keys, c, m, e)) || (s = keys_unknown(keys, e)))
        return s;
    return weights_all_bound(t->file, e);
}

static void fill(struct cache *c, size_t seq, const struct model *m, const struct session *t)
{
    cache_refill(c, seq, t->n, t->first);
    memcpy(c->tokens + seq * c->n_ctx, t->tokens, t->n * sizeof *t->tokens);
    for (size_t l = 0; l < c->n_layers; l++) {
        struct share s = share_of(c, m, l, t->first[l], t->n);
        const unsigned char *data = weights_find(t->file, s.name)->data;
        for (size_t b = s.first; b < s.end; b++, data += s.bytes)
            memcpy(cache_k(c, l, seq, b * BLOCK, 0), data, s.bytes);
    }
}

enum tern_status session_load(struct cache *c, size_t seq, const struct model *m, struct pool *pool,
                              const char *path, struct tern_error *e)
{
    struct tern_error mine;
    struct session t = {0};
    e = e ? e : &mine;
    enum tern_status s = weights_open_kind(&t.file, path, LAYOUT_KIND_SESSION, e);
    if (s)
        return s;
    if (!(s = check_session(&t, c, m, e)) && !(s = load_copy(t.file, pool, e)) &&
        !(s = weights_check(t.file, NULL, NULL, e)))
        fill(c, seq, m, &t);
    if (s && strncmp(e->text, path, strlen(path)))
        error_in(e, s, path);
    weights_close(t.file);
    return s;
}
