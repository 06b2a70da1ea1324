/* ldflags: -Wl,--wrap=pwrite,--wrap=pwrite64 */
/* Stores of prefixes as files: what was saved is found after a load, bit for bit; what is damaged, cut off
 * or another's is refused, and leaves the store empty. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/sizes.h"
#include "golden.h"
#include "model/prefix_file.h"
#include "prefix_texts.h"
#include "suite.h"
#include "weights/file_layout.h"

static long room = -1; /* bytes that the disk still takes; -1: any */

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (room >= 0 && n > (size_t)room) {
        errno = ENOSPC;
        return -1;
    }
    room -= room >= 0 ? (long)n : 0;
    return __real_pwrite(fd, p, n, at);
}

/* The name that _FILE_OFFSET_BITS gives to pwrite. */
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return __wrap_pwrite(fd, p, n, at);
}

static int open_file(void)
{
    char path[256];
    toy_path(path, sizeof path, "prefixes");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert(fd >= 0);
    unlink(path);
    return fd;
}

static unsigned char *contents(int fd, size_t *n)
{
    struct stat s;
    ck_assert(!fstat(fd, &s));
    *n = (size_t)s.st_size;
    unsigned char *p = malloc(*n);
    ck_assert(p && pread(fd, p, *n, 0) == (ssize_t)*n);
    return p;
}

static void save(int fd)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_prefix_save(t.ctx, fd, &e), "%s", e.text);
}

static void load(int fd)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_prefix_load(t.ctx, fd, &e), "%s", e.text);
    texts_check_store(t.ctx);
}

/* Texts one behind the other, each kept as it grows */
static void fill(size_t n_texts, size_t length)
{
    for (size_t k = 0; k < n_texts; k++)
        for (size_t at = texts_find(0, k, length), end; at < length; at = end) {
            end = min_size(at + 90, length);
            texts_feed(0, k, at, end, N_BATCH);
            tern_prefix_keep(t.ctx, 0);
        }
}

static void same_file(int fd, const unsigned char *before, size_t bytes)
{
    size_t n;
    int again = open_file();
    save(again);
    unsigned char *after = contents(again, &n);
    ck_assert(n == bytes && !memcmp(before, after, n));
    free(after);
    close(again);
    (void)fd;
}

START_TEST(what_was_saved_is_found)
{
    if (!texts_due(_i))
        return;
    enum tern_cache_type type = (enum tern_cache_type)(_i / N_MODELS);
    size_t reach[N_TEXTS], bytes;
    int fd = open_file();
    texts_open(_i % N_MODELS, type);
    t.ctx = texts_context(8 << 20, type);
    fill(N_TEXTS, 640);
    save(fd);
    unsigned char *before = contents(fd, &bytes);
    for (size_t k = 0; k < N_TEXTS; k++)
        reach[k] = tern_prefix_reach(t.ctx, t.text[k], LENGTH);
    tern_context_close(t.ctx);
    t.ctx = texts_context(8 << 20, type);
    texts_feed(1, 4, 0, 300, N_BATCH);
    tern_prefix_keep(t.ctx, 1); /* forgotten */
    load(fd);
    same_file(fd, before, bytes);
    for (size_t k = 0; k < N_TEXTS; k++) {
        ck_assert_uint_eq(texts_find(0, k, LENGTH), reach[k]);
        texts_feed(0, k, reach[k], LENGTH, 33);
        size_t n = 100 + 130 * k, found = texts_find(2, k, n);
        texts_feed(2, k, found, n, 50);
    }
    texts_feed(1, 4, 300, 400, 50);
    texts_check_store(t.ctx);
    tern_context_close(t.ctx);
    free(before);
    close(fd);
    texts_close();
}
END_TEST

/* What a file shows of pages is their text alone. */
START_TEST(a_file_holds_nothing_of_other_texts)
{
    if (!texts_due(_i))
        return;
    static const int models[] = {0, 2, 3, 5, 10, 11};
    enum tern_cache_type type = (enum tern_cache_type)(_i % 3);
    size_t bytes;
    texts_open(models[_i / 3], type);
    unsigned char *first = NULL;
    for (int round = 0; round < 2; round++) {
        int fd = open_file();
        t.ctx = texts_context(8 << 20, type);
        texts_feed(0, 4, 0, round ? 600 : 0, N_BATCH); /* whose pages are used again */
        tern_seq_keep(t.ctx, 0, 0);
        texts_find(0, 0, 300);
        texts_feed(0, 0, 0, 300, N_BATCH);
        tern_prefix_keep(t.ctx, 0);
        texts_feed(0, 0, 300, round ? 400 : 300, N_BATCH); /* the page goes on behind what is kept */
        save(fd);
        if (round)
            same_file(fd, first, bytes);
        else
            first = contents(fd, &bytes);
        tern_context_close(t.ctx);
        close(fd);
    }
    free(first);
    texts_close();
}
END_TEST

