/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* The writer of the weights file: the reader finds what was written, at the limits of the format
 * too; beyond them the writer refuses. A patch changes its numbers and nothing else. */
#include "allocs.h"
#include "base/file.h"
#include "suite.h"
#include "toy.h"
#include "weights/checksums.h"
#include "weights/keywriter.h"
#include "weights/weights.h"
#include "weights/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[256];
static struct writer *w;
static struct weights *r;
static struct tern_error e;
static int lowest; /* descriptor that is free */

static int lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void setup(void)
{
    allocs_start(0, 0);
    toy_path(path, sizeof path, "written.bin");
    e = (struct tern_error){TERN_OK, ""};
    lowest = lowest_free();
}

static void teardown(void)
{
    writer_close(w);
    weights_close(r);
    w = NULL, r = NULL;
    unlink(path);
    ck_assert_uint_eq(allocs_live(), 0);
    ck_assert_int_eq(lowest_free(), lowest);
}

static void good(enum tern_status s)
{
    ck_assert_msg(!s, "%s", e.text);
}

static void expect(enum tern_status got, enum tern_status status, const char *text)
{
    ck_assert_msg(got == status && e.code == status, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, text), "'%s' lacks '%s'", e.text, text);
}

/* A writer with the section that every file has. */
static void begin(void)
{
    static const uint64_t no_keys;
    good(writer_open(&w, path, &e));
    good(writer_section(w, "config", true, &no_keys, sizeof no_keys, &e));
}

static void finish(void)
{
    good(writer_finish(w, &e));
    writer_close(w);
    w = NULL;
    good(weights_open(&r, path, &e));
    good(checksums_verify(r, NULL, NULL, &e));
}

/* ---- sections ---- */

static void section_name(char *tag, size_t i) /* of 1 .. 16 letters */
{
    memset(tag, 0, 17);
    memset(tag, 'a' + (int)(i / 16), i % 16 + 1);
}

/* In order, `tensors` after the first; section i has i bytes. */
START_TEST(a_file_has_at_most_64_sections)
{
    char tag[17], bytes[64];
    float one = 1;
    size_t n;
    memset(bytes, 5, sizeof bytes);
    begin();
    for (size_t i = 2; i < 64; i++) {
        section_name(tag, i);
        good(writer_section(w, tag, false, bytes, i - 2, &e));
    }
    expect(writer_section(w, "z", false, bytes, 1, &e), TERN_LIMIT, "has at most 64 sections");
    good(writer_tensor(w, "x", TERN_F32, 16, 1, 1, &e));
    for (size_t i = 0; i < 16; i++)
        good(writer_data(w, &one, sizeof one, &e));
    finish();
    ck_assert_uint_eq(weights_n_sections(r), 64);
    ck_assert_str_eq(weights_section_at(r, 0)->tag, "config");
    ck_assert_str_eq(weights_section_at(r, 1)->tag, "tensors");
    for (size_t i = 0; i < 64; i++) {
        const struct section *s = weights_section_at(r, i);
        section_name(tag, i);
        ck_assert(s->critical == (i < 2) && weights_section(r, s->tag, &n) == s->data);
        if (i >= 2)
            ck_assert(!strcmp(s->tag, tag) && s->bytes == i - 2 && !memcmp(s->data, bytes, i - 2));
    }
}
END_TEST

/* ---- tensors ---- */

static void tensor_name(char *name, size_t i) /* of 1 .. 256 letters */
{
    memset(name, 'a' + (int)(i / 256), i % 256 + 1);
    name[i % 256 + 1] = 0;
}

/* 300 tensors of i rows, by no section but the one, in pieces of every size. */
START_TEST(tensors_are_found_by_name)
{
    enum { N = 300 };
    static unsigned char data[N * 2000];
    char name[258];
    size_t n = 0, at = 0;
    begin();
    for (size_t i = 0; i < N; i++) {
        tensor_name(name, i);
        good(writer_tensor(w, name, TERN_F32, i + 1, 1, 1 + i % 2, &e));
        n += (1 + i % 2) * (i / 16 + 1) * 64;
    }
    memset(name, 'a', 257);
    name[257] = 0;
    expect(writer_tensor(w, name, TERN_F32, 1, 1, 1, &e), TERN_LIMIT, "beyond the format");
    expect(writer_tensor(w, "", TERN_F32, 1, 1, 1, &e), TERN_LIMIT, "beyond the format");
    expect(writer_tensor(w, "x", TERN_F32, 1ull << 62, 1, 1, &e), TERN_LIMIT, "tensor 'x'");
    ck_assert_uint_lt(n, sizeof data);
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * i >> 3);
    for (size_t piece = 1; at < n; at += piece, piece = piece * 2 % 4093) {
        piece = n - at < piece ? n - at : piece;
        good(writer_data(w, data + at, piece, &e));
    }
    finish();
    ck_assert_uint_eq(weights_count(r), N);
    ck_assert_uint_eq(weights_n_sections(r), 2);
    at = 0;
    for (size_t i = 0; i < N; i++) {
        tensor_name(name, i);
        const struct tensor *t = weights_find(r, name);
        ck_assert_msg(t == weights_at(r, i), "%s", name);
        ck_assert(t->type == TERN_F32 && t->rows == i + 1 && t->k == 1 && t->matrices == 1 + i % 2);
        ck_assert(t->offset % 64 == 0 && !memcmp(t->data, data + at, t->bytes));
        at += t->bytes;
    }
    ck_assert_uint_eq(at, n);
}
END_TEST

