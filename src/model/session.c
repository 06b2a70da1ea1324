/* Session files: see session.h. The file is small but for its one tensor: it is written here by
 * hand, and read as any weights file is. */
#include "model/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "weights/keys.h"
#include "model/kv_store.h"
#include "model/split_store.h"
#include "weights/checksums.h"
#include "weights/file_layout.h"
#include "weights/load.h"

typedef unsigned long long ull; /* for printf */

enum {
    N_LOG = 2, /* the record's position, and that of the tail of the newest prompt; 0: none */
    NAME = 8,
    KEY_BYTES = 4 * 8 + NAME,
    ENTRY_BYTES = 8 + 8 + NAME + 8 * 8
};

void session_owners(const struct cache *c, const struct model *m, uint64_t owner[SESSION_OWNERS])
{
    size_t n = 0;
    const void *config = weights_section(m->weights, "config", &n);
    owner[0] = TERN_ARITH;
    owner[1] = weights_content_id(m->weights);
    owner[2] = xxh64(config, n);
    owner[3] = c->type;
}

enum tern_status session_check_owners(const struct cache *c, const struct model *m,
                                      const uint64_t owner[SESSION_OWNERS], struct tern_error *e)
{
    static const char *const what[] = {"revision of the arithmetic", "model", "config of the model",
                                       "type of cache (--cache-type)"};
    uint64_t ours[SESSION_OWNERS];
    session_owners(c, m, ours);
    for (size_t i = 0; i < SESSION_OWNERS; i++)
        if (owner[i] != ours[i])
            return error_set(e, TERN_BAD_FILE, "it was saved with another %s", what[i]);
    return TERN_OK;
}

