/* Files of named arrays: see tensor_file.h. An .npz is a ZIP archive whose members are stored, not
 * compressed: NAME.npy each, with numpy's header of 128 bytes (PKWARE's APPNOTE, numpy's format 1.0).
 * Its checksums are found at the end, by reading the values again. */
#include "app/look/tensor_file.h"

#include "app/cli/parser.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { LOCAL = 30, CENTRAL = 46, END = 22, NPY = 128 };
static const uint64_t NPZ_MOST = 0xffffffff; /* bytes: larger ones need ZIP64 */

bool tensor_file_has_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".npz") || !strcmp(dot, ".safetensors"));
}

static uint64_t values_of(const struct tensor_array *a)
{
    uint64_t n = 1;
    for (size_t i = 0; i < a->n_dims; i++)
        n *= a->shape[i];
    return n;
}

static void write_at(struct tensor_file *f, const void *p, size_t n, uint64_t at)
{
    const char *bytes = p;
    while (n && !f->failed) {
        ssize_t done = pwrite(f->fd, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            f->failed = errno ? errno : EIO;
            return;
        }
        bytes += done, at += (uint64_t)done, n -= (size_t)done;
    }
}

/* ---- .npz ------------------------------------------------------------------------------------ */

/* Little-endian numbers, one after the other */
static unsigned char *put(unsigned char *p, uint32_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(x >> 8 * i);
    return p;
}

