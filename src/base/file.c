/* Files: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHUNK_MAX = 1 << 30, /* Linux moves at most 2 GiB - 4 KiB in a call */
    TEMPORARIES = 16     /* files that threads make at a time; more are not removed by a signal */
};

static char *_Atomic temporaries[TEMPORARIES];

static int open_again(const char *path, int flags, int mode)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

enum tern_status file_size(int fd, uint64_t *bytes, const char *path, struct tern_error *e)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_io(e, path, "cannot ask for its size");
    if (S_ISDIR(st.st_mode))
        return error_set(e, TERN_BAD_FILE, "%s: it is a folder, not a file", path);
    if (!S_ISREG(st.st_mode))
        return error_set(e, TERN_BAD_FILE, "%s: it is a pipe or a device, not a regular file", path);
    *bytes = (uint64_t)st.st_size;
    return TERN_OK;
}

enum tern_status file_open(int *fd, uint64_t *bytes, const char *path, struct tern_error *e)
{
    /* not blocking: a pipe must not make us wait for its writer */
    *fd = open_again(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd < 0)
        return error_io(e, path, "cannot open");
    enum tern_status s = file_size(*fd, bytes, path, e);
    if (s) {
        file_close(*fd);
        *fd = -1;
    }
    return s;
}

enum tern_status file_open_write(int *fd, int mode, const char *path, struct tern_error *e)
{
    *fd = open_again(path, mode ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, mode);
    return *fd < 0 ? error_io(e, path, mode ? "cannot create" : "cannot open for writing")
                   : TERN_OK;
}

void file_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void file_read_ahead(int fd, bool on)
{
#ifdef POSIX_FADV_RANDOM
    (void)posix_fadvise(fd, 0, 0, on ? POSIX_FADV_NORMAL : POSIX_FADV_RANDOM);
#else
    (void)fd, (void)on;
#endif
}

enum tern_status file_read_at(int fd, void *p, size_t n, uint64_t offset, const char *path,
                              struct tern_error *e)
{
    char *at = p;
    while (n) {
        ssize_t got = pread(fd, at, n < CHUNK_MAX ? n : CHUNK_MAX, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_io(e, path, "cannot read");
        if (got == 0)
            return error_set(e, TERN_IO, "%s: it became shorter while it was read", path);
        at += got, n -= (size_t)got, offset += (uint64_t)got;
    }
    return TERN_OK;
}

enum tern_status file_write_at(int fd, const void *p, size_t n, uint64_t offset, const char *path,
                               struct tern_error *e)
{
    const char *at = p;
    while (n) {
        ssize_t put = pwrite(fd, at, n < CHUNK_MAX ? n : CHUNK_MAX, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return error_io(e, path, "cannot write");
        at += put, n -= (size_t)put, offset += (uint64_t)put;
    }
    return TERN_OK;
}

enum tern_status file_take_temporary(char **name, const char *path, struct tern_error *e)
{
    size_t n = strlen(path) + 32;
    *name = malloc(n);
    if (!*name)
        return error_memory(e, "a file name", n);
    snprintf(*name, n, "%s.%ld.tmp", path, (long)getpid());
    for (size_t i = 0; i < TEMPORARIES; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&temporaries[i], &none, *name))
            break;
    }
    return TERN_OK;
}

/* Its ending out of a message leaves the name that the user gave. */
static void hide_ending(struct tern_error *e)
{
    char ending[32];
    size_t n = (size_t)snprintf(ending, sizeof ending, ".%ld.tmp", (long)getpid());
    char *at = strstr(e->text, ending);
    if (at)
        memmove(at, at + n, strlen(at + n) + 1);
}

void file_give_temporary(char *name, struct tern_error *e)
{
    if (name && e)
        hide_ending(e);
    for (size_t i = 0; name && i < TEMPORARIES; i++) {
        char *own = name;
        if (atomic_compare_exchange_strong(&temporaries[i], &own, NULL))
            break;
    }
    free(name);
}

void file_remove_temporaries(void)
{
    for (size_t i = 0; i < TEMPORARIES; i++) {
        const char *name = atomic_load(&temporaries[i]);
        if (name)
            unlink(name);
    }
}

static enum tern_status sync_path(const char *path, int flags, struct tern_error *e)
{
    int fd = open_again(path, flags, 0);
    if (fd < 0)
        return error_io(e, path, "cannot open to sync");
    int failed;
    do
        failed = fsync(fd);
    while (failed && errno == EINTR);
    enum tern_status s = TERN_OK;
    if (failed && errno != EINVAL) /* file systems that cannot sync a folder say EINVAL */
        s = error_io(e, path, "cannot sync");
    close(fd);
    return s;
}

enum tern_status file_check_target(const char *path, const char *source, struct tern_error *e)
{
    struct stat there, in;
    if (!*path)
        return error_set(e, TERN_USAGE, "the new file needs a name");
    if (!strcmp(path, "-")) /* elsewhere it means standard output, which cannot be replaced */
        return error_set(e, TERN_USAGE, "the new file cannot be called -: give another name");
    if (lstat(path, &there))
        return errno == ENOENT ? TERN_OK : error_io(e, path, "cannot look at it");
    if (!S_ISREG(there.st_mode))
        return error_set(e, TERN_USAGE,
                         "%s is there and no regular file (a folder, link, pipe or device): give "
                         "another name",
                         path);
    if (!stat(source, &in) && in.st_dev == there.st_dev && in.st_ino == there.st_ino)
        return error_set(e, TERN_USAGE, "%s is the file that is read: give another name", path);
    return TERN_OK;
}

enum tern_status file_replace(const char *temporary, const char *path, struct tern_error *e)
{
    enum tern_status s = sync_path(temporary, O_RDWR, e);
    if (s)
        return s;
    if (rename(temporary, path))
        return error_io(e, path, "cannot rename the finished file to this name");
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) + 1 : 2; /* with the slash, which the root needs */
    char *folder = malloc(n + 1);
    if (!folder)
        return TERN_OK; /* the file is whole and in place; only its name may still be unsynced */
    memcpy(folder, slash ? path : "./", n);
    folder[n] = 0;
    sync_path(folder, O_RDONLY | O_DIRECTORY, NULL); /* some folders may not be opened: no error */
    free(folder);
    return TERN_OK;
}

void file_remove(const char *path)
{
    if (path)
        unlink(path);
}
