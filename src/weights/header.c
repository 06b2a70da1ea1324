/* The header of a weights file: see header.h and FORMAT.md. */
#include "weights/header.h"

#include "base/file.h"
#include "base/xxh64.h"
#include "kernels/formats.h"
#include "weights/foreign.h"

#include <stdlib.h>

typedef unsigned long long ull; /* for printf */

enum tern_status header_bad(struct tern_error *e, const char *what)
{
    return error_set(e, TERN_BAD_FILE, "%s; the file is damaged: copy or convert it again", what);
}

/* ---- start ---- */

static enum tern_status check_version(const unsigned char *p, uint64_t want, struct tern_error *e)
{
    static const char *const kinds[] = {NULL,        "a model", "an adapter",
                                        "a session", NULL,      "a part (make MPI=1 opens it)"};
    unsigned major = load_u32(p + LAYOUT_VERSION) & 0xffff;
    uint64_t kind = load_u64(p + LAYOUT_KIND);
    if (major != TERN_FORMAT_MAJOR)
        return error_set(e, TERN_BAD_FILE,
                         "its format version is %u, this program (%s) reads version %d; convert it "
                         "again, or use the matching version of tern",
                         major, TERN_VERSION, TERN_FORMAT_MAJOR);
    if (kind == want)
        return TERN_OK;
    if (kind > LAYOUT_KIND_PART || !kinds[kind])
        return error_set(e, TERN_BAD_FILE, "its kind is %llu, want %s", (ull)kind, kinds[want]);
    return error_set(e, TERN_BAD_FILE, "it holds %s, want %s", kinds[kind], kinds[want]);
}

/* Start of the file, p [64] -> header_bytes and file_bytes, both possible. */
static enum tern_status parse_start(struct weights *w, const unsigned char *p, uint64_t actual,
                                    struct tern_error *e)
{
    enum tern_status s = check_version(p, w->kind, e);
    if (s)
        return s;
    w->header_bytes = load_u64(p + LAYOUT_HEADER_BYTES);
    w->file_bytes = load_u64(p + LAYOUT_FILE_BYTES);
    w->content_id = load_u64(p + LAYOUT_CONTENT_ID);
    if (actual < w->file_bytes)
        return error_set(e, TERN_BAD_FILE,
                         "it is cut: %llu bytes are there, %llu belong to it; copy it again",
                         (ull)actual, (ull)w->file_bytes);
    if (actual > w->file_bytes)
        return error_set(e, TERN_BAD_FILE, "%llu bytes follow its end, at byte %llu",
                         (ull)(actual - w->file_bytes), (ull)w->file_bytes);
    if (w->header_bytes > LAYOUT_MAX_HEADER)
        return error_set(e, TERN_BAD_FILE, "its header is %llu bytes long, at most %d are allowed",
                         (ull)w->header_bytes, LAYOUT_MAX_HEADER);
    if (w->header_bytes < LAYOUT_START_BYTES || w->header_bytes > actual || w->header_bytes % 8)
        return error_set(e, TERN_BAD_FILE,
                         "its header cannot be %llu bytes long in a file of %llu bytes",
                         (ull)w->header_bytes, (ull)actual);
    return TERN_OK;
}

static enum tern_status read_header(struct weights *w, int fd, uint64_t actual,
                                    struct tern_error *e)
{
    unsigned char start[LAYOUT_START_BYTES];
    size_t n = actual < sizeof start ? (size_t)actual : sizeof start;
    if (!n)
        return error_set(e, TERN_BAD_FILE, "it is empty");
    enum tern_status s = file_read_at(fd, start, n, weights_place(w, 0), w->path, e);
    if (s)
        return s;
    if (memcmp(start, LAYOUT_MAGIC, n < 4 ? n : 4))
        return w->kind == LAYOUT_KIND_SESSION
                   ? error_set(e, TERN_BAD_FILE, "it is not a session of tern")
                   : foreign_refuse(w->path, start, n, actual, e);
    if (n < sizeof start)
        return error_set(e, TERN_BAD_FILE, "it is cut: %zu bytes are there, not even a start of %d",
                         n, LAYOUT_START_BYTES);
    s = parse_start(w, start, actual, e);
    if (s)
        return s;
    w->header = malloc((size_t)w->header_bytes);
    if (!w->header)
        return error_memory(e, "the header of the weights file", (size_t)w->header_bytes);
    return file_read_at(fd, w->header, (size_t)w->header_bytes, weights_place(w, 0), w->path, e);
}