static size_t n_blocks(size_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

/* Bytes of a block of a layer (0 where it reads another's); of a recurrent state; of a row of its log;
 * and of all that a sequence of n tokens holds in so many layers, with `states` older states and
 * `rows` of the log. UINT64_MAX when that does not fit. */
static size_t block_bytes(const struct cache *c, const struct model *m, size_t l)
{
    const struct layer *w = &m->layers[l];
    return w->kv_from ? 0 : layer_kv(w) * attend_bytes(c->type, w->head_dim);
}

static size_t record_bytes(const struct model *m)
{
    return m->state_floats * sizeof(float);
}

static size_t log_bytes(const struct model *m)
{
    return m->log_floats * sizeof(float);
}

static uint64_t data_bytes(const struct cache *c, const struct model *m, const uint64_t *first,
                           size_t n_layers, size_t n, uint64_t states, size_t rows)
{
    uint64_t bytes = rows * log_bytes(m), more;
    for (size_t l = 0; l < n_layers; l++)
        bytes += (n_blocks(n) - first[l]) * block_bytes(c, m, l);
    return size_mul(record_bytes(m), states + 1, &more) && size_add(bytes, more, &bytes)
               ? bytes
               : UINT64_MAX;
}

/* ---- save --------------------------------------------------------------------------------- */

struct session_out {
    const struct cache *c;
    const struct model *m;
    size_t seq, n;
    const char *path;
    int fd;
    uint64_t at; /* where the next block goes */
    struct xxh64 hash;
    uint64_t log[N_LOG]; /* of a model with recurrent layers */
    size_t n_states, n_layers;
    uint64_t *states; /* [n_states] positions; in the same memory, behind */
    size_t n_first;
    uint64_t first[]; /* [n_first] blocks of the layers; with the one that guesses, its first row */
};

static enum tern_status write_next(struct session_out *o, const void *p, size_t n,
                                   struct tern_error *e)
{
    uint64_t at = o->at;
    xxh64_update(&o->hash, p, n);
    o->at += n;
    return file_write_at(o->fd, p, n, at, o->path, e);
}

/* What lies behind the sequence's end, or before the first row of the layer that guesses, is of
 * another text, or of none: it is not written. */
static void clear_others(const struct session_out *o, size_t l, size_t b, unsigned char *block,
                         const void *zeros)
{
    size_t begin = b * BLOCK, first = l < o->m->n_layers ? 0 : (size_t)o->first[l + 1];
    kv_clear(block, o->c, &o->m->layers[l], 0, first > begin ? first - begin : 0, zeros);
    kv_clear(block, o->c, &o->m->layers[l], o->n - begin, BLOCK, zeros);
}

static enum tern_status write_layer(struct session_out *o, size_t l, struct tern_error *e)
{
    size_t bytes = block_bytes(o->c, o->m, l), zeros = bytes / BLOCK + GROUP; /* of a position */
    if (!bytes)
        return TERN_OK;
    unsigned char *block = calloc(1, bytes + zeros);
    enum tern_status s = block ? TERN_OK : error_memory(e, "a block of the cache", bytes);
    for (size_t b = o->first[l]; b < n_blocks(o->n) && !s; b++) {
        store_take(o->c, o->m, l, o->seq, b, block, bytes);
        if (b == o->n / BLOCK || l == o->m->n_layers)
            clear_others(o, l, b, block, block + bytes);
        s = write_next(o, block, bytes, e);
    }
    free(block);
    return s;
}

/* The state where the log begins, then the older ones, then the log. */
static enum tern_status write_floats(struct session_out *o, const float *from, size_t bytes,
                                     struct tern_error *e)
{
    return write_next(o, store_floats(o->c, o->m, from), bytes, e);
}

static enum tern_status write_states(struct session_out *o, struct tern_error *e)
{
    const struct recurrent *r = &o->c->recurrent;
    size_t bytes = record_bytes(o->m), at = (size_t)o->log[0];
    enum tern_status s =
        bytes ? write_floats(o, recurrent_state(r, o->seq, at), bytes, e) : TERN_OK;
    for (size_t i = 0; i < o->n_states && !s; i++)
        s = write_floats(o, recurrent_snapshot(r, o->seq, i), bytes, e);
    for (; bytes && at < o->n && !s; at++)
        s = write_floats(o, recurrent_log(r, o->seq, at), log_bytes(o->m), e);
    return s;
}

static void put(unsigned char **at, const void *p, size_t n)
{
    memcpy(*at, p, n);
    *at += (n + 7) / 8 * 8; /* what is skipped is zero */
}

static void put_u64s(unsigned char **at, const uint64_t *values, size_t n)
{
    put(at, values, n * sizeof *values);
}

static void put_section(unsigned char **at, const char *tag, uint64_t offset, uint64_t bytes)
{
    put(at, tag, strlen(tag));
    *at += LAYOUT_TAG_BYTES - (strlen(tag) + 7) / 8 * 8;
    put_u64s(at, (const uint64_t[]){1, offset, bytes}, 3);
}

static void put_key(unsigned char **at, const char *name, uint64_t type, const void *values,
                    uint64_t n)
{
    put_u64s(at, (const uint64_t[]){1, type, n, strlen(name)}, 4);
    put(at, name, strlen(name));
    put(at, values, n * (type == KEY_U64 ? 8 : 4));
}

static size_t n_keys(const struct session_out *o)
{
    return 3u + (o->n_states > 0) + (o->m->state_floats > 0);
}

/* Offset of the directory; the header ends with its one entry. */
static size_t directory_at(const struct session_out *o)
{
    return LAYOUT_START_BYTES + 2 * LAYOUT_SECTION_BYTES + 8 + n_keys(o) * KEY_BYTES +
           8 * (SESSION_OWNERS + (o->n + 1) / 2 + o->n_first + o->n_states +
                (o->m->state_floats ? N_LOG : 0));
}

/* header [directory + ENTRY_BYTES], zeroed */
static void fill_header(const struct session_out *o, unsigned char *header, size_t directory,
                        uint64_t data)
{
    size_t table = LAYOUT_START_BYTES, config = table + 2 * LAYOUT_SECTION_BYTES;
    uint64_t owner[SESSION_OWNERS], bytes = o->at - data, sum = xxh64_digest(&o->hash);
    unsigned char *at = header + LAYOUT_KIND;
    memcpy(header, LAYOUT_MAGIC, 4);
    header[LAYOUT_VERSION] = TERN_FORMAT_MAJOR;
    header[LAYOUT_VERSION + 2] = TERN_FORMAT_MINOR;
    put_u64s(&at,
             (const uint64_t[]){LAYOUT_KIND_SESSION, directory + ENTRY_BYTES, o->at, 0,
                                xxh64(&sum, sizeof sum), 2},
             6);
    at = header + table;
    put_section(&at, "config", config, directory - config);
    put_section(&at, "tensors", directory, ENTRY_BYTES);
    put_u64s(&at, (const uint64_t[]){n_keys(o)}, 1);
    session_owners(o->c, o->m, owner);
    put_key(&at, "owner", KEY_U64, owner, SESSION_OWNERS);
    put_key(&at, "tokens", KEY_U32, o->c->tokens + o->seq * o->c->n_ctx, o->n);
    put_key(&at, "first", KEY_U64, o->first, o->n_first);
    if (o->n_states)
        put_key(&at, "states", KEY_U64, o->states, o->n_states);
    if (o->m->state_floats)
        put_key(&at, "log", KEY_U64, o->log, N_LOG);
    put_u64s(&at, (const uint64_t[]){1, 5}, 2);
    put(&at, "cache", 5);
    put_u64s(&at,
             (const uint64_t[]){TERN_F32, TILE_ROWS, TILE_ROWS, bytes / (TILE_ROWS * sizeof(float)),
                                1, data, bytes, sum},
             8);
    sum = layout_header_checksum(header, directory + ENTRY_BYTES);
    memcpy(header + LAYOUT_CHECKSUM, &sum, sizeof sum);
}

static enum tern_status write_all(struct session_out *o, struct tern_error *e)
{
    size_t directory = directory_at(o), bytes = directory + ENTRY_BYTES;
    uint64_t data = (bytes + LAYOUT_DATA_ALIGN - 1) / LAYOUT_DATA_ALIGN * LAYOUT_DATA_ALIGN;
    if (bytes > LAYOUT_MAX_HEADER)
        return error_set(e, TERN_LIMIT, "a session cannot hold %zu tokens", o->n);
    unsigned char *header = calloc(1, bytes);
    enum tern_status s = header ? TERN_OK : error_memory(e, "a session", bytes);
    o->at = data;
    for (size_t l = 0; l < o->n_layers && !s; l++)
        s = block_bytes(o->c, o->m, l) ? write_layer(o, l, e) : TERN_OK;
    if (!s && !(s = write_states(o, e))) {
        fill_header(o, header, directory, data);
        s = file_write_at(o->fd, header, bytes, 0, o->path, e);
    }
    free(header);
    return s;
}

static enum tern_status write_file(const struct cache *c, size_t seq, const struct model *m,
                                   const char *path, mode_t mode, struct tern_error *e)
{
    size_t states = recurrent_snapshots(&c->recurrent, seq, c->length[seq], NULL);
    const struct hidden_seq *guesses = c->hidden.dim ? &c->hidden.seqs[seq] : NULL;
    bool with_rows = guesses && guesses->first < guesses->next;
    size_t n_first = m->n_layers + (with_rows ? 2 : 0);
    size_t bytes = sizeof(struct session_out) + (n_first + states) * sizeof(uint64_t);
    struct session_out *o = calloc(1, bytes);
    if (!o)
        return error_memory(e, "a session", bytes);
    o->c = c, o->m = m, o->seq = seq, o->n = c->length[seq], o->path = path;
    xxh64_init(&o->hash, 0);
    o->n_first = n_first, o->n_layers = m->n_layers + with_rows;
    for (size_t l = 0; l < o->n_layers; l++)
        o->first[l] = cache_first(c, l, seq);
    if (with_rows)
        o->first[o->n_layers] = guesses->first;
    o->n_states = states, o->states = o->first + n_first;
    recurrent_snapshots(&c->recurrent, seq, o->n, o->states);
    if (m->state_floats)
        recurrent_save(&c->recurrent, seq, o->n, &o->log[0], &o->log[1]);
    enum tern_status s = file_open_write(&o->fd, 0600, path, e);
    if (!s) {
        (void)fchmod(o->fd, mode); /* some file systems know no modes */
        s = write_all(o, e);
    }
    file_close(o->fd);
    free(o);
    return s;
}

enum tern_status session_save(const struct cache *c, size_t seq, const struct model *m,
                              const char *path, struct tern_error *e)
{
    char *temporary = NULL;
    struct stat there;
    mode_t mode = stat(path, &there) ? 0600 : there.st_mode & 0777;
    if (!c->length[seq])
        return error_set(e, TERN_USAGE, "%s: the sequence is empty, there is nothing to save",
                         path);
    enum tern_status s = file_check_target(path, weights_path(m->weights), e);
    if (!s && !(s = file_take_temporary(&temporary, path, e)) &&
        ((s = write_file(c, seq, m, temporary, mode, e)) || (s = file_replace(temporary, path, e))))
        file_remove(temporary);
    file_give_temporary(temporary, e);
    return s;
}

/* ---- load --------------------------------------------------------------------------------- */

struct session {
    struct weights *file;
    const uint64_t *owner, *first, *states, *log; /* [..] in the file's header, as are */
    const uint32_t *tokens;                       /* [n] */
    uint64_t n_owners, n_first, n_states, n_log, n;
    size_t n_layers; /* whose keys it holds */
    const struct tensor *data;
};

static enum tern_status check_owners(const struct session *t, const struct cache *c,
                                     const struct model *m, struct tern_error *e)
{
    static const uint64_t none[SESSION_OWNERS];
    return session_check_owners(c, m, t->n_owners == SESSION_OWNERS ? t->owner : none, e);
}

static enum tern_status check_tokens(struct session *t, const struct cache *c,
                                     const struct model *m, struct tern_error *e)
{
    if (t->n > c->n_ctx)
        return error_set(e, TERN_LIMIT,
                         "it holds %llu tokens and the context %zu positions: ask for a larger "
                         "context",
                         (ull)t->n, c->n_ctx);
    for (uint64_t i = 0; i < t->n; i++)
        if (t->tokens[i] >= m->vocab)
            return error_set(e, TERN_BAD_FILE, "token %u is outside the vocabulary of %zu",
                             t->tokens[i], m->vocab);
    bool with_rows = m->has_mtp && t->n_first == m->n_layers + 2;
    t->n_layers = m->n_layers + with_rows;
    if (!t->n || t->n_first != t->n_layers + with_rows ||
        !cache_fits(c, t->n, t->first, t->n_layers) ||
        (with_rows && (t->first[t->n_layers] - 1 >= t->n || t->first[m->n_layers] > n_blocks(t->n))))
        return error_set(e, TERN_BAD_FILE, "its blocks are not those of %llu tokens", (ull)t->n);
    return TERN_OK;
}

/* The positions of the record and of the tail. A file without a log has the record of its end. */
static size_t record_at(const struct session *t)
{
    return (size_t)(t->n_log ? t->log[0] : t->n);
}

static size_t tail_at(const struct session *t)
{
    return (size_t)(t->n_log ? t->log[1] : 0);
}

static enum tern_status check_states(const struct session *t, const struct model *m,
                                     struct tern_error *e)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i < t->n_states; before = t->states[i++])
        if (t->states[i] <= before || t->states[i] >= t->n || !m->state_floats)
            return error_set(e, TERN_BAD_FILE, "it has no place for a state after %llu tokens",
                             (ull)t->states[i]);
    if (t->n_log && (t->n_log != N_LOG || !m->state_floats || t->log[0] > t->n ||
                     t->n - t->log[0] > RECURRENT_LOG || t->log[1] > t->n))
        return error_set(e, TERN_BAD_FILE, "its log is not one of a text of %llu tokens",
                         (ull)t->n);
    return TERN_OK;
}

