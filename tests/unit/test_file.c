/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=open,--wrap=open64 -Wl,--wrap=pread,--wrap=pread64,--wrap=pwrite,--wrap=pwrite64,--wrap=fsync,--wrap=rename,--wrap=fstat,--wrap=fstat64 */
/* Files: calls that fail, stop halfway or are interrupted; what may be replaced; what is synced. */
#include "allocs.h"
#include "base/file.h"
#include "base/memory.h"
#include "suite.h"
#include "toy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a system that misbehaves ---- */

static int open_error, stat_error, rename_error;
static int move_error;     /* of pread and pwrite; -1: the end of the file */
static size_t at_most;     /* bytes that a call moves; 0: all */
static bool pretend;       /* nothing is moved or renamed */
static size_t largest;     /* bytes asked for in a call */
static uint64_t expect_at; /* where the next call begins, when calls only pretend */
static ino_t synced[4];
static int sync_error[4]; /* of the call of this number */
static size_t n_synced;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at);
ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);

/* The error, once. */
static bool fails(int *error)
{
    int now = *error;
    *error = 0;
    errno = now ? now : errno;
    return now != 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    return fails(&open_error) ? -1 : __real_open(path, flags, mode);
}

/* The names that _FILE_OFFSET_BITS gives to these. */
int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    return __wrap_open(path, flags, mode);
}

static ssize_t move(size_t n, off_t at)
{
    if (move_error)
        return move_error < 0 ? (move_error = 0) : fails(&move_error) ? -1 : 0;
    largest = n > largest ? n : largest;
    if (!pretend)
        return 1;
    if ((uint64_t)at != expect_at)
        abort();
    expect_at += n;
    return (ssize_t)n;
}

static size_t part(size_t n)
{
    return at_most && at_most < n ? at_most : n;
}

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
    ssize_t moved = move(n, at);
    return moved <= 0 || pretend ? moved : __real_pread(fd, p, part(n), at);
}

ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at)
{
    return __wrap_pread(fd, p, n, at);
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    ssize_t moved = move(n, at);
    return moved <= 0 || pretend ? moved : __real_pwrite(fd, p, part(n), at);
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return __wrap_pwrite(fd, p, n, at);
}

int __wrap_fsync(int fd)
{
    struct stat st;
    if (n_synced == 4 || __real_fstat(fd, &st)) /* Check's macros take memory, which may fail */
        abort();
    synced[n_synced] = st.st_ino;
    return fails(&sync_error[n_synced++]) ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
    return fails(&rename_error) ? -1 : pretend ? 0 : __real_rename(from, to);
}

int __wrap_fstat(int fd, struct stat *st)
{
    return fails(&stat_error) ? -1 : __real_fstat(fd, st);
}

int __wrap_fstat64(int fd, struct stat *st)
{
    return __wrap_fstat(fd, st);
}

/* ---- */

static char folder[256], path[300], other[300];
static struct tern_error e;

static void setup(void)
{
    open_error = stat_error = rename_error = move_error = 0;
    at_most = largest = n_synced = 0;
    expect_at = 0, pretend = false;
    memset(sync_error, 0, sizeof sync_error);
    allocs_start(0, 0);
    toy_path(folder, sizeof folder, "files");
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(other, sizeof other, "%s/b", folder);
    ck_assert(!mkdir(folder, 0700));
    e = (struct tern_error){TERN_OK, ""};
}

static void teardown(void)
{
    unlink(path);
    unlink(other);
    rmdir(folder);
    ck_assert_uint_eq(allocs_live(), 0);
}

static void expect(enum tern_status got, enum tern_status status, const char *text)
{
    ck_assert_msg(got == status && e.code == status, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, text), "'%s' lacks '%s'", e.text, text);
}

static void make(const char *name, const char *bytes)
{
    FILE *f = fopen(name, "w");
    ck_assert(f && fputs(bytes, f) >= 0 && !fclose(f));
}

static ino_t number_of(const char *name)
{
    struct stat st;
    ck_assert_msg(!stat(name, &st), "%s", name);
    return st.st_ino;
}

static int lowest_free(void)
{
    int fd = dup(0);
    ck_assert(fd >= 0 && !close(fd));
    return fd;
}

START_TEST(only_regular_files_are_opened)
{
    int fd = 99, lowest = lowest_free();
    uint64_t bytes = 0;
    expect(file_open(&fd, &bytes, path, &e), TERN_IO, "cannot open: No such file");
    expect(file_open(&fd, &bytes, folder, &e), TERN_BAD_FILE, "it is a folder");
    ck_assert_int_eq(fd, -1);
    expect(file_open(&fd, &bytes, "/dev/null", &e), TERN_BAD_FILE, "it is a pipe or a device");
    ck_assert(!mkfifo(path, 0600));
    expect(file_open(&fd, &bytes, path, &e), TERN_BAD_FILE, "it is a pipe or a device");
    unlink(path);
    make(path, "abc");
    stat_error = EIO;
    expect(file_open(&fd, &bytes, path, &e), TERN_IO, "cannot ask for its size");
    ck_assert(fd == -1 && lowest_free() == lowest); /* nothing stays open */
    open_error = EINTR;
    ck_assert(!file_open(&fd, &bytes, path, &e) && fd == lowest && bytes == 3);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    file_close(fd);
    file_close(-1);
    ck_assert_int_eq(lowest_free(), lowest);
}
END_TEST

