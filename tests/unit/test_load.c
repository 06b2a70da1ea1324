/* ldflags: -Wl,--wrap=pread,--wrap=pread64,--wrap=fstat,--wrap=fstat64,--wrap=memory_available,--wrap=memory_replace,--wrap=memory_expect,--wrap=memory_lock */
/* Where the weights live changes no bit; a file that changes under a copy is refused. */
#include "weights/load.h"
#include "tern.h"
#include "toy.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[256];

static uint64_t fingerprint(unsigned load, int n_threads)
{
    struct tern_error e = {0};
    struct tern_model_params mp = {.n_threads = n_threads, .load = load};
    struct tern_context_params cp = {.n_ctx = 16, .fingerprint = 1};
    tern_model *m = NULL;
    tern_context *c = NULL;
    ck_assert_msg(!tern_model_open(&m, path, &mp, &e), "%s", e.text);
    ck_assert_msg(!tern_model_check(m, &e), "%s", e.text);
    ck_assert_msg(!tern_context_open(&c, m, &cp, &e), "%s", e.text);
    for (tern_token t = 1; t < 12; t++) {
        ck_assert(!tern_batch_add(c, 0, t, TERN_ROW_LOGITS, &e));
        ck_assert(!tern_forward(c));
    }
    uint64_t value = tern_fingerprint(c, NULL);
    tern_context_close(c);
    tern_model_close(m);
    return value;
}

static struct toy shape(void)
{
    struct toy t = toy_default();
    t.dim = 96, t.hidden = 200, t.vocab = 999, t.untied = 1; /* tensors of many pages and of part */
    return t;
}

START_TEST(test_modes_give_the_same_bits)
{
    struct toy t = shape();
    struct tern_error e = {0};
    toy_path(path, sizeof path, "load.bin");
    ck_assert_msg(!toy_write(path, &t, &e), "%s", e.text);
    uint64_t want = fingerprint(0, 1);
    for (int n = 1; n <= 4; n++) {
        ck_assert(fingerprint(0, n) == want);
        ck_assert(fingerprint(TERN_LOAD_COPY, n) == want);
    }
    ck_assert(fingerprint(TERN_LOAD_LOCK, 2) == want);
    ck_assert(fingerprint(TERN_LOAD_LOCK | TERN_LOAD_COPY, 3) == want);
    unlink(path);
}
END_TEST

/* What happens to the file between opening it and copying it. */
static void grow(const char *name)
{
    int fd = open(name, O_WRONLY | O_APPEND);
    ck_assert(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
}

static void cut(const char *name)
{
    ck_assert(!truncate(name, 4096));
}

static void replace(const char *name)
{
    struct toy t = shape();
    ck_assert(!unlink(name) && !toy_write(name, &t, NULL));
}

/* The times stay as they were. */
static void in_no_time(const char *name, void (*happens)(const char *name))
{
    struct stat was;
    ck_assert(!stat(name, &was));
    happens(name);
    const struct timespec times[2] = {was.st_atim, was.st_mtim};
    ck_assert(!utimensat(AT_FDCWD, name, times, 0));
}

static void grow_in_no_time(const char *name)
{
    in_no_time(name, grow);
}

static void replace_in_no_time(const char *name)
{
    in_no_time(name, replace);
}

static void a_nanosecond_later(const char *name)
{
    struct stat was;
    ck_assert(!stat(name, &was));
    const struct timespec at = {was.st_mtim.tv_sec, (was.st_mtim.tv_nsec + 1) % 1000000000};
    ck_assert(!utimensat(AT_FDCWD, name, (const struct timespec[2]){at, at}, 0));
}

static void a_second_later(const char *name)
{
    struct stat was;
    ck_assert(!stat(name, &was));
    const struct timespec at = {was.st_mtim.tv_sec + 1, was.st_mtim.tv_nsec};
    ck_assert(!utimensat(AT_FDCWD, name, (const struct timespec[2]){at, at}, 0));
}

/* What happens to the file while it is copied: `change` is called at the first read. */
typedef void (*change_fn)(const char *name);
static _Atomic(change_fn) change;

ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at);

/* Of all reads: bytes, and of the largest; the next one's error. */
static atomic_size_t n_read, largest;
static atomic_int read_error;

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
    change_fn now = atomic_exchange(&change, NULL);
    int error = atomic_exchange(&read_error, 0);
    if (now)
        now(path);
    if (error) {
        errno = error;
        return -1;
    }
    n_read += n;
    for (size_t old = largest; n > old;)
        if (atomic_compare_exchange_weak(&largest, &old, n))
            break;
    return __real_pread(fd, p, n, at);
}

/* The name that _FILE_OFFSET_BITS gives to pread. */
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at)
{
    return __wrap_pread(fd, p, n, at);
}

/* The same bytes at another time. */
static void touch(const char *name)
{
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    ck_assert(!utimensat(AT_FDCWD, name, times, 0));
}