/* CRC-32 of ZIP (polynomial 0xedb88320), half a byte at a time */
static uint32_t add_crc(uint32_t crc, const unsigned char *p, size_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    for (size_t i = 0; i < n; i++) {
        crc = table[(crc ^ p[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ p[i] >> 4) & 15] ^ crc >> 4;
    }
    return crc;
}

/* numpy's header of an array, padded to NPY bytes */
static void make_npy(unsigned char *head, const struct tensor_array *a)
{
    char shape[96] = "", text[NPY + 1];
    size_t n = 0;
    for (size_t i = 0; i < a->n_dims; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%zu,%s", a->shape[i],
                              i + 1 < a->n_dims ? " " : "");
    int length =
        snprintf(text, sizeof text, "{'descr': '<%s4', 'fortran_order': False, 'shape': (%s), }",
                 a->is_int ? "i" : "f", shape);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    put(head + 8, NPY - 10, 2);
    memset(head + 10, ' ', NPY - 10);
    memcpy(head + 10, text, (size_t)length);
    head[NPY - 1] = '\n';
}

static uint64_t member_of(const struct tensor_array *a)
{
    return a->offset - NPY - LOCAL - strlen(a->name) - 4;
}

/* The fields that a member has in both headers; a date that ZIP can say */
static unsigned char *put_member(unsigned char *p, const struct tensor_array *a, uint32_t crc)
{
    p = put(p, 20, 2), p = put(p, 0, 2), p = put(p, 0, 2);
    p = put(p, 0, 2), p = put(p, 0x21, 2);
    p = put(p, crc, 4);
    p = put(p, (uint32_t)(a->bytes + NPY), 4), p = put(p, (uint32_t)(a->bytes + NPY), 4);
    return put(p, (uint32_t)strlen(a->name) + 4, 2);
}

/* NAME.npy; returns its length. */
static size_t put_name(unsigned char *p, const struct tensor_array *a)
{
    size_t n = strlen(a->name);
    memcpy(p, a->name, n);
    memcpy(p + n, ".npy", 4);
    return n + 4;
}

static void write_local(struct tensor_file *f, const struct tensor_array *a, uint32_t crc)
{
    unsigned char head[LOCAL + sizeof a->name + 4 + NPY], *p = put(head, 0x04034b50, 4);
    p = put_member(p, a, crc);
    p = put(p, 0, 2);
    p += put_name(p, a);
    make_npy(p, a);
    write_at(f, head, (size_t)(p - head) + NPY, member_of(a));
}

/* Reads the values again for the checksum of a member. */
static uint32_t crc_of(struct tensor_file *f, const struct tensor_array *a)
{
    unsigned char buffer[16384];
    uint64_t at = a->offset - NPY, end = a->offset + a->bytes;
    uint32_t crc = 0xffffffff;
    while (at < end && !f->failed) {
        size_t n = end - at < sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        ssize_t got = pread(f->fd, buffer, n, (off_t)at);
        if (got <= 0) {
            f->failed = got < 0 && errno == EINTR ? 0 : errno ? errno : EIO;
            continue;
        }
        crc = add_crc(crc, buffer, (size_t)got);
        at += (uint64_t)got;
    }
    return ~crc;
}

static void finish_npz(struct tensor_file *f)
{
    uint64_t at = f->head;
    unsigned char head[CENTRAL + sizeof f->arrays->name + 4], *p;
    for (size_t i = 0; i < f->n; i++) {
        const struct tensor_array *a = &f->arrays[i];
        uint32_t crc = crc_of(f, a);
        write_local(f, a, crc);
        p = put(head, 0x02014b50, 4), p = put(p, 20, 2);
        p = put_member(p, a, crc);
        for (int k = 0; k < 4; k++)
            p = put(p, 0, 2);
        p = put(p, 0, 4), p = put(p, (uint32_t)member_of(a), 4);
        p += put_name(p, a);
        write_at(f, head, (size_t)(p - head), at);
        at += (uint64_t)(p - head);
    }
    p = put(head, 0x06054b50, 4), p = put(p, 0, 4);
    p = put(p, (uint32_t)f->n, 2), p = put(p, (uint32_t)f->n, 2);
    p = put(p, (uint32_t)(at - f->head), 4), p = put(p, (uint32_t)f->head, 4), p = put(p, 0, 2);
    write_at(f, head, (size_t)(p - head), at);
}

static void plan_npz(struct tensor_file *f)
{
    uint64_t at = 0, directory = END;
    for (size_t i = 0; i < f->n; i++) {
        struct tensor_array *a = &f->arrays[i];
        a->offset = at + LOCAL + strlen(a->name) + 4 + NPY;
        at = a->offset + a->bytes;
        directory += CENTRAL + strlen(a->name) + 4;
    }
    f->head = at;
    f->bytes = at + directory;
}

/* ---- .safetensors ---------------------------------------------------------------------------- */

/* The JSON header, padded with spaces to a multiple of 8; in *n its length. The caller frees it. */
static char *make_header(const struct tensor_file *f, size_t *n)
{
    size_t room = f->n * (sizeof f->arrays->name + 192) + 16;
    char *text = malloc(room);
    uint64_t at = 0;
    *n = 0;
    for (size_t i = 0; text && i < f->n; i++) {
        const struct tensor_array *a = &f->arrays[i];
        *n += (size_t)snprintf(text + *n, room - *n, "%s\"%s\":{\"dtype\":\"%s32\",\"shape\":[",
                               i ? "," : "{", a->name, a->is_int ? "I" : "F");
        for (size_t k = 0; k < a->n_dims; k++)
            *n += (size_t)snprintf(text + *n, room - *n, k ? ",%zu" : "%zu", a->shape[k]);
        *n += (size_t)snprintf(text + *n, room - *n, "],\"data_offsets\":[%llu,%llu]}",
                               (unsigned long long)at, (unsigned long long)(at + a->bytes));
        at += a->bytes;
    }
    for (bool closed = false; text && (!closed || *n % 8); closed = true)
        text[(*n)++] = closed ? ' ' : '}';
    return text;
}

static void plan_safetensors(struct tensor_file *f, size_t header)
{
    f->head = f->bytes = 8 + header;
    for (size_t i = 0; i < f->n; i++) {
        f->arrays[i].offset = f->bytes;
        f->bytes += f->arrays[i].bytes;
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

/* As tensor_file_plan; *header is that of .safetensors, which the caller frees. */
static enum tern_status plan(struct tensor_file *f, const char *path, struct tensor_array *arrays,
                             size_t n, char **header, size_t *header_bytes, struct tern_error *e)
{
    *f = (struct tensor_file){.fd = -1, .arrays = arrays, .n = n};
    f->is_npz = !strcmp(strrchr(path, '.'), ".npz");
    *header = NULL, *header_bytes = 0;
    for (size_t i = 0; i < n; i++)
        arrays[i].bytes = 4 * values_of(&arrays[i]);
    if (f->is_npz)
        plan_npz(f);
    else if (!(*header = make_header(f, header_bytes))) {
        return parser_no_memory_for(e, "the header of %.300s", path);
    } else
        plan_safetensors(f, *header_bytes);
    if (!f->is_npz || (f->bytes <= NPZ_MOST && n < 65535))
        return TERN_OK;
    snprintf(e->text, sizeof e->text,
             "%.200s would have %llu MiB, and an .npz file ends at 4 GiB: write .safetensors, or "
             "choose fewer --hooks, --layers or --positions",
             path, (unsigned long long)(f->bytes >> 20));
    return e->code = TERN_LIMIT;
}

enum tern_status tensor_file_plan(struct tensor_file *f, const char *path,
                                  struct tensor_array *arrays, size_t n, struct tern_error *e)
{
    char *header;
    size_t bytes;
    enum tern_status s = plan(f, path, arrays, n, &header, &bytes, e);
    free(header);
    return s;
}

/* The header of .safetensors; NULL: another kind of file */
static void write_header(struct tensor_file *f, const char *header, size_t bytes)
{
    unsigned char length[8];
    if (!header)
        return;
    put(put(length, (uint32_t)bytes, 4), 0, 4);
    write_at(f, length, sizeof length, 0);
    write_at(f, header, bytes, sizeof length);
}

enum tern_status tensor_file_open(struct tensor_file *f, const char *path,
                                  struct tensor_array *arrays, size_t n, struct tern_error *e)
{
    char *header;
    size_t bytes;
    enum tern_status s = plan(f, path, arrays, n, &header, &bytes, e);
    if (!s)
        s = output_file_open(&f->out, path, e);
    if (!s) {
        f->fd = fileno(f->out.stream);
        if (ftruncate(f->fd, (off_t)f->bytes))
            f->failed = errno;
    }
    for (size_t i = 0; !s && f->is_npz && i < n; i++)
        write_local(f, &arrays[i], 0); /* the checksum follows at the end */
    if (!s)
        write_header(f, header, bytes);
    free(header);
    return s;
}

/* Behind the arrays, until the file is whole: the key, and what was marked */
void tensor_file_mark(struct tensor_file *f, uint64_t key, uint64_t done)
{
    const uint64_t mark[] = {key, done};
    write_at(f, mark, sizeof mark, f->bytes);
}

/* What an unfinished file says of itself; 0 if it is not one of this key. */
static uint64_t read_mark(const struct tensor_file *f, uint64_t key)
{
    uint64_t mark[2] = {0};
    bool whole = pread(f->fd, mark, sizeof mark, (off_t)f->bytes) == sizeof mark;
    return whole && mark[0] == key ? mark[1] : 0;
}

enum tern_status tensor_file_resume(struct tensor_file *f, const char *path,
                                    struct tensor_array *arrays, size_t n, uint64_t key,
                                    uint64_t *done, struct tern_error *e)
{
    char *header;
    size_t bytes;
    enum tern_status s = plan(f, path, arrays, n, &header, &bytes, e);
    if (!s)
        s = output_file_reopen(&f->out, path, e);
    if (!s) {
        f->is_resumed = true;
        f->fd = fileno(f->out.stream);
        *done = read_mark(f, key);
        if (!*done && (ftruncate(f->fd, 0) || ftruncate(f->fd, (off_t)f->bytes)))
            f->failed = errno;
        write_header(f, header, bytes);
    }
    free(header);
    return s;
}

void tensor_file_write(struct tensor_file *f, const struct tensor_array *a, uint64_t at,
                       const void *values, size_t n)
{
    write_at(f, values, 4 * n, a->offset + 4 * at);
}

enum tern_status tensor_file_close(struct tensor_file *f, enum tern_status s, struct tern_error *e)
{
    if (!s && f->is_npz && !f->failed)
        finish_npz(f);
    if (!s && f->is_resumed && !f->failed && ftruncate(f->fd, (off_t)f->bytes))
        f->failed = errno;
    if (!s && f->failed) {
        snprintf(e->text, sizeof e->text, "%.300s: cannot write it: %s", f->out.path,
                 strerror(f->failed));
        s = e->code = TERN_IO;
    }
    return output_file_close(&f->out, s, e);
}