/* The file is written in pieces of 4 MiB, whatever the calls and the gaps. */
START_TEST(large_tensors_come_back)
{
    static const size_t sizes[] = {4 << 20, 60 * 64, (4 << 20) - 8192, 9 << 20, 64};
    static unsigned char data[18 << 20];
    char name[2] = "a";
    size_t n = 0, at = 0;
    begin();
    for (size_t i = 0; i < 5; i++, name[0]++, n += sizes[i - 1])
        good(writer_tensor(w, name, TERN_F32, sizes[i] / 4, 1, 1, &e));
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 24);
    for (size_t piece = 5 << 20; at < n; at += piece, piece = piece < 99 ? 3 << 20 : piece / 7) {
        piece = n - at < piece ? n - at : piece;
        good(writer_data(w, data + at, piece, &e));
    }
    finish();
    at = 0;
    for (size_t i = 0; i < 5; at += sizes[i++])
        ck_assert(!memcmp(weights_at(r, i)->data, data + at, sizes[i]));
}
END_TEST

/* The room for the header is 64 MiB: start, three entries, config, a directory of one entry. */
START_TEST(a_header_has_at_most_64_mib)
{
    const size_t most = (64 << 20) - 64 - 3 * 40 - 8 - 8 - 80;
    void *data = calloc(1, most + 1);
    ck_assert_ptr_nonnull(data);
    for (size_t more = 0; more < 2; more++) {
        struct stat st;
        begin();
        good(writer_section(w, "large", false, data, most + more, &e));
        good(writer_tensor(w, "x", TERN_F32, 1, 1, 1, &e));
        static const float tile[16];
        enum tern_status s = writer_data(w, tile, sizeof tile, &e);
        if (more)
            expect(s, TERN_LIMIT, "a header of 67108872 bytes; at most 67108864 are allowed");
        else
            ck_assert(!s && !writer_finish(w, &e) && !stat(path, &st) &&
                      st.st_size == (64 << 20) + 64);
        writer_close(w);
        w = NULL;
    }
    free(data);
}
END_TEST

START_TEST(tensors_must_fit_a_file)
{
    const uint64_t rows = (uint64_t)1 << 61; /* 2^63 bytes */
    begin();
    good(writer_tensor(w, "a", TERN_F32, rows, 1, 1, &e));
    good(writer_data(w, "x", 1, &e));
    writer_close(w);
    begin();
    good(writer_tensor(w, "a", TERN_F32, rows, 1, 1, &e));
    good(writer_tensor(w, "b", TERN_F32, rows, 1, 1, &e));
    expect(writer_data(w, "x", 1, &e), TERN_LIMIT, "the tensors do not fit a file");
}
END_TEST

START_TEST(what_cannot_be_written_is_reported)
{
    expect(writer_open(&w, "/nowhere/x", &e), TERN_IO, "/nowhere/x: cannot create");
    ck_assert_ptr_null(w);
    static const uint64_t no_keys;
    good(writer_open(&w, "/dev/full", &e));
    good(writer_section(w, "config", true, &no_keys, sizeof no_keys, &e));
    good(writer_tensor(w, "x", TERN_F32, 16, 1, 1, &e));
    static const float zeros[16];
    good(writer_data(w, zeros, sizeof zeros, &e));
    expect(writer_finish(w, &e), TERN_IO, "/dev/full: cannot write");
}
END_TEST

/* ---- patches ---- */