START_TEST(test_a_file_that_changes_while_it_is_copied_is_refused)
{
    void (*const changes[])(const char *name) = {grow, touch, NULL};
    struct toy t = shape();
    struct tern_error e = {0};
    struct pool *pool;
    struct weights *w;
    toy_path(path, sizeof path, "copied.bin");
    ck_assert(!pool_open(&pool, 1, &e));
    for (size_t i = 0; changes[i]; i++) {
        ck_assert_msg(!toy_write(path, &t, &e) && !weights_open(&w, path, &e), "%s", e.text);
        change = changes[i];
        ck_assert_int_eq(load_copy(w, pool, &e), TERN_IO);
        ck_assert_ptr_null(change);
        ck_assert_msg(strstr(e.text, "it was changed while it was opened") != NULL, "%s", e.text);
        weights_close(w);
        ck_assert(!unlink(path));
    }
    pool_close(pool);
}
END_TEST

START_TEST(test_a_changed_file_is_refused)
{
    void (*const changes[])(const char *name) = {
        grow,           cut, replace, grow_in_no_time, replace_in_no_time, a_nanosecond_later,
        a_second_later, NULL};
    struct toy t = shape();
    struct tern_error e = {0};
    struct pool *pool;
    toy_path(path, sizeof path, "changed.bin");
    ck_assert(!pool_open(&pool, 2, &e));
    for (size_t i = 0; changes[i]; i++) {
        struct weights *w;
        ck_assert_msg(!toy_write(path, &t, &e) && !weights_open(&w, path, &e), "%s", e.text);
        changes[i](path);
        ck_assert_int_eq(load_copy(w, pool, &e), TERN_IO);
        ck_assert_msg(strstr(e.text, "it was changed while it was opened") != NULL, "%s", e.text);
        weights_close(w);
    }
    struct weights *w;
    ck_assert(!toy_write(path, &t, &e) && !weights_open(&w, path, &e) && !unlink(path));
    ck_assert_int_eq(load_copy(w, pool, &e), TERN_IO);
    ck_assert_msg(strstr(e.text, "cannot open") != NULL, "%s", e.text);
    weights_close(w);
    pool_close(pool);
}
END_TEST

/* ---- a system that has not enough ---- */

static uint64_t available, lock_limit;
static bool refuses;
static const void *asked_at; /* of the last call */
static size_t asked_bytes;

uint64_t __real_memory_available(void);
uint64_t __wrap_memory_available(void);
bool __real_memory_replace(void *p, size_t n);
bool __wrap_memory_replace(void *p, size_t n);
void __wrap_memory_expect(const void *p, size_t n);
bool __wrap_memory_lock(const void *p, size_t n, uint64_t *limit);

uint64_t __wrap_memory_available(void)
{
    return available ? available : __real_memory_available();
}

bool __wrap_memory_replace(void *p, size_t n)
{
    asked_at = p, asked_bytes = n;
    return !refuses && __real_memory_replace(p, n);
}

void __wrap_memory_expect(const void *p, size_t n)
{
    asked_at = p, asked_bytes = n;
}

bool __wrap_memory_lock(const void *p, size_t n, uint64_t *limit)
{
    asked_at = p, asked_bytes = n;
    *limit = lock_limit;
    errno = EPERM;
    return !refuses;
}

/* The call of fstat that fails, from 1; 0: none. */
static int stat_fails_at;

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);

int __wrap_fstat(int fd, struct stat *st)
{
    if (!stat_fails_at || --stat_fails_at)
        return __real_fstat(fd, st);
    errno = EIO;
    return -1;
}

int __wrap_fstat64(int fd, struct stat *st)
{
    return __wrap_fstat(fd, st);
}

static struct weights *open_weights(const char *name)
{
    struct toy t = shape();
    struct tern_error e = {0};
    struct weights *w;
    t.hidden = 3000; /* more than 2 MiB */
    toy_path(path, sizeof path, name);
    ck_assert_msg(!toy_write(path, &t, &e) && !weights_open(&w, path, &e), "%s", e.text);
    n_read = largest = 0;
    asked_at = NULL, asked_bytes = 0;
    return w;
}

static void expect(enum tern_status got, enum tern_status want, const struct tern_error *e,
                   const char *text)
{
    ck_assert_msg(got == want && e->code == want, "status %d: %s", got, e->text);
    ck_assert_msg(strstr(e->text, path) == e->text && strstr(e->text, text), "%s", e->text);
}

static void whole_file_was_asked(const struct weights *w)
{
    const void *start;
    size_t bytes;
    weights_mapping(w, &start, &bytes);
    ck_assert(asked_at == start && asked_bytes == bytes && bytes == weights_file_bytes(w));
}

