/* ldflags: -Wl,--wrap=pread,--wrap=pread64 */
/* Where the weights live changes no bit; a file that changes under a copy is refused. */
#include "weights/load.h"
#include "tern.h"
#include "toy.h"
#include "suite.h"

#include <fcntl.h>
#include <stdatomic.h>
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

/* What happens to the file while it is copied: `change` is called at the first read. */
typedef void (*change_fn)(const char *name);
static _Atomic(change_fn) change;

ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at);

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
    change_fn now = atomic_exchange(&change, NULL);
    if (now)
        now(path);
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
    void (*const changes[])(const char *name) = {grow, cut, replace, NULL};
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

SUITE("load", TEST(test_modes_give_the_same_bits), TEST(test_a_changed_file_is_refused),
      TEST(test_a_file_that_changes_while_it_is_copied_is_refused))