/* Sections "seal" and "vectors" as patches want them, and "odd" ones as they do not. */
static enum tern_status write_patchable(bool odd)
{
    struct keywriter k;
    uint64_t two[2] = {1, 2};
    float zeros[16] = {0};
    enum tern_status s = writer_open(&w, path, &e);
    keywriter_init(&k);
    keywriter_u64(&k, "before", 3);
    if (!s)
        s = writer_section(w, "config", true, k.data, k.bytes, &e);
    if (odd) {
        keywriter_u64(&k, "arith", 1);
        keywriter_add(&k, "fingerprint", true, KEY_U64, two, 2);
        if (!s)
            s = writer_section(w, "seal", false, k.data, k.bytes, &e);
    } else if (!s) {
        s = writer_empty_seal(w, &e);
    }
    if (odd)
        keywriter_u64(&k, "logits.bound", 1);
    else
        keywriter_f32(&k, "logits.bound", 1);
    keywriter_u64(&k, "after", 4);
    bool failed = k.failed;
    if (!s && !failed)
        s = writer_section(w, "vectors", false, k.data, k.bytes, &e);
    keywriter_close(&k);
    if (!s && !failed && !(s = writer_tensor(w, "x", TERN_F32, 16, 1, 1, &e)) &&
        !(s = writer_data(w, zeros, sizeof zeros, &e)))
        s = writer_finish(w, &e);
    writer_close(w);
    w = NULL;
    return failed ? TERN_NO_MEMORY : s;
}

static void numbers(uint64_t *arith, uint64_t *fingerprint, float *bound)
{
    struct keys seal, vectors;
    uint64_t after = 0;
    size_t n = 0;
    weights_close(r);
    good(weights_open(&r, path, &e));
    good(checksums_verify(r, NULL, NULL, &e));
    const void *body = weights_section(r, "seal", &n);
    good(keys_parse(&seal, "seal", body, n, &e));
    body = weights_section(r, "vectors", &n);
    good(keys_parse(&vectors, "vectors", body, n, &e));
    good(keys_u64(&seal, "arith", arith, &e));
    good(keys_u64(&seal, "fingerprint", fingerprint, &e));
    good(keys_f32(&vectors, "logits.bound", bound, &e));
    ck_assert(!keys_u64(&vectors, "after", &after, &e) && after == 4);
    keys_close(&seal);
    keys_close(&vectors);
    weights_close(r);
    r = NULL;
}

START_TEST(a_patch_changes_its_numbers_alone)
{
    uint64_t arith = 9, fingerprint = 9;
    float bound = 9;
    good(write_patchable(false));
    numbers(&arith, &fingerprint, &bound);
    ck_assert(!arith && !fingerprint && !memcmp(&bound, &(float){1}, 4));
    good(writer_patch_seal(path, 7, UINT64_MAX - 5, &e));
    numbers(&arith, &fingerprint, &bound);
    ck_assert(arith == 7 && fingerprint == UINT64_MAX - 5 && !memcmp(&bound, &(float){1}, 4));
    good(writer_patch_bound(path, 0.25f, &e));
    numbers(&arith, &fingerprint, &bound);
    ck_assert(arith == 7 && fingerprint == UINT64_MAX - 5 && !memcmp(&bound, &(float){0.25f}, 4));
}
END_TEST

START_TEST(a_patch_that_does_not_fit_changes_nothing)
{
    char before[8192], after[8192];
    good(write_patchable(true));
    FILE *f = fopen(path, "rb");
    size_t n = fread(before, 1, sizeof before, f);
    fclose(f);
    ck_assert_uint_eq(n, 4096 + 64);
    expect(writer_patch_seal(path, 7, 8, &e), TERN_BAD_FILE,
           "section 'seal' has no single key 'fingerprint'");
    expect(writer_patch_bound(path, 1, &e), TERN_BAD_FILE,
           "section 'vectors' has no single key 'logits.bound'");
    f = fopen(path, "rb");
    ck_assert(fread(after, 1, sizeof after, f) == n && !memcmp(before, after, n));
    fclose(f);
    begin();
    good(writer_tensor(w, "x", TERN_F32, 16, 1, 1, &e));
    good(writer_data(w, (const float[16]){0}, 64, &e));
    finish();
    expect(writer_patch_seal(path, 7, 8, &e), TERN_BAD_FILE, "it has no section 'seal'");
    expect(writer_patch_bound(path, 1, &e), TERN_BAD_FILE, "it has no section 'vectors'");
    expect(writer_patch_bound("/nowhere/x", 1, &e), TERN_IO, "/nowhere/x");
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    enum tern_status s = TERN_NO_MEMORY;
    for (size_t n = 1; s; n++) {
        allocs_start(n, 0);
        s = write_patchable(false);
        if (!s)
            s = writer_patch_seal(path, 1, 2, &e);
        allocs_stop();
        ck_assert_uint_eq(allocs_live(), 0);
        ck_assert(!s || (s == TERN_NO_MEMORY && n < 50));
    }
}
END_TEST

SUITE("writer", AROUND_EACH(setup, teardown), TEST(a_file_has_at_most_64_sections),
      TEST(tensors_are_found_by_name), TEST(large_tensors_come_back),
      TEST(a_header_has_at_most_64_mib), TEST(tensors_must_fit_a_file),
      TEST(what_cannot_be_written_is_reported), TEST(a_patch_changes_its_numbers_alone),
      TEST(a_patch_that_does_not_fit_changes_nothing), TEST(every_allocation_fails_in_turn))
