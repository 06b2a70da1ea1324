/* Weights files in memory: see image.h. */
#include "image.h"

#include "base/bytes.h"
#include "weights/file_layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void give_up(const char *what)
{
    fprintf(stderr, "image: %s\n", what);
    abort();
}

struct image image_of(const struct toy *toy)
{
    char path[256];
    struct tern_error e;
    struct image i = {0};
    toy_path(path, sizeof path, "image.bin");
    if (toy_write(path, toy, &e))
        give_up(e.text);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        give_up(path);
    i.n = (size_t)ftell(f);
    i.p = malloc(i.n);
    rewind(f);
    if (!i.p || fread(i.p, 1, i.n, f) != i.n)
        give_up(path);
    fclose(f);
    unlink(path);
    return i;
}

struct image image_copy(const struct image *from)
{
    struct image i = {malloc(from->n), from->n};
    if (!i.p)
        give_up("no memory");
    memcpy(i.p, from->p, i.n);
    return i;
}

void image_close(struct image *i)
{
    free(i->p);
    *i = (struct image){0};
}

void image_save(const struct image *i, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(i->p, 1, i->n, f) != i->n || fclose(f))
        give_up(path);
}

/* ---- repair ---- */

static uint64_t content_id(const void *directory, size_t n)
{
    struct bytes b = bytes_of(directory, n);
    struct xxh64 h;
    xxh64_init(&h, 0);
    for (uint64_t left = bytes_u64(&b); left && !b.bad; left--) {
        uint64_t name = bytes_u64(&b);
        bytes_take(&b, name);
        bytes_align8(&b, directory);
        const unsigned char *fields = bytes_take(&b, 64);
        if (fields)
            xxh64_update(&h, fields + 56, 8);
    }
    return xxh64_digest(&h);
}

void image_repair(unsigned char *p, size_t n)
{
    if (n < LAYOUT_START_BYTES)
        return;
    uint64_t header = load_u64(p + LAYOUT_HEADER_BYTES), sections = load_u64(p + LAYOUT_N_SECTIONS);
    if (header < LAYOUT_START_BYTES || header > n)
        return;
    const uint64_t room = (header - LAYOUT_START_BYTES) / LAYOUT_SECTION_BYTES;
    for (uint64_t s = 0; s < sections && s < room; s++) {
        const unsigned char *entry = p + LAYOUT_START_BYTES + s * LAYOUT_SECTION_BYTES;
        uint64_t offset = load_u64(entry + 24), bytes = load_u64(entry + 32);
        if (memcmp(entry, "tensors", 8) || offset > header || bytes > header - offset)
            continue;
        uint64_t id = content_id(p + offset, (size_t)bytes);
        memcpy(p + LAYOUT_CONTENT_ID, &id, sizeof id);
    }
    uint64_t sum = layout_header_checksum(p, (size_t)header);
    memcpy(p + LAYOUT_CHECKSUM, &sum, sizeof sum);
}

/* ---- places ---- */

size_t image_section(const struct image *i, const char *tag)
{
    for (uint64_t s = 0; s < load_u64(i->p + LAYOUT_N_SECTIONS); s++) {
        size_t at = (size_t)(LAYOUT_START_BYTES + s * LAYOUT_SECTION_BYTES);
        if (!strncmp((const char *)i->p + at, tag, LAYOUT_TAG_BYTES))
            return at;
    }
    give_up(tag);
    return 0;
}

size_t image_body(const struct image *i, const char *tag)
{
    return (size_t)load_u64(i->p + image_section(i, tag) + 24);
}

static size_t up8(uint64_t n)
{
    return (size_t)((n + 7) / 8 * 8);
}

size_t image_key(const struct image *i, const char *tag, const char *name)
{
    static const size_t width[] = {0, 8, 4, 1, 4};
    size_t at = image_body(i, tag);
    uint64_t n = load_u64(i->p + at);
    for (at += 8; n; n--) {
        const unsigned char *p = i->p + at;
        uint64_t type = load_u64(p + 8), count = load_u64(p + 16), bytes = load_u64(p + 24);
        if (bytes == strlen(name) && !memcmp(p + 32, name, strlen(name)))
            return at;
        at += 32 + up8(bytes) + up8(count * width[type]);
    }
    give_up(name);
    return 0;
}

size_t image_tensor(const struct image *i, size_t number)
{
    size_t at = image_body(i, "tensors");
    assert(number < load_u64(i->p + at));
    for (at += 8; number; number--)
        at += 8 + up8(load_u64(i->p + at)) + 64;
    return at;
}

size_t image_fields(const struct image *i, size_t number)
{
    size_t at = image_tensor(i, number);
    return at + 8 + up8(load_u64(i->p + at));
}

void image_repair_tensor(struct image *i, size_t number)
{
    unsigned char *fields = i->p + image_fields(i, number);
    uint64_t sum = xxh64(i->p + load_u64(fields + 40), (size_t)load_u64(fields + 48));
    memcpy(fields + 56, &sum, sizeof sum);
    image_repair(i->p, i->n);
}
