/* Writes a weights file: see writer.h. */
#include "weights/writer.h"

#include "base/file.h"
#include "weights/keywriter.h"
#include "kernels/formats.h"
#include "weights/file_layout.h"
#include "weights/weights.h"

#include <assert.h>
#include <stdlib.h>

struct out_section {
    char tag[LAYOUT_TAG_BYTES];
    uint64_t critical, offset, bytes;
    void *data; /* owned; NULL for `tensors`, which is made at the end */
};

struct out_tensor {
    char *name; /* owned */
    uint64_t type, rows, k, matrices, offset, bytes, checksum;
};

struct writer {
    char *path;
    int fd;
    struct out_section sections[LAYOUT_MAX_SECTIONS];
    size_t n_sections;
    struct out_tensor *tensors; /* [n_tensors] */
    size_t n_tensors, room;
    uint64_t header_bytes; /* 0 until the layout is settled */
    size_t current;        /* the tensor being written */
    uint64_t done;         /* its bytes so far */
    struct xxh64 hash;     /* of them */
    char *piece;           /* [PIECE] what is to be written at piece_at, piece_bytes so far */
    uint64_t piece_at;     /* a multiple of PIECE */
    size_t piece_bytes;
};

enum {
    TENSORS_AT = 1, /* place of the directory among the sections */
    PIECE = 4 << 20 /* bytes of the file that are written at once: Linux keeps what is written so on
                     * huge pages, which a mapping then has, too */
};

enum tern_status writer_open(struct writer **out, const char *path, struct tern_error *e)
{
    struct writer *w = calloc(1, sizeof *w);
    *out = NULL;
    if (w) {
        w->path = malloc(strlen(path) + 1);
        w->piece = malloc(PIECE);
    }
    if (!w || !w->path || !w->piece) {
        if (w)
            free(w->path), free(w->piece);
        free(w);
        return error_memory(e, "the writer of a weights file", PIECE);
    }
    memcpy(w->path, path, strlen(path) + 1);
    xxh64_init(&w->hash, 0);
    enum tern_status s = file_open_write(&w->fd, 0666, path, e);
    if (s)
        writer_close(w);
    else
        *out = w;
    return s;
}

void writer_close(struct writer *w)
{
    if (!w)
        return;
    file_close(w->fd);
    for (size_t i = 0; i < w->n_sections; i++)
        free(w->sections[i].data);
    for (size_t i = 0; i < w->n_tensors; i++)
        free(w->tensors[i].name);
    free(w->tensors);
    free(w->piece);
    free(w->path);
    free(w);
}

static void add_section(struct writer *w, const char *tag, bool critical, void *data, size_t bytes)
{
    struct out_section *s = &w->sections[w->n_sections++];
    size_t n = strlen(tag);
    assert(n > 0 && n <= sizeof s->tag);
    memcpy(s->tag, tag, n);
    s->critical = critical;
    s->data = data;
    s->bytes = bytes;
}

enum tern_status writer_section(struct writer *w, const char *tag, bool critical, const void *data,
                                size_t bytes, struct tern_error *e)
{
    assert(!w->header_bytes);
    if (w->n_sections == TENSORS_AT)
        add_section(w, "tensors", true, NULL, 0);
    if (w->n_sections >= LAYOUT_MAX_SECTIONS)
        return error_set(e, TERN_LIMIT, "%s: a weights file has at most %d sections", w->path,
                         LAYOUT_MAX_SECTIONS);
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return error_memory(e, "a section of the weights file", bytes);
    if (bytes)
        memcpy(copy, data, bytes);
    add_section(w, tag, critical, copy, bytes);
    return TERN_OK;
}

enum tern_status writer_empty_seal(struct writer *w, struct tern_error *e)
{
    struct keywriter k;
    enum tern_status s;
    keywriter_init(&k);
    keywriter_u64(&k, "arith", 0);
    keywriter_u64(&k, "fingerprint", 0);
    if (k.failed)
        s = error_memory(e, "the seal", k.bytes);
    else
        s = writer_section(w, "seal", false, k.data, k.bytes, e);
    keywriter_close(&k);
    return s;
}

enum tern_status writer_tensor(struct writer *w, const char *name, enum tern_type type,
                               uint64_t rows, uint64_t k, uint64_t matrices, struct tern_error *e)
{
    assert(!w->header_bytes);
    if (w->n_tensors == w->room) {
        size_t room = 2 * w->room + 64;
        struct out_tensor *grown = realloc(w->tensors, room * sizeof *grown);
        if (!grown)
            return error_memory(e, "the tensor directory", room * sizeof *grown);
        w->tensors = grown, w->room = room;
    }
    struct out_tensor *t = &w->tensors[w->n_tensors];
    size_t n = strlen(name);
    *t = (struct out_tensor){.type = type, .rows = rows, .k = k, .matrices = matrices};
    if (n == 0 || n > LAYOUT_MAX_NAME ||
        !format_size(format_find(type), rows, k, matrices, &t->bytes))
        return error_set(e, TERN_LIMIT, "%s: tensor '%s': its name or size is beyond the format",
                         w->path, name);
    t->name = malloc(n + 1);
    if (!t->name)
        return error_memory(e, "a tensor's name", n + 1);
    memcpy(t->name, name, n + 1);
    w->n_tensors++;
    return TERN_OK;
}

