/* Arrays of numpy, read: see npz.h. */
#include "app/run/npz.h"

#include "app/cli/files.h"
#include "app/cli/number.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_BYTES = 22, ENTRY_BYTES = 46, HEAD_BYTES = 30, COMMENT_BYTES = 65535, MAX_TEXT = 256 };

#define NO_ARRAY "is not an array of numpy"
#define DAMAGED "is damaged, or larger than 4 GiB"

struct npz_reader {
    const char *path;
    const unsigned char *bytes;
    size_t n;
    struct tern_error *e;
};

static enum tern_status refuse(const struct npz_reader *r, const char *name, const char *what)
{
    r->e->code = TERN_BAD_FILE;
    snprintf(r->e->text, sizeof r->e->text, "%.200s: %.100s%s%s", r->path, name, *name ? " " : "",
             what);
    return TERN_BAD_FILE;
}

static uint32_t u16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32(const unsigned char *p)
{
    return u16(p) | u16(p + 2) << 16;
}

/* CRC-32 as zip has it: reflected, polynomial 0xEDB88320. */
static uint32_t crc32(const unsigned char *p, size_t n)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (0xEDB88320u & (0 - (table[i] & 1)));
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    return ~crc;
}

/* Sets rows and columns from "(8, 64)", "(8,)"; false for any other text, or without a number. */
static bool read_shape(struct npz_array *a, const char *text)
{
    uint64_t size[2] = {0, 1};
    size_t n = 0;
    for (size_t digits; n < 2 && (digits = strspn(text, "0123456789")); n++) {
        if (!number_u64(text, digits, &size[n]) || !size[n] || size[n] > UINT32_MAX)
            return false;
        text += digits;
        text += *text == ',';
        text += *text == ' ';
    }
    a->rows = size[0], a->columns = size[1];
    return n && *text == ')';
}

/* The text in front of the numbers. */
static enum tern_status read_text(const struct npz_reader *r, struct npz_array *a, const char *text)
{
    static const char descr[] = "'descr': '<", shape[] = "'shape': (";
    const char *d = strstr(text, descr), *s = strstr(text, shape);
    a->kind = d ? d[sizeof descr - 1] : 0;
    if (!s || (a->kind != 'f' && a->kind != 'i') || strncmp(d + sizeof descr, "4'", 2))
        return refuse(r, a->name, "is neither float32 nor int32: use astype('<f4')");
    if (!strstr(text, "'fortran_order': False"))
        return refuse(r, a->name, "is in Fortran order: use ascontiguousarray");
    if (!read_shape(a, s + sizeof shape - 1))
        return refuse(r, a->name, "must have one or two dimensions, none of them empty");
    return TERN_OK;
}

/* A member's bytes. */
static enum tern_status read_array(const struct npz_reader *r, struct npz_array *a,
                                   const unsigned char *p, size_t n)
{
    char text[MAX_TEXT] = {0};
    size_t lead = n >= 12 && p[6] > 1 ? 12 : 10;
    if (n < lead || memcmp(p, "\x93NUMPY", 6))
        return refuse(r, a->name, NO_ARRAY);
    size_t length = lead == 10 ? u16(p + 8) : u32(p + 8);
    if (length > n - lead || length >= sizeof text)
        return refuse(r, a->name, NO_ARRAY);
    memcpy(text, p + lead, length);
    enum tern_status s = read_text(r, a, text);
    if (s)
        return s;
    a->data = (const char *)p + lead + length;
    n -= lead + length;
    if (n % 4 || n / 4 / a->columns != a->rows || n / 4 % a->columns)
        return refuse(r, a->name, NO_ARRAY);
    return TERN_OK;
}

/* A name that may be printed. */
static bool is_plain(const unsigned char *p, size_t n)
{
    while (n && p[n - 1] >= ' ' && p[n - 1] <= '~')
        n--;
    return !n;
}

/* The member that an entry of the directory names; the entry's 46 bytes, name and more are inside
 * the file. */