/* As in a program that was started without a standard input. */
START_TEST(descriptor_0_is_one_like_any_other)
{
    int fd, input = dup(0);
    uint64_t bytes;
    make(path, "abc");
    close(0);
    errno = EINTR; /* of some call before */
    ck_assert(!file_open(&fd, &bytes, path, &e) && fd == 0);
    file_close(fd);
    ck_assert(!file_open_write(&fd, 0, path, &e) && fd == 0);
    file_close(fd);
    make(other, "new");
    ck_assert_msg(!file_replace(path, other, &e), "%s", e.text);
    ck_assert_int_eq(dup(input), 0);
    close(input);
}
END_TEST

START_TEST(a_file_to_write_is_made_or_must_exist)
{
    int fd;
    struct stat st;
    expect(file_open_write(&fd, 0, path, &e), TERN_IO, "cannot open for writing: No such file");
    ck_assert(!file_open_write(&fd, 0640, path, &e) && !fstat(fd, &st));
    ck_assert_uint_eq(st.st_mode & 0777, 0640);
    ck_assert(!file_write_at(fd, "abc", 3, 0, path, &e));
    file_close(fd);
    ck_assert(!file_open_write(&fd, 0, path, &e) && !fstat(fd, &st) && st.st_size == 3);
    file_close(fd);
    ck_assert(!file_open_write(&fd, 0640, path, &e) && !fstat(fd, &st) && st.st_size == 0);
    file_close(fd);
    expect(file_open_write(&fd, 0640, folder, &e), TERN_IO, "cannot create: Is a directory");
}
END_TEST

START_TEST(interrupted_and_short_calls_go_on)
{
    int fd;
    char got[9] = "";
    ck_assert(!file_open_write(&fd, 0600, path, &e));
    at_most = 3, move_error = EINTR;
    ck_assert(!file_write_at(fd, "abcdefgh", 8, 2, path, &e));
    move_error = EINTR;
    ck_assert(!file_read_at(fd, got, 8, 2, path, &e));
    ck_assert_str_eq(got, "abcdefgh");
    at_most = 0;
    expect(file_read_at(fd, got, 8, 3, path, &e), TERN_IO, "it became shorter while it was read");
    ck_assert(!file_read_at(fd, got, 0, 99, path, &e) && !file_write_at(fd, got, 0, 99, path, &e));
    move_error = -1; /* a write of no bytes */
    ck_assert(!file_write_at(fd, "abcdefgh", 8, 2, path, &e));
    move_error = EIO;
    expect(file_read_at(fd, got, 8, 2, path, &e), TERN_IO, "cannot read: ");
    move_error = ENOSPC;
    expect(file_write_at(fd, got, 8, 2, path, &e), TERN_IO, "cannot write: No space left");
    file_close(fd);
}
END_TEST

/* Linux moves at most 2 GiB - 4 KiB in a call; half of that much is no harm. */
START_TEST(large_moves_are_cut)
{
    const size_t n = (size_t)5 << 30;
    void *range = memory_reserve(n);
    ck_assert_ptr_nonnull(range);
    pretend = true, expect_at = 7;
    ck_assert(!file_read_at(0, range, n, 7, path, &e));
    ck_assert_uint_eq(expect_at, 7 + n);
    ck_assert(!file_write_at(0, range, n, 7 + n, path, &e));
    ck_assert_uint_eq(expect_at, 7 + 2 * n);
    ck_assert_uint_le(largest, ((size_t)2 << 30) - 4096);
    ck_assert_uint_ge(largest, (size_t)1 << 30);
    pretend = false, largest = 0;
    memory_release(range, n);
}
END_TEST

/* ---- temporary files ---- */