START_TEST(a_smaller_store_takes_what_was_used_last)
{
    int fd = open_file();
    texts_open(_i ? 5 : 0, TERN_CACHE_F16);
    t.ctx = texts_context(8 << 20, TERN_CACHE_F16);
    fill(N_TEXTS, 640);
    size_t first = texts_find(1, 0, 641);
    ck_assert_uint_eq(first, 640);
    save(fd);
    uint64_t node = t.ctx->cache.share.bytes / t.ctx->cache.share.n_pages;
    tern_context_close(t.ctx);
    for (uint64_t n = 1; n < 12; n++) {
        t.ctx = texts_context(n * node + node / 2, TERN_CACHE_F16);
        size_t room_for = t.ctx->prefixes.n_nodes;
        ck_assert(room_for);
        load(fd);
        ck_assert_uint_eq(t.ctx->prefixes.n_used, min_size(room_for, 10));
        size_t found = texts_find(0, 0, 641);
        if (!_i)
            ck_assert_uint_eq(found, min_size(640, room_for * BLOCK));
        texts_feed(0, 0, found, 650, 41);
        tern_prefix_keep(t.ctx, 0);
        texts_check_store(t.ctx);
        tern_context_close(t.ctx);
    }
    close(fd);
    texts_close();
}
END_TEST

/* ---- files that are refused ---- */

static void refuse(int fd, enum tern_status want, const char *words)
{
    struct tern_error e = {0};
    enum tern_status s = tern_prefix_load(t.ctx, fd, &e);
    ck_assert_msg(s == want && e.code == want, "%d: %s", s, e.text);
    ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
    ck_assert(!t.ctx->prefixes.n_used && t.ctx->prefixes.newest < 0);
}

static void small_toy(const struct toy *toy)
{
    struct tern_error e = {0};
    struct tern_model_params p = {.n_threads = 1};
    toy_path(t.path, sizeof t.path, "prefix.bin");
    ck_assert_msg(!toy_write(t.path, toy, &e), "%s", e.text);
    ck_assert_msg(!tern_model_open(&t.model, t.path, &p, &e), "%s", e.text);
}

static struct toy toy(void)
{
    struct toy toy = toy_default();
    toy.n_layers = 2, toy.dim = 32, toy.n_heads = 1, toy.n_kv_heads = 1, toy.head_dim = 1;
    toy.hidden = 16, toy.vocab = 40, toy.max_seq = 700, toy.window[1] = 20, toy.rope_theta = 0;
    return toy;
}

static void feed_toy(size_t n, size_t first)
{
    tern_seq_keep(t.ctx, 0, 0);
    for (size_t i = 0; i < n; i++) {
        ck_assert(!tern_batch_add(t.ctx, 0, (tern_token)(first + i * i) % 40, 0, NULL));
        if (i % 50 == 49 || i + 1 == n)
            ck_assert(!tern_forward(t.ctx)), tern_prefix_keep(t.ctx, 0);
    }
}

