/* Fails calls of the system: see io_faults.h. */
#include "io_faults.h"

#include "allocs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/types.h>

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __real_read(int fd, void *p, size_t n);
ssize_t __wrap_read(int fd, void *p, size_t n);
ssize_t __real_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at);
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);

static bool active;
static enum io_mode mode;
static size_t count, fail_at;
static int open_before;
static const char *failed;

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 128; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The next call, `name`, fails with the error; or is interrupted, if it may be. */
static bool fails(const char *name, int error, bool may_stop)
{
    if (!active)
        return false;
    count++;
    errno = error;
    if (mode == IO_AGAIN && may_stop && count % 2) {
        errno = EINTR;
        return true;
    }
    if (mode > IO_REST || !fail_at || (count != fail_at && !(mode == IO_REST && count > fail_at)))
        return false;
    if (!*failed)
        failed = name;
    return true;
}

static size_t part(size_t n)
{
    return !active || mode != IO_SHORT || n < 2 ? n : n < 64 ? 1 : n / 2;
}

static bool map_fails(void)
{
    return fails("mmap", ENOMEM, false);
}

void io_start(enum io_mode m, size_t at)
{
    active = true, mode = m, fail_at = at;
    count = 0, open_before = count_open(), failed = "";
    allocs_file_map_fails = map_fails;
}

void io_stop(void)
{
    active = false;
}

size_t io_count(void)
{
    return count;
}

int io_open_files(void)
{
    return count_open() - open_before;
}

const char *io_failed(void)
{
    return failed;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int permissions = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return fails("open", EMFILE, true) ? -1 : __real_open(path, flags, permissions);
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const int permissions = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return __wrap_open(path, flags, permissions);
}

int __wrap_close(int fd)
{
    const bool fail = fails("close", EIO, false);
    const int done = __real_close(fd);
    if (!fail)
        return done;
    errno = EIO; /* the file is closed all the same */
    return -1;
}

ssize_t __wrap_read(int fd, void *p, size_t n)
{
    return fails("read", EIO, true) ? -1 : __real_read(fd, p, part(n));
}

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t at)
{
    return fails("pread", EIO, true) ? -1 : __real_pread(fd, p, part(n), at);
}

/* The names that _FILE_OFFSET_BITS gives. */
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at)
{
    return __wrap_pread(fd, p, n, at);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    return fails("write", ENOSPC, true) ? -1 : __real_write(fd, p, part(n));
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    return fails("pwrite", ENOSPC, true) ? -1 : __real_pwrite(fd, p, part(n), at);
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return __wrap_pwrite(fd, p, n, at);
}

/* A disk may take seconds: nothing here is lost with the machine. */
int __wrap_fsync(int fd)
{
    (void)fd;
    return fails("fsync", EIO, true) ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
    return fails("rename", EIO, false) ? -1 : __real_rename(from, to);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    return fails("pthread_create", EAGAIN, false) ? EAGAIN : __real_pthread_create(t, a, run, arg);
}