/* Places sections and tensors. */
static enum tern_status settle(struct writer *w, struct tern_error *e)
{
    uint64_t directory = 8, at;
    bool fits = true;
    if (w->n_sections == TENSORS_AT)
        add_section(w, "tensors", true, NULL, 0);
    assert(w->n_sections > TENSORS_AT && w->n_tensors);
    for (size_t i = 0; i < w->n_tensors; i++)
        directory += LAYOUT_MIN_ENTRY - 8 + (strlen(w->tensors[i].name) + 7) / 8 * 8;
    w->sections[TENSORS_AT].bytes = directory;
    at = LAYOUT_START_BYTES + LAYOUT_SECTION_BYTES * w->n_sections;
    for (size_t i = 0; i < w->n_sections; i++) {
        w->sections[i].offset = at;
        at = (at + w->sections[i].bytes + 7) / 8 * 8;
    }
    if (at > LAYOUT_MAX_HEADER)
        return error_set(e, TERN_LIMIT, "%s: a header of %llu bytes; at most %d are allowed",
                         w->path, (unsigned long long)at, LAYOUT_MAX_HEADER);
    w->header_bytes = at;
    for (size_t i = 0; i < w->n_tensors; i++) {
        struct out_tensor *t = &w->tensors[i];
        fits &= size_round_up(at, i ? LAYOUT_TENSOR_ALIGN : LAYOUT_DATA_ALIGN, &t->offset) &&
                size_add(t->offset, t->bytes, &at);
    }
    return fits ? TERN_OK : error_set(e, TERN_LIMIT, "%s: the tensors do not fit a file", w->path);
}

/* These bytes of the current tensor are written. */
static void count(struct writer *w, const void *data, size_t n)
{
    struct out_tensor *t = &w->tensors[w->current];
    xxh64_update(&w->hash, data, n);
    w->done += n;
    if (w->done == t->bytes) {
        t->checksum = xxh64_digest(&w->hash);
        xxh64_init(&w->hash, 0);
        w->done = 0, w->current++;
    }
}

static enum tern_status write_piece(struct writer *w, struct tern_error *e)
{
    size_t n = w->piece_bytes;
    w->piece_bytes = 0;
    return n ? file_write_at(w->fd, w->piece, n, w->piece_at, w->path, e) : TERN_OK;
}

/* n bytes at `at`, which is never before what was put already; zeros fill the gap. */
static enum tern_status put_at(struct writer *w, const char *p, size_t n, uint64_t at,
                               struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (size_t part; !s && n; p += part, n -= part, at += part) {
        if (at >= w->piece_at + PIECE)
            s = write_piece(w, e);
        if (!w->piece_bytes)
            w->piece_at = at / PIECE * PIECE;
        size_t i = (size_t)(at - w->piece_at);
        part = n < PIECE - i ? n : PIECE - i;
        memset(w->piece + w->piece_bytes, 0, i - w->piece_bytes);
        memcpy(w->piece + i, p, part);
        w->piece_bytes = i + part;
    }
    return s;
}

enum tern_status writer_data(struct writer *w, const void *data, size_t n, struct tern_error *e)
{
    const char *p = data;
    enum tern_status s = w->header_bytes ? TERN_OK : settle(w, e);
    while (!s && n) {
        assert(w->current < w->n_tensors);
        const struct out_tensor *t = &w->tensors[w->current];
        uint64_t left = t->bytes - w->done;
        size_t part = n < left ? n : (size_t)left;
        s = put_at(w, p, part, t->offset + w->done, e);
        if (!s)
            count(w, p, part);
        p += part, n -= part;
    }
    return s;
}

/* ---- header ---- */

static void put(unsigned char **at, uint64_t v)
{
    memcpy(*at, &v, sizeof v);
    *at += sizeof v;
}

static uint64_t put_directory(const struct writer *w, unsigned char *at)
{
    struct xxh64 content;
    xxh64_init(&content, 0);
    put(&at, w->n_tensors);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct out_tensor *t = &w->tensors[i];
        size_t n = strlen(t->name);
        put(&at, n);
        memcpy(at, t->name, n);
        at += (n + 7) / 8 * 8;
        const uint64_t entry[] = {t->type,     TILE_ROWS, t->rows,  t->k,
                                  t->matrices, t->offset, t->bytes, t->checksum};
        memcpy(at, entry, sizeof entry);
        at += sizeof entry;
        xxh64_update(&content, &t->checksum, sizeof t->checksum);
    }
    return xxh64_digest(&content);
}