/* Everything about the file but the bytes of its tensor. */
static enum tern_status check_session(struct session *t, const struct cache *c,
                                      const struct model *m, struct tern_error *e)
{
    struct keys *keys = weights_config(t->file);
    enum tern_status s;
    if ((s = keys_u64s(keys, "owner", &t->owner, &t->n_owners, e)) ||
        (s = keys_u32s(keys, "tokens", &t->tokens, &t->n, e)) ||
        (s = keys_u64s(keys, "first", &t->first, &t->n_first, e)) ||
        (s = keys_u64s(keys, "states", &t->states, &t->n_states, e)) ||
        (s = keys_u64s(keys, "log", &t->log, &t->n_log, e)) ||
        (s = keys_unknown(keys, e)) || (s = check_owners(t, c, m, e)) ||
        (s = check_tokens(t, c, m, e)) || (s = check_states(t, m, e)) ||
        (s = weights_bind(t->file, "cache", 1u << TERN_F32, TILE_ROWS,
                          data_bytes(c, m, t->first, t->n_layers, t->n, t->n_states,
                                     t->n - record_at(t)) /
                              (TILE_ROWS * sizeof(float)),
                          1, &t->data, e)))
        return s;
    return weights_all_bound(t->file, e);
}

static void fill_floats(struct cache *c, const struct model *m, float *to,
                        const unsigned char *data, size_t bytes)
{
    (void)c, (void)m;
    memcpy(store_floats_room(m, to), data, bytes);
    store_put_floats(c, m, to);
}