/* Each thread reads its part of every tensor, and no byte is read twice. */
START_TEST(test_a_copy_is_shared_out)
{
    struct tern_error e = {0};
    struct pool *pool;
    uint64_t tensor = 0;
    struct weights *w = open_weights("shared.bin");
    int before = dup(0);
    ck_assert(!pool_open(&pool, 4, &e) && !load_copy(w, pool, &e));
    for (size_t i = 0; i < weights_count(w); i++)
        if (weights_at(w, i)->bytes > tensor)
            tensor = weights_at(w, i)->bytes;
    whole_file_was_asked(w);
    ck_assert_uint_eq(n_read, weights_file_bytes(w));
    ck_assert_uint_le(largest, tensor / 4 + 4096);
    int after = dup(0);
    ck_assert_int_eq(after, before + 1); /* nothing stays open */
    close(before);
    close(after);
    pool_close(pool);
    weights_close(w);
    unlink(path);
}
END_TEST

START_TEST(test_a_copy_that_cannot_be_made_says_why)
{
    struct tern_error e = {0};
    struct pool *pool;
    struct weights *w = open_weights("refused.bin");
    char words[100];
    ck_assert(!pool_open(&pool, 2, &e));
    uint64_t bytes = weights_file_bytes(w);
    available = bytes - 1;
    snprintf(words, sizeof words, "takes %d MiB of memory and %d MiB are available",
             (int)(bytes >> 20), (int)(available >> 20));
    expect(load_copy(w, pool, &e), TERN_NO_MEMORY, &e, words);
    ck_assert_ptr_null(asked_at);
    available = bytes;
    refuses = true;
    snprintf(words, sizeof words, "not enough memory for a copy of %d MiB", (int)(bytes >> 20));
    expect(load_copy(w, pool, &e), TERN_NO_MEMORY, &e, words);
    ck_assert_uint_eq(n_read, 0);
    refuses = false;
    read_error = EIO;
    expect(load_copy(w, pool, &e), TERN_IO, &e, "cannot read: ");
    for (int at = 2; at <= 3; at++) { /* before the copy, and after it */
        stat_fails_at = at;
        expect(load_copy(w, pool, &e), TERN_IO, &e, "cannot ask for its times");
    }
    struct weights *none;
    stat_fails_at = 2;
    expect(weights_open(&none, path, &e), TERN_IO, &e, "cannot ask for its times");
    ck_assert_ptr_null(none);
    available = 0;
    ck_assert_msg(!load_copy(w, pool, &e), "%s", e.text);
    pool_close(pool);
    weights_close(w);
    unlink(path);
}
END_TEST

START_TEST(test_the_whole_file_is_expected_or_locked)
{
    struct tern_error e = {0};
    struct weights *w = open_weights("locked.bin");
    struct pool *pool;
    char words[100];
    ck_assert(!pool_open(&pool, 1, &e));
    load_ahead(w);
    whole_file_was_asked(w);
    asked_at = NULL;
    ck_assert(!load_lock(w, pool, &e));
    whole_file_was_asked(w);
    refuses = true;
    lock_limit = weights_file_bytes(w) - 1;
    snprintf(words, sizeof words, "cannot lock its %d MiB in memory, because this user may lock %d",
             (int)(weights_file_bytes(w) >> 20), (int)(lock_limit >> 20));
    expect(load_lock(w, pool, &e), TERN_NO_MEMORY, &e, words);
    lock_limit++;
    expect(load_lock(w, pool, &e), TERN_IO, &e, "cannot lock it in memory: Operation not permitted");
    refuses = false;
    pool_close(pool);
    weights_close(w);
    unlink(path);
}
END_TEST

static int stop_at_zero(void *left)
{
    return --*(int *)left < 0;
}

START_TEST(test_who_asks_to_stop_is_heard)
{
    static const unsigned loads[] = {TERN_LOAD_COPY, TERN_LOAD_LOCK};
    struct toy t = shape();
    struct tern_error e = {0};
    int left = 0;
    struct tern_model_params p = {.n_threads = 2, .stop = stop_at_zero, .arg = &left};
    tern_model *m;
    toy_path(path, sizeof path, "stopped.bin");
    ck_assert_msg(!toy_write(path, &t, &e), "%s", e.text);
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        p.load = loads[i];
        for (int n = 0; n < 2 - (int)i; n++) { /* locking so small a file is one part */
            left = n;
            p.n_threads = 2 - n; /* of two, the other one may read all before the second question */
            expect(tern_model_open(&m, path, &p, &e), TERN_CANCELLED, &e, "loading was stopped");
            ck_assert_ptr_null(m);
        }
    }
    left = 1000;
    ck_assert_msg(!tern_model_open(&m, path, &p, &e), "%s", e.text);
    left = 0;
    expect(tern_model_check(m, &e), TERN_CANCELLED, &e, "the check was stopped");
    left = 1000;
    ck_assert_msg(!tern_model_check(m, &e), "%s", e.text);
    ck_assert_int_lt(left, 1000);
    tern_model_close(m);
    unlink(path);
}
END_TEST

SUITE("load", TEST(test_modes_give_the_same_bits), TEST(test_a_changed_file_is_refused),
      TEST(test_a_file_that_changes_while_it_is_copied_is_refused), TEST(test_a_copy_is_shared_out),
      TEST(test_a_copy_that_cannot_be_made_says_why),
      TEST(test_the_whole_file_is_expected_or_locked), TEST(test_who_asks_to_stop_is_heard))
