/* Parts of a weights file: see part.h. */
#include "weights/part.h"

#ifdef TERN_MPI

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.h"

enum {
    AT_MACHINES = LAYOUT_START_BYTES, /* u64: machines, rank, bytes of the whole, zero */
    AT_SHARES = AT_MACHINES + 32,
    PIECE_BYTES = 24,
    PAGE = LAYOUT_DATA_ALIGN
};

static uint64_t whole_pages(uint64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

static enum tern_status bad(struct tern_error *e, const char *what)
{
    return error_set(e, TERN_BAD_FILE, "%s; the part is damaged: copy it or cut it again", what);
}

/* ---- names ---- */

/* "PATH.part-2-of-3", of rank 1; false where that is too long */
static bool part_name(char *name, size_t size, const char *path, size_t rank, size_t n_machines)
{
    int n = snprintf(name, size, "%s.part-%zu-of-%zu", path, rank + 1, n_machines);
    return n > 0 && (size_t)n < size;
}

enum tern_status part_find(const char **out, char *name, size_t size, const char *path,
                           struct tern_error *e)
{
    size_t n = (size_t)machines_size();
    struct stat st;
    *out = path;
    if (n == 1 || !stat(path, &st) || errno != ENOENT ||
        !part_name(name, size, path, (size_t)machines_rank(), n))
        return TERN_OK;
    *out = name;
    return !stat(name, &st) ? TERN_OK
                            : error_set(e, TERN_IO,
                                        "%s: cannot open: there is no such file, nor its part for "
                                        "this machine, %s",
                                        path, name);
}

/* ---- reading ---- */

/* Header [n], whose checksum is right */
static enum tern_status parse(struct file_part *p, const unsigned char *h, uint64_t n,
                              uint64_t bytes, struct tern_error *e)
{
    p->n_machines = load_u64(h + AT_MACHINES), p->rank = load_u64(h + AT_MACHINES + 8);
    p->whole_bytes = load_u64(h + AT_MACHINES + 16),
    p->content_id = load_u64(h + LAYOUT_CONTENT_ID);
    p->n = load_u64(h + LAYOUT_N_SECTIONS);
    if (p->n_machines < 2 || p->n_machines > MOST_MACHINES || p->rank >= p->n_machines || !p->n ||
        p->n > n / PIECE_BYTES || n != AT_SHARES + 8 * p->n_machines + PIECE_BYTES * p->n)
        return bad(e, "its header does not fit its counts");
    for (size_t r = 0; r < p->n_machines; r++)
        p->share[r] = load_u64(h + AT_SHARES + 8 * r);
    p->pieces = calloc((size_t)p->n, sizeof *p->pieces);
    if (!p->pieces)
        return error_memory(e, "the pieces of a part", (size_t)p->n * sizeof *p->pieces);
    uint64_t end = 0, at = whole_pages(n);
    const unsigned char *entry = h + AT_SHARES + 8 * p->n_machines;
    for (size_t i = 0; i < p->n; i++, entry += PIECE_BYTES) {
        struct file_piece *x = &p->pieces[i];
        *x = (struct file_piece){load_u64(entry), load_u64(entry + 8), load_u64(entry + 16), at};
        bool fits = x->offset % PAGE == 0 && x->offset >= end && x->offset < p->whole_bytes &&
                    x->bytes && x->bytes <= p->whole_bytes - x->offset && (i || !x->offset);
        if (!fits || x->bytes > bytes || at > bytes - x->bytes)
            return bad(e, "one of its pieces lies outside of it");
        end = x->offset + x->bytes, at += whole_pages(x->bytes);
    }
    struct file_piece *last = &p->pieces[p->n - 1];
    return last->at + last->bytes == bytes ? TERN_OK : bad(e, "it is longer than its pieces");
}

enum tern_status part_open(struct file_part **out, int fd, uint64_t bytes, const char *path,
                           struct tern_error *e)
{
    unsigned char start[LAYOUT_START_BYTES], *header = NULL;
    enum tern_status s = TERN_OK;
    *out = NULL;
    if (bytes < sizeof start)
        return TERN_OK;
    if ((s = file_read_at(fd, start, sizeof start, 0, path, e)) || memcmp(start, LAYOUT_MAGIC, 4) ||
        load_u64(start + LAYOUT_KIND) != LAYOUT_KIND_PART)
        return s;
    uint64_t n = load_u64(start + LAYOUT_HEADER_BYTES);
    if ((load_u32(start + LAYOUT_VERSION) & 0xffff) != TERN_FORMAT_MAJOR)
        return error_set(e, TERN_BAD_FILE, "it is a part of another format version: cut it again");
    if (load_u64(start + LAYOUT_FILE_BYTES) != bytes || n > bytes || n > LAYOUT_MAX_HEADER ||
        n < AT_SHARES)
        return bad(e, "its size differs from what it states");
    struct file_part *p = calloc(1, sizeof *p);
    header = malloc((size_t)n);
    if (!p || !header)
        s = error_memory(e, "the header of a part", (size_t)n);
    if (!s)
        s = file_read_at(fd, header, (size_t)n, 0, path, e);
    if (!s && layout_header_checksum(header, (size_t)n) != load_u64(header + LAYOUT_CHECKSUM))
        s = bad(e, "the checksum of its header differs");
    if (!s)
        s = parse(p, header, n, bytes, e);
    free(header);
    if (s)
        part_close(p);
    else
        *out = p;
    return s;
}

void part_close(struct file_part *p)
{
    if (p)
        free(p->pieces);
    free(p);
}

/* The last piece that begins at or before this byte */
static const struct file_piece *piece_at(const struct file_part *p, uint64_t offset)
{
    size_t low = 0, high = (size_t)p->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (p->pieces[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return &p->pieces[low];
}

bool part_holds(const struct file_part *p, uint64_t begin, uint64_t end)
{
    const struct file_piece *x = piece_at(p, begin);
    return begin >= x->offset && end <= x->offset + x->bytes;
}

uint64_t part_place(const struct file_part *p, uint64_t offset)
{
    const struct file_piece *x = piece_at(p, offset);
    return x->at + (offset - x->offset);
}

void *part_map(const struct file_part *p, int fd)
{
    size_t bytes = (size_t)p->whole_bytes;
    char *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool mapped = map != MAP_FAILED;
    for (const struct file_piece *x = p->pieces; x < p->pieces + p->n && mapped; x++)
        mapped = mmap(map + x->offset, (size_t)x->bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
                      (off_t)x->at) != MAP_FAILED;
    int error = errno;
    if (!mapped && map != MAP_FAILED)
        munmap(map, bytes);
    errno = error;
    return mapped ? map : MAP_FAILED;
}

void part_shares(const struct file_part *p, char *text, size_t size)
{
    size_t n = 0;
    for (size_t r = 0; r < p->n_machines && n < size; r++)
        n += (size_t)snprintf(text + n, size - n, r ? ",%llu" : "%llu",
                              (unsigned long long)p->share[r]);
}

/* ---- writing ---- */

/* Whole pages of the header and of all slices; [1 + slices] */
static size_t pieces_of(const struct weights *w, struct file_piece *pieces)
{
    const struct slices *s = weights_slices(w);
    size_t n = 0;
    pieces[n++] = (struct file_piece){.bytes = whole_pages(weights_header_bytes(w))};
    for (size_t i = 0; i < s->n; i++) {
        uint64_t begin = s->list[i].begin / PAGE * PAGE, end = whole_pages(s->list[i].end);
        struct file_piece *last = &pieces[n - 1];
        if (begin <= last->offset + last->bytes && end > last->offset + last->bytes)
            last->bytes = end - last->offset;
        else if (begin > last->offset + last->bytes)
            pieces[n++] = (struct file_piece){.offset = begin, .bytes = end - begin};
    }
    uint64_t *bytes = &pieces[n - 1].bytes, left = weights_file_bytes(w) - pieces[n - 1].offset;
    *bytes = *bytes < left ? *bytes : left;
    return n;
}

static enum tern_status write_pieces(int fd, const char *path, const struct weights *w,
                                     struct file_piece *pieces, size_t n, uint64_t at,
                                     struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    const void *map;
    size_t bytes;
    weights_mapping(w, &map, &bytes);
    for (struct file_piece *x = pieces; x < pieces + n && !s; x++) {
        struct xxh64 h;
        xxh64_init(&h, 0);
        xxh64_update(&h, (const char *)map + x->offset, (size_t)x->bytes);
        x->checksum = xxh64_digest(&h), x->at = at;
        s = file_write_at(fd, (const char *)map + x->offset, (size_t)x->bytes, at, path, e);
        at += whole_pages(x->bytes);
    }
    return s;
}

static void put(unsigned char *to, uint64_t value)
{
    memcpy(to, &value, sizeof value);
}

static void put_header(unsigned char *h, size_t bytes, const struct weights *w,
                       const struct file_part *like, const struct file_piece *pieces, size_t n)
{
    const struct file_piece *last = &pieces[n - 1];
    memcpy(h, LAYOUT_MAGIC, 4);
    h[LAYOUT_VERSION] = TERN_FORMAT_MAJOR, h[LAYOUT_VERSION + 2] = TERN_FORMAT_MINOR;
    put(h + LAYOUT_KIND, LAYOUT_KIND_PART);
    put(h + LAYOUT_HEADER_BYTES, bytes);
    put(h + LAYOUT_FILE_BYTES, last->at + last->bytes);
    put(h + LAYOUT_CONTENT_ID, weights_content_id(w));
    put(h + LAYOUT_N_SECTIONS, n);
    put(h + AT_MACHINES, like->n_machines);
    put(h + AT_MACHINES + 8, like->rank);
    put(h + AT_MACHINES + 16, weights_file_bytes(w));
    for (size_t r = 0; r < like->n_machines; r++)
        put(h + AT_SHARES + 8 * r, like->share[r]);
    unsigned char *entry = h + AT_SHARES + 8 * like->n_machines;
    for (size_t i = 0; i < n; i++, entry += PIECE_BYTES) {
        put(entry, pieces[i].offset);
        put(entry + 8, pieces[i].bytes);
        put(entry + 16, pieces[i].checksum);
    }
    put(h + LAYOUT_CHECKSUM, layout_header_checksum(h, bytes));
}

static enum tern_status write_file(const struct weights *w, const struct file_part *like,
                                   const char *path, struct tern_error *e)
{
    struct file_piece *pieces = calloc(weights_slices(w)->n + 1, sizeof *pieces);
    size_t n = pieces ? pieces_of(w, pieces) : 0;
    size_t bytes = AT_SHARES + 8 * (size_t)like->n_machines + PIECE_BYTES * n;
    unsigned char *header = calloc(1, bytes);
    int fd = -1;
    enum tern_status s = pieces && header ? TERN_OK : error_memory(e, "a part", bytes);
    if (!s)
        s = file_open_write(&fd, 0666, path, e);
    if (!s)
        s = write_pieces(fd, path, w, pieces, n, whole_pages(bytes), e);
    if (!s) {
        put_header(header, bytes, w, like, pieces, n);
        s = file_write_at(fd, header, bytes, 0, path, e);
    }
    file_close(fd);
    free(header);
    free(pieces);
    return s;
}

enum tern_status part_write(const struct weights *w, const struct file_part *like,
                            struct tern_error *e)
{
    char name[4096], *temporary = NULL;
    if (!part_name(name, sizeof name, weights_path(w), (size_t)like->rank,
                   (size_t)like->n_machines))
        return error_set(e, TERN_USAGE, "%s: its path is too long", weights_path(w));
    enum tern_status s = file_check_target(name, weights_path(w), e);
    if (!s)
        s = file_take_temporary(&temporary, name, e);
    if (!s)
        s = write_file(w, like, temporary, e);
    if (!s)
        s = file_replace(temporary, name, e);
    if (s)
        file_remove(temporary);
    file_give_temporary(temporary, e);
    return s;
}

#endif