static void fill_states(struct cache *c, size_t seq, const struct model *m,
                        const struct session *t, const unsigned char *data)
{
    struct recurrent *r = &c->recurrent;
    size_t bytes = record_bytes(m), at = record_at(t);
    store_refill(m, seq, at, t->n, tail_at(t));
    fill_floats(c, m, recurrent_refill(r, seq, at, t->n, tail_at(t)), data, bytes);
    data += bytes;
    for (uint64_t i = 0; i < t->n_states; i++, data += bytes) {
        store_add_snapshot(m, seq, t->states[i]);
        float *to = recurrent_add_snapshot(r, seq, t->states[i]);
        if (to)
            fill_floats(c, m, to, data, bytes);
    }
    for (; at < t->n; at++, data += log_bytes(m))
        fill_floats(c, m, recurrent_log(r, seq, at), data, log_bytes(m));
}

static void fill(struct cache *c, size_t seq, const struct model *m, const struct session *t)
{
    const unsigned char *data = t->data->data;
    store_begin(m, seq, t->tokens, t->n, t->first, t->n_layers, t->n_first);
    cache_refill(c, seq, t->n, t->first, t->n_layers);
    memcpy(c->tokens + seq * c->n_ctx, t->tokens, t->n * sizeof *t->tokens);
    for (size_t l = 0; l < t->n_layers; l++) {
        size_t bytes = block_bytes(c, m, l);
        for (size_t b = t->first[l]; bytes && b < n_blocks(t->n); b++, data += bytes)
            if (l < c->n_layers)
                store_put(c, m, l, seq, b, data, bytes);
    }
    hidden_refill(&c->hidden, seq, t->n, t->n_layers > m->n_layers ? t->first[t->n_layers] : 0);
    if (m->state_floats)
        fill_states(c, seq, m, t, data);
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
        !(s = checksums_verify(t.file, NULL, NULL, e)))
        fill(c, seq, m, &t);
    if (s && strncmp(e->text, path, strlen(path)))
        error_in(e, s, path);
    weights_close(t.file);
    return s;
}