START_TEST(every_byte_of_a_file_counts)
{
    struct toy small = toy();
    size_t n;
    int fd = open_file();
    small_toy(&small);
    t.ctx = texts_context(1 << 20, TERN_CACHE_F16);
    feed_toy(260, 3);
    feed_toy(8, 5);
    save(fd);
    unsigned char *p = contents(fd, &n);
    load(fd);
    ck_assert_uint_eq(t.ctx->prefixes.n_used, 3);
    for (size_t at = 0; at < n; at += golden_is_quick() ? 101 : 1) {
        unsigned char other = p[at] ^ (unsigned char)(1 + at % 255);
        if (at == LAYOUT_VERSION + 2 || at == LAYOUT_VERSION + 3)
            continue; /* any minor version is read: the checksum tells, below */
        ck_assert(pwrite(fd, &other, 1, (off_t)at) == 1);
        refuse(fd, TERN_BAD_FILE, "the file of prefixes");
        ck_assert(pwrite(fd, &p[at], 1, (off_t)at) == 1);
    }
    ck_assert(pwrite(fd, "\1", 1, LAYOUT_VERSION + 2) == 1);
    refuse(fd, TERN_BAD_FILE, "header is damaged");
    ck_assert(pwrite(fd, "\0", 1, LAYOUT_VERSION + 2) == 1);
    load(fd);
    ck_assert(pwrite(fd, "", 1, (off_t)n) == 1); /* a byte more */
    refuse(fd, TERN_BAD_FILE, "cut off");
    for (size_t length = n; length-- > 0;) {
        ck_assert(!ftruncate(fd, (off_t)length));
        refuse(fd, TERN_BAD_FILE, "");
        length -= length > 600 && length % 7 ? golden_is_quick() ? 95 : 5 : 0;
    }
    feed_toy(260, 3); /* and the store goes on */
    ck_assert_uint_eq(t.ctx->prefixes.n_used, 2);
    texts_check_store(t.ctx);
    free(p);
    close(fd);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

/* The checksums say that nothing was damaged, but the pages cannot be. */
static void repair(unsigned char *p, size_t n)
{
    uint64_t size = n, header = load_u64(p + LAYOUT_HEADER_BYTES), sum;
    memcpy(p + LAYOUT_FILE_BYTES, &size, 8);
    sum = layout_header_checksum(p, (size_t)header);
    memcpy(p + LAYOUT_CHECKSUM, &sum, 8);
    sum = xxh64(p + header, (size_t)(n - 8 - header)); /* of the one page */
    memcpy(p + n - 8, &sum, 8);
}

START_TEST(pages_that_cannot_be_are_refused)
{
    enum { FIRST = 104 + 2 * 16, TOKENS = FIRST + 5 * 8 };
    static const struct {
        size_t at;
        uint64_t value;
        const char *words;
    } cases[] = {
        {FIRST, 1, "cannot be where it is"},      /* no far frequencies here */
        {FIRST, 2, "cannot be where it is"},      /* behind itself */
        {FIRST, UINT64_MAX, "cannot be where it is"},
        {FIRST + 8, 0, "cannot be where it is"},  /* no tokens */
        {FIRST + 8, 257, "cannot be where it is"},
        {FIRST + 16, 1, "cannot be where it is"}, /* rows of a layer that guesses */
        {FIRST + 24, 2, "cannot be where it is"}, /* without a page where there is no window */
        {FIRST + 24, 7, "cannot be where it is"}, /* of a third class */
        {FIRST + 32, 1, "cannot be where it is"}, /* a state */
        {FIRST + 24, 1, "page is damaged"},       /* less than there is */
        {FIRST + 8, 9, "tokens or states"}, /* the next is a key */
        {FIRST + 8, 7, "page is damaged"},
        {72, 0, "more behind"},
        {TOKENS, 40, "tokens or states"},
        {TOKENS, UINT32_MAX, "tokens or states"},
        {72, 2, "ends within"},                   /* pages */
        {72, 1 << 20, "cut off"},
        {80, 3, "other windows"},
        {88, 4, "other windows"},
        {96, 1, "other windows"},
        {112, 1, "other windows"},
        {40, 0, "revision of the arithmetic"},
        {48, 0, "another model"},
        {56, 0, "config of the model"},
        {64, 1, "type of cache"},
    };
    struct toy small = toy();
    size_t n;
    int fd = open_file();
    small_toy(&small);
    t.ctx = texts_context(1 << 20, TERN_CACHE_F16);
    feed_toy(8, 5);
    save(fd);
    unsigned char *p = contents(fd, &n), *other = malloc(n);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        memcpy(other, p, n);
        memcpy(other + cases[k].at, &cases[k].value, cases[k].at < TOKENS ? 8 : 4);
        repair(other, n);
        ck_assert(pwrite(fd, other, n, 0) == (ssize_t)n);
        refuse(fd, TERN_BAD_FILE, cases[k].words);
    }
    ck_assert(pwrite(fd, p, n, 0) == (ssize_t)n);
    load(fd);
    tern_context_close(t.ctx);
    t.ctx = texts_context(1 << 20, TERN_CACHE_F32);
    refuse(fd, TERN_BAD_FILE, "type of cache");
    free(p);
    free(other);
    close(fd);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

START_TEST(a_disk_that_is_full_loses_nothing)
{
    struct toy small = toy();
    struct tern_error e = {0};
    size_t n;
    int fd = open_file(), ends[2];
    small_toy(&small);
    t.ctx = texts_context(1 << 20, TERN_CACHE_F16);
    feed_toy(300, 3);
    save(fd);
    unsigned char *p = contents(fd, &n);
    for (room = 0; room < (long)n; room += 997) {
        long before = room;
        ck_assert_int_eq(tern_prefix_save(t.ctx, fd, &e), TERN_IO);
        ck_assert_msg(strstr(e.text, "No space left") != NULL, "%s", e.text);
        room = before;
        texts_check_store(t.ctx);
    }
    room = -1;
    same_file(fd, p, n);
    ck_assert(!pipe(ends));
    ck_assert_int_eq(tern_prefix_save(t.ctx, ends[1], &e), TERN_IO);
    ck_assert_int_eq(tern_prefix_save(t.ctx, -1, &e), TERN_IO);
    refuse(ends[0], TERN_BAD_FILE, "pipe");
    refuse(-1, TERN_IO, "descriptor");
    tern_context_close(t.ctx);
    t.ctx = texts_context(0, TERN_CACHE_F16);
    ck_assert_int_eq(tern_prefix_save(t.ctx, fd, &e), TERN_USAGE);
    ck_assert_int_eq(tern_prefix_load(t.ctx, fd, &e), TERN_USAGE);
    free(p);
    close(ends[0]);
    close(ends[1]);
    close(fd);
    tern_context_close(t.ctx);
    texts_close();
}
END_TEST

SUITE("prefix file", LOOP(what_was_saved_is_found, 0, 3 * N_MODELS),
      LOOP(a_file_holds_nothing_of_other_texts, 0, 3 * 6),
      LOOP(a_smaller_store_takes_what_was_used_last, 0, golden_few(2)),
      TEST(every_byte_of_a_file_counts),
      TEST(pages_that_cannot_be_are_refused), TEST(a_disk_that_is_full_loses_nothing))