START_TEST(a_signal_removes_temporary_files_only)
{
    enum { N = 17 };
    char *name[N], long_folder[600];
    make(path, "kept");
    for (int round = 0; round < 3; round++) {
        int n = snprintf(long_folder, sizeof long_folder, "%s/", folder);
        memset(long_folder + n, '/', 100 * (size_t)round); /* the same folder, other memory */
        for (size_t i = 0; i < N; i++) {
            snprintf(long_folder + n + 100 * round, 20, "%zu", i);
            ck_assert(!file_take_temporary(&name[i], long_folder, &e));
            ck_assert(strstr(name[i], long_folder) == name[i] && strcmp(name[i], long_folder));
            make(name[i], "x");
        }
        file_give_temporary(name[1], NULL); /* finished: no longer to be removed */
        file_remove_temporaries();
        for (size_t i = 0; i < N; i++) {
            snprintf(other, sizeof other, "%s/%zu.%ld.tmp", folder, i, (long)getpid());
            bool stays = i == 1 || i == 16; /* more than 16 are not remembered */
            ck_assert_msg((access(other, F_OK) == 0) == stays, "%s", other);
            unlink(other);
            if (i != 1)
                file_give_temporary(name[i], NULL);
        }
    }
    file_give_temporary(NULL, NULL);
    file_remove(NULL);
    file_remove_temporaries();
    ck_assert(!access(path, F_OK));
    file_remove(path);
    ck_assert(access(path, F_OK) && allocs_live() == 0);
    allocs_start(1, 0);
    enum tern_status s = file_take_temporary(&name[0], path, &e);
    allocs_stop();
    expect(s, TERN_NO_MEMORY, "a file name");
    ck_assert_ptr_null(name[0]);
}
END_TEST

/* ---- replacing ---- */

START_TEST(what_may_be_replaced)
{
    make(path, "source");
    ck_assert_int_eq(file_check_target(other, path, &e), TERN_OK);
    expect(file_check_target("", path, &e), TERN_USAGE, "the new file needs a name");
    expect(file_check_target(path, path, &e), TERN_USAGE, "is the file that is read");
    expect(file_check_target(folder, path, &e), TERN_USAGE, "is there and no regular file");
    ck_assert(!link(path, other));
    expect(file_check_target(other, path, &e), TERN_USAGE, "is the file that is read");
    unlink(other);
    ck_assert(!symlink(path, other));
    expect(file_check_target(other, path, &e), TERN_USAGE, "is there and no regular file");
    unlink(other);
    make(other, "another");
    ck_assert_int_eq(file_check_target(other, path, &e), TERN_OK);
    ck_assert_int_eq(file_check_target(other, "/nowhere", &e), TERN_OK);
    ck_assert_int_eq(file_check_target("/proc/self/status", path, &e), TERN_OK); /* another disk */
    snprintf(folder + strlen(folder), 4, "/a/");
    expect(file_check_target(folder, path, &e), TERN_IO, "cannot look at it: Not a directory");
    folder[strlen(folder) - 3] = 0;
}
END_TEST

static void replaced(const char *to, const char *in)
{
    memset(synced, 0, sizeof synced);
    n_synced = 0;
    make(other, "new");
    ino_t file = number_of(other);
    int lowest = lowest_free();
    ck_assert_msg(!file_replace(other, to, &e), "%s", e.text);
    ck_assert_uint_eq(n_synced, 2);
    ck_assert(synced[0] == file && synced[1] == number_of(in));
    ck_assert_int_eq(lowest_free(), lowest);
}

START_TEST(the_file_and_then_its_folder_are_synced)
{
    char here[512];
    make(path, "old");
    replaced(path, folder);
    ck_assert(access(other, F_OK));
    pretend = true;
    replaced("/x", "/");
    ck_assert(getcwd(here, sizeof here) && !chdir(folder));
    replaced("x", ".");
    ck_assert(!chdir(here));
    pretend = false;
}
END_TEST

START_TEST(what_cannot_be_replaced_stays)
{
    make(path, "old");
    make(other, "new");
    ino_t old = number_of(path);
    expect(file_replace("/nowhere/x", path, &e), TERN_IO, "cannot open to sync");
    sync_error[0] = EIO;
    expect(file_replace(other, path, &e), TERN_IO, "cannot sync");
    n_synced = 0, rename_error = EXDEV;
    expect(file_replace(other, path, &e), TERN_IO, "cannot rename the finished file");
    ck_assert(number_of(path) == old && !access(other, F_OK));
    n_synced = 0, sync_error[0] = EINTR, sync_error[1] = EINVAL; /* again; a disk that cannot */
    ck_assert(!file_replace(other, path, &e) && number_of(path) != old && n_synced == 3);
    make(other, "new");
    n_synced = 0;
    allocs_start(1, 0);
    enum tern_status s = file_replace(other, path, &e);
    allocs_stop();
    ck_assert(!s && n_synced == 1 && access(other, F_OK)); /* in place, if not yet for sure */
}
END_TEST

SUITE("file", AROUND_EACH(setup, teardown), TEST(only_regular_files_are_opened),
      TEST(descriptor_0_is_one_like_any_other), TEST(a_file_to_write_is_made_or_must_exist),
      TEST(interrupted_and_short_calls_go_on), TEST(large_moves_are_cut),
      TEST(a_signal_removes_temporary_files_only), TEST(what_may_be_replaced),
      TEST(the_file_and_then_its_folder_are_synced), TEST(what_cannot_be_replaced_stays))
