/* Loaded before a program, fails its calls in turn: those that ask for memory if $FAULT_CALLS is
 * "memory", else those that open, read, write, sync, rename, close or map a file. $FAULT_AT is the
 * number of the call, from 1; with $FAULT_REST all after it fail, too. The file $FAULT_LOG gets
 * " NAME" for the first call that fails, and the number of calls at the end. */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static int active, of_memory, rest;
static long count, fail_at;
static const char *log_path;

static void note(const char *text)
{
    long fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!syscall(SYS_write, fd, text, strlen(text));
    syscall(SYS_close, fd);
}

__attribute__((constructor)) static void begin(void)
{
    log_path = getenv("FAULT_LOG");
    if (!log_path)
        return;
    of_memory = !strcmp(getenv("FAULT_CALLS"), "memory");
    rest = getenv("FAULT_REST") != NULL;
    fail_at = atol(getenv("FAULT_AT"));
    active = 1;
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    if (!active)
        return;
    active = 0;
    snprintf(text, sizeof text, " %ld", count);
    note(text);
}

static int fails(const char *name, int memory, int error)
{
    if (!active || memory != of_memory)
        return 0;
    long n = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (!fail_at || (n != fail_at && !(rest && n > fail_at)))
        return 0;
    if (n == fail_at) {
        note(" ");
        note(name);
    }
    errno = error;
    return 1;
}

void *malloc(size_t n)
{
    return fails("malloc", 1, ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails("calloc", 1, ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails("realloc", 1, ENOMEM) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fails("aligned_alloc", 1, ENOMEM) ? NULL : __libc_memalign(alignment, n);
}

static void *map(void *p, size_t n, int protection, int flags, int fd, off_t at)
{
    if (fails("mmap", fd < 0, ENOMEM))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, p, n, protection, flags, fd, at);
}

void *mmap(void *p, size_t n, int protection, int flags, int fd, off_t at)
{
    return map(p, n, protection, flags, fd, at);
}

void *mmap64(void *p, size_t n, int protection, int flags, int fd, off_t at)
{
    return map(p, n, protection, flags, fd, at);
}

#define OPEN(name)                                                                               \
    int name(const char *path, int flags, ...)                                                   \
    {                                                                                            \
        va_list ap;                                                                              \
        va_start(ap, flags);                                                                     \
        int mode = flags & O_CREAT ? va_arg(ap, int) : 0;                                        \
        va_end(ap);                                                                              \
        return fails("open", 0, EMFILE) ? -1                                                     \
                                        : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

ssize_t read(int fd, void *p, size_t n)
{
    return fails("read", 0, EIO) ? -1 : syscall(SYS_read, fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    return fails("pread", 0, EIO) ? -1 : syscall(SYS_pread64, fd, p, n, at);
}

ssize_t pread64(int fd, void *p, size_t n, off_t at)
{
    return fails("pread", 0, EIO) ? -1 : syscall(SYS_pread64, fd, p, n, at);
}

ssize_t write(int fd, const void *p, size_t n)
{
    return fails("write", 0, ENOSPC) ? -1 : syscall(SYS_write, fd, p, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    return fails("pwrite", 0, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return fails("pwrite", 0, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}

int fsync(int fd)
{
    (void)fd; /* a disk may take seconds */
    return fails("fsync", 0, EIO) ? -1 : 0;
}

int close(int fd)
{
    int done = (int)syscall(SYS_close, fd);
    return fails("close", 0, EIO) ? -1 : done;
}

int rename(const char *from, const char *to)
{
    return fails("rename", 0, EIO) ? -1
                                   : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int ftruncate(int fd, off_t n)
{
    return fails("ftruncate", 0, ENOSPC) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}