/* header [header_bytes], zeroed */
static void fill_header(const struct writer *w, unsigned char *header)
{
    const struct out_tensor *last = &w->tensors[w->n_tensors - 1];
    unsigned char *at = header + LAYOUT_START_BYTES;
    for (size_t i = 0; i < w->n_sections; i++) {
        const struct out_section *s = &w->sections[i];
        memcpy(at, s->tag, sizeof s->tag);
        at += sizeof s->tag;
        put(&at, s->critical);
        put(&at, s->offset);
        put(&at, s->bytes);
        if (s->data)
            memcpy(header + s->offset, s->data, (size_t)s->bytes);
    }
    uint64_t content = put_directory(w, header + w->sections[TENSORS_AT].offset);
    at = header;
    memcpy(at, LAYOUT_MAGIC, 4);
    at[LAYOUT_VERSION] = TERN_FORMAT_MAJOR;
    at[LAYOUT_VERSION + 2] = TERN_FORMAT_MINOR;
    at += LAYOUT_KIND;
    put(&at, LAYOUT_KIND_MODEL);
    put(&at, w->header_bytes);
    put(&at, last->offset + last->bytes);
    put(&at, 0); /* checksum */
    put(&at, content);
    put(&at, w->n_sections);
    at = header + LAYOUT_CHECKSUM;
    put(&at, layout_header_checksum(header, (size_t)w->header_bytes));
}

enum tern_status writer_finish(struct writer *w, struct tern_error *e)
{
    assert(w->header_bytes && w->current == w->n_tensors);
    unsigned char *header = calloc(1, (size_t)w->header_bytes);
    if (!header)
        return error_memory(e, "the header of the weights file", (size_t)w->header_bytes);
    fill_header(w, header);
    enum tern_status s = write_piece(w, e);
    if (!s)
        s = file_write_at(w->fd, header, (size_t)w->header_bytes, 0, w->path, e);
    free(header);
    return s;
}

/* ---- patches ---- */

struct patch {
    const char *key;
    enum key_type type;
    const void *value; /* of one element */
};

/* Writes the values over those in header [header_bytes], in which section `s` lies. */
static enum tern_status apply(unsigned char *header, const struct section *s,
                              const struct patch *patches, size_t n, struct tern_error *e)
{
    struct keys keys;
    enum tern_status status = keys_parse(&keys, s->tag, s->data, s->bytes, e);
    for (size_t i = 0; !status && i < n; i++) {
        const struct key *k = keys_find(&keys, patches[i].key);
        if (!k || k->type != patches[i].type || k->count != 1)
            status = error_set(e, TERN_BAD_FILE, "section '%s' has no single key '%s'", s->tag,
                               patches[i].key);
        else
            memcpy(header + s->offset + ((const char *)k->values - (const char *)s->data),
                   patches[i].value, k->type == KEY_U64 ? 8 : 4);
    }
    keys_close(&keys);
    return status;
}

static enum tern_status rewrite(const struct weights *w, const struct section *s,
                                const struct patch *patches, size_t n, struct tern_error *e)
{
    const char *path = weights_path(w);
    size_t bytes = (size_t)weights_header_bytes(w);
    unsigned char *header = malloc(bytes);
    if (!header)
        return error_memory(e, "the header of the weights file", bytes);
    int fd;
    enum tern_status status = file_open_write(&fd, 0, path, e);
    if (!status)
        status = file_read_at(fd, header, bytes, 0, path, e);
    if (!status)
        status = apply(header, s, patches, n, e);
    if (!status) {
        unsigned char *at = header + LAYOUT_CHECKSUM;
        put(&at, layout_header_checksum(header, bytes));
        status = file_write_at(fd, header, bytes, 0, path, e);
    }
    file_close(fd);
    free(header);
    return status;
}

static enum tern_status patch_file(const char *path, const char *tag, const struct patch *patches,
                                   size_t n, struct tern_error *e)
{
    struct weights *w;
    enum tern_status s = weights_open(&w, path, e);
    if (s)
        return s;
    s = TERN_BAD_FILE;
    size_t i = 0;
    while (i < weights_n_sections(w) && strcmp(weights_section_at(w, i)->tag, tag))
        i++;
    if (i < weights_n_sections(w))
        s = rewrite(w, weights_section_at(w, i), patches, n, e);
    else
        error_set(e, s, "%s: it has no section '%s'", path, tag);
    weights_close(w);
    return s;
}

enum tern_status writer_patch_seal(const char *path, uint64_t arith, uint64_t fingerprint,
                                   struct tern_error *e)
{
    const struct patch patches[] = {{"arith", KEY_U64, &arith},
                                    {"fingerprint", KEY_U64, &fingerprint}};
    return patch_file(path, "seal", patches, 2, e);
}

enum tern_status writer_patch_bound(const char *path, float bound, struct tern_error *e)
{
    const struct patch patches[] = {{"logits.bound", KEY_F32, &bound}};
    return patch_file(path, "vectors", patches, 1, e);
}