static enum tern_status check_header(struct weights *w, struct tern_error *e)
{
    uint64_t stated = load_u64(w->header + LAYOUT_CHECKSUM);
    if (layout_header_checksum(w->header, (size_t)w->header_bytes) != stated)
        return header_bad(e, "the checksum of its header differs");
    if (load_u64(w->header + LAYOUT_ZERO))
        return header_bad(e, "byte 56 of its start is not zero");
    return TERN_OK;
}

/* ---- section table ---- */

/* name, padded with zeros to `size` bytes, into a string; false when it is not plain text. */
static bool take_text(char *out, const unsigned char *p, size_t n, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (i < n ? p[i] < 33 || p[i] > 126 : p[i] != 0)
            return false;
    memcpy(out, p, n);
    out[n] = 0;
    return n > 0;
}

static bool all_zero(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Entry i of the table; *end is the end of the body before, and of this one on return. */
static enum tern_status parse_section(struct weights *w, size_t i, uint64_t *end,
                                      struct tern_error *e)
{
    const unsigned char *p = w->header + LAYOUT_START_BYTES + i * LAYOUT_SECTION_BYTES;
    struct section *s = &w->sections[i];
    uint64_t flags = load_u64(p + 16), offset = load_u64(p + 24), bytes = load_u64(p + 32), stop;
    size_t n = 0;
    while (n < LAYOUT_TAG_BYTES && p[n])
        n++;
    if (!take_text(s->tag, p, n, LAYOUT_TAG_BYTES))
        return error_set(e, TERN_BAD_FILE, "section %zu: its tag is not plain text", i);
    for (size_t j = 0; j < i; j++)
        if (!strcmp(w->sections[j].tag, s->tag))
            return error_set(e, TERN_BAD_FILE, "section '%s' is there twice", s->tag);
    if (flags > 1)
        return error_set(e, TERN_BAD_FILE, "section '%s': its flags %llu are unknown", s->tag,
                         (ull)flags);
    uint64_t want = (*end + 7) / 8 * 8; /* *end is at most header_bytes */
    if (offset != want)
        return error_set(e, TERN_BAD_FILE, "section '%s' begins at byte %llu, want %llu: %s",
                         s->tag, (ull)offset, (ull)want,
                         offset % 8      ? "not a multiple of 8"
                         : offset < want ? "it overlaps what is before it"
                                         : "there is a hole before it");
    if (!size_add(offset, bytes, &stop) || stop > w->header_bytes)
        return error_set(e, TERN_BAD_FILE,
                         "section '%s' reaches past the end of the header: %llu bytes at %llu",
                         s->tag, (ull)bytes, (ull)offset);
    if (!all_zero(w->header + *end, want - *end))
        return error_set(e, TERN_BAD_FILE, "the padding before section '%s' is not zero", s->tag);
    s->critical = flags & 1;
    s->data = w->header + offset;
    s->offset = offset;
    s->bytes = (size_t)bytes;
    *end = stop;
    return TERN_OK;
}

static enum tern_status refuse_unknown(const struct weights *w, struct tern_error *e)
{
    static const char *const known[] = {"config",     "tensors", "tokenizer", "generation",
                                        "provenance", "vectors", "seal"};
    for (size_t i = 0; i < w->n_sections; i++) {
        bool is_known = false;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            is_known |= !strcmp(w->sections[i].tag, known[j]);
        if (w->sections[i].critical && !is_known)
            return error_set(e, TERN_BAD_FILE,
                             "its section '%s' is needed and unknown to this version (%s)",
                             w->sections[i].tag, TERN_VERSION);
    }
    return TERN_OK;
}

static enum tern_status parse_sections(struct weights *w, struct tern_error *e)
{
    uint64_t n = load_u64(w->header + LAYOUT_N_SECTIONS);
    if (n == 0 || n > LAYOUT_MAX_SECTIONS ||
        LAYOUT_START_BYTES + LAYOUT_SECTION_BYTES * n > w->header_bytes)
        return error_set(e, TERN_BAD_FILE, "its header of %llu bytes cannot hold %llu sections",
                         (ull)w->header_bytes, (ull)n);
    uint64_t end = LAYOUT_START_BYTES + LAYOUT_SECTION_BYTES * n;
    for (; w->n_sections < n; w->n_sections++) {
        enum tern_status s = parse_section(w, w->n_sections, &end, e);
        if (s)
            return s;
    }
    uint64_t want = (end + 7) / 8 * 8;
    if (want != w->header_bytes)
        return error_set(e, TERN_BAD_FILE,
                         "its header is %llu bytes long but its sections end at "
                         "%llu",
                         (ull)w->header_bytes, (ull)want);
    if (!all_zero(w->header + end, want - end))
        return error_set(e, TERN_BAD_FILE, "the padding at the end of its header is not zero");
    return refuse_unknown(w, e);
}

/* ---- tensor directory ---- */

static enum tern_status bad_tensor(struct tern_error *e, size_t i, const char *what)
{
    return error_set(e, TERN_BAD_FILE, "tensor %zu of the directory: %s", i, what);
}

static enum tern_status check_shape(const struct tensor *t, uint64_t type, uint64_t tile_rows,
                                    struct tern_error *e)
{
    const struct format *f = format_find(type);
    uint64_t want;
    if (!f)
        return error_set(e, TERN_BAD_FILE,
                         "tensor '%s': its type %llu is unknown to this version "
                         "(%s)",
                         t->name, (ull)type, TERN_VERSION);
    if (tile_rows != TILE_ROWS)
        return error_set(e, TERN_BAD_FILE, "tensor '%s': its tiles have %llu rows, want %d",
                         t->name, (ull)tile_rows, TILE_ROWS);
    if (!t->rows || !t->k || !t->matrices)
        return error_set(e, TERN_BAD_FILE, "tensor '%s': its shape [%llu, %llu, %llu] has a zero",
                         t->name, (ull)t->matrices, (ull)t->rows, (ull)t->k);
    if (!format_size(f, t->rows, t->k, t->matrices, &want))
        return error_set(e, TERN_BAD_FILE, "tensor '%s': its shape [%llu, %llu, %llu] overflows",
                         t->name, (ull)t->matrices, (ull)t->rows, (ull)t->k);
    if (t->bytes != want)
        return error_set(e, TERN_BAD_FILE,
                         "tensor '%s': %s [%llu, %llu, %llu] takes %llu bytes, its entry says %llu",
                         t->name, f->name, (ull)t->matrices, (ull)t->rows, (ull)t->k, (ull)want,
                         (ull)t->bytes);
    return TERN_OK;
}

/* *end: the end of the tensor before, and of this one on return. */
static enum tern_status check_place(const struct weights *w, const struct tensor *t, bool first,
                                    uint64_t *end, struct tern_error *e)
{
    uint64_t want = 0, stop;
    bool fits = size_round_up(*end, first ? LAYOUT_DATA_ALIGN : LAYOUT_TENSOR_ALIGN, &want);
    if (!fits || t->offset != want)
        return error_set(e, TERN_BAD_FILE, "tensor '%s' begins at byte %llu, want %llu: %s",
                         t->name, (ull)t->offset, (ull)want,
                         t->offset % LAYOUT_TENSOR_ALIGN ? "not a multiple of 64"
                         : t->offset < want              ? "it overlaps what is before it"
                                                         : "there is a hole before it");
    if (!size_add(t->offset, t->bytes, &stop) || stop > w->file_bytes)
        return error_set(e, TERN_BAD_FILE,
                         "tensor '%s' reaches past the end of the file: %llu bytes at %llu",
                         t->name, (ull)t->bytes, (ull)t->offset);
    *end = stop;
    return TERN_OK;
}

/* Entry i of the directory; `name` has room for it, and moves on. */
static enum tern_status parse_tensor(struct weights *w, size_t i, struct bytes *b,
                                     const void *start, char **name, uint64_t *end,
                                     struct tern_error *e)
{
    struct tensor *t = &w->tensors[i];
    uint64_t n = bytes_u64(b);
    if (b->bad || n > LAYOUT_MAX_NAME)
        return bad_tensor(e, i, "its name is missing or longer than 256 bytes");
    const unsigned char *text = bytes_take(b, n);
    bytes_align8(b, start);
    if (b->bad || !take_text(*name, text, (size_t)n, (size_t)n))
        return bad_tensor(e, i, "its name is cut or not plain text");
    t->name = *name;
    *name += n + 1;
    uint64_t type = bytes_u64(b), tile_rows = bytes_u64(b);
    t->rows = bytes_u64(b);
    t->k = bytes_u64(b);
    t->matrices = bytes_u64(b);
    t->offset = bytes_u64(b);
    t->bytes = bytes_u64(b);
    t->checksum = bytes_u64(b);
    if (b->bad)
        return bad_tensor(e, i, "the directory ends inside its entry");
    enum tern_status s = check_shape(t, type, tile_rows, e);
    t->type = (enum tern_type)(s ? 0 : type);
    return s ? s : check_place(w, t, i == 0, end, e);
}

static enum tern_status index_names(struct weights *w, struct tern_error *e)
{
    for (size_t i = 0; i < w->n_tensors; i++)
        w->by_name[i] = &w->tensors[i];
    qsort(w->by_name, w->n_tensors, sizeof *w->by_name, header_compare_names);
    for (size_t i = 1; i < w->n_tensors; i++)
        if (!strcmp(w->by_name[i - 1]->name, w->by_name[i]->name))
            return error_set(e, TERN_BAD_FILE, "tensor '%s' is there twice", w->by_name[i]->name);
    return TERN_OK;
}

static enum tern_status check_content_id(const struct weights *w, struct tern_error *e)
{
    struct xxh64 h;
    xxh64_init(&h, 0);
    for (size_t i = 0; i < w->n_tensors; i++)
        xxh64_update(&h, &w->tensors[i].checksum, sizeof w->tensors[i].checksum);
    if (xxh64_digest(&h) != w->content_id)
        return header_bad(e, "its content id is not that of its tensors");
    return TERN_OK;
}

static enum tern_status parse_directory(struct weights *w, struct tern_error *e)
{
    size_t bytes = 0;
    const void *body = weights_section(w, "tensors", &bytes);
    if (!body)
        return error_set(e, TERN_BAD_FILE, "it has no section 'tensors'");
    struct bytes b = bytes_of(body, bytes);
    uint64_t n = bytes_u64(&b), end = w->header_bytes;
    if (b.bad || n == 0 || n > bytes_left(&b) / LAYOUT_MIN_ENTRY)
        return error_set(e, TERN_BAD_FILE, "its directory of %zu bytes cannot hold %llu tensors",
                         bytes, (ull)n);
    w->tensors = calloc((size_t)n, sizeof *w->tensors);
    w->by_name = calloc((size_t)n, sizeof *w->by_name);
    w->bound = calloc((size_t)n, sizeof *w->bound);
    w->names = malloc(bytes); /* a name and its NUL take less than the entry */
    if (!w->tensors || !w->by_name || !w->bound || !w->names)
        return error_memory(e, "the tensor directory", (size_t)n * sizeof *w->tensors);
    char *name = w->names;
    for (; w->n_tensors < n; w->n_tensors++) {
        enum tern_status s = parse_tensor(w, w->n_tensors, &b, body, &name, &end, e);
        if (s)
            return s;
    }
    if (bytes_left(&b))
        return error_set(e, TERN_BAD_FILE, "%zu bytes follow the last entry of its directory",
                         bytes_left(&b));
    if (end != w->file_bytes)
        return error_set(e, TERN_BAD_FILE, "its tensors end at byte %llu, the file at %llu",
                         (ull)end, (ull)w->file_bytes);
    enum tern_status s = index_names(w, e);
    return s ? s : check_content_id(w, e);
}

static enum tern_status parse_config(struct weights *w, struct tern_error *e)
{
    size_t bytes = 0;
    const void *body = weights_section(w, "config", &bytes);
    if (!body)
        return error_set(e, TERN_BAD_FILE, "it has no section 'config'");
    return keys_parse(&w->config, "config", body, bytes, e);
}

/* ---- all ---- */

enum tern_status header_read(struct weights *w, int fd, uint64_t actual, struct tern_error *e)
{
    file_read_ahead(fd, false); /* into small pages; the mapping asks for huge ones */
    enum tern_status s = read_header(w, fd, actual, e);
    file_read_ahead(fd, true);
    if (!s)
        s = check_header(w, e);
    if (!s)
        s = parse_sections(w, e);
    if (!s)
        s = parse_config(w, e);
    return s ? s : parse_directory(w, e);
}