static enum tern_status read_member(const struct npz_reader *r, struct npz_array *a,
                                    const unsigned char *entry)
{
    size_t n_name = u16(entry + 28), n = u32(entry + 24), at = u32(entry + 42);
    if (n_name < 5 || n_name - 4 >= sizeof a->name || !is_plain(entry + ENTRY_BYTES, n_name))
        return refuse(r, "a member", NO_ARRAY);
    memcpy(a->name, entry + ENTRY_BYTES, n_name - 4);
    if (u16(entry + 10))
        return refuse(r, a->name, "is compressed: write the file with numpy.savez");
    if (at > r->n || r->n - at < HEAD_BYTES || memcmp(r->bytes + at, "PK\3\4", 4))
        return refuse(r, a->name, DAMAGED);
    size_t skip = HEAD_BYTES + u16(r->bytes + at + 26) + u16(r->bytes + at + 28);
    if (skip > r->n - at || n > r->n - at - skip || u16(r->bytes + at + 26) != n_name ||
        memcmp(r->bytes + at + HEAD_BYTES, entry + ENTRY_BYTES, n_name))
        return refuse(r, a->name, DAMAGED);
    const unsigned char *data = r->bytes + at + skip;
    if (crc32(data, n) != u32(entry + 16))
        return refuse(r, a->name, DAMAGED);
    return read_array(r, a, data, n);
}

/* The last 22 bytes and a comment, or NULL. */
static const unsigned char *find_end(const struct npz_reader *r)
{
    for (size_t i = END_BYTES; i <= r->n && i <= END_BYTES + COMMENT_BYTES; i++)
        if (!memcmp(r->bytes + r->n - i, "PK\5\6", 4))
            return r->bytes + r->n - i;
    return NULL;
}

static enum tern_status read_directory(const struct npz_reader *r, struct npz *z)
{
    const unsigned char *end = find_end(r);
    if (!end)
        return refuse(r, "", DAMAGED ", or no file of numpy.savez");
    size_t n = u16(end + 10), at = u32(end + 16);
    z->arrays = calloc(n + 1, sizeof *z->arrays);
    if (!z->arrays)
        return refuse(r, "", "does not fit into memory"), r->e->code = TERN_NO_MEMORY;
    for (; z->n_arrays < n; z->n_arrays++) {
        const unsigned char *p = r->bytes + (at < r->n ? at : 0);
        if (at > r->n || r->n - at < ENTRY_BYTES || memcmp(p, "PK\1\2", 4))
            return refuse(r, "", DAMAGED);
        size_t bytes = (size_t)ENTRY_BYTES + u16(p + 28) + u16(p + 30) + u16(p + 32);
        if (bytes > r->n - at)
            return refuse(r, "", DAMAGED);
        enum tern_status s = read_member(r, &z->arrays[z->n_arrays], p);
        if (s)
            return s;
        at += bytes;
    }
    return at == (size_t)(end - r->bytes) ? TERN_OK : refuse(r, "", DAMAGED);
}

enum tern_status npz_open(struct npz *z, const char *path, struct tern_error *e)
{
    struct npz_reader r = {.path = path, .e = e};
    *z = (struct npz){0};
    enum tern_status s = files_take(path, &z->bytes, &r.n, e);
    r.bytes = (const unsigned char *)z->bytes;
    return s ? s : read_directory(&r, z);
}

void npz_close(struct npz *z)
{
    free(z->bytes);
    free(z->arrays);
    *z = (struct npz){0};
}

struct npz_array *npz_find(const struct npz *z, const char *name)
{
    for (size_t i = 0; i < z->n_arrays; i++)
        if (!strcmp(z->arrays[i].name, name))
            return &z->arrays[i];
    return NULL;
}

float npz_float(const struct npz_array *a, size_t row, size_t column)
{
    float x;
    memcpy(&x, a->data + 4 * (row * a->columns + column), sizeof x);
    return x;
}

int32_t npz_int(const struct npz_array *a, size_t row)
{
    int32_t x;
    memcpy(&x, a->data + 4 * row * a->columns, sizeof x);
    return x;
}
