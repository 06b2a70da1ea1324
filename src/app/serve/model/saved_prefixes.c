/* Kept beginnings in files: see saved_prefixes.h. */
#include "app/serve/model/saved_prefixes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/serve/serve_options.h"

static enum tern_status refuse(struct tern_error *e, const char *folder, const char *what)
{
    snprintf(e->text, sizeof e->text, "--cache-dir %.200s: %s: %s", folder, what, strerror(errno));
    return e->code = TERN_IO;
}

/* "prefixes-", the model's content id, and the number of the file */
enum { NAME_BYTES = 32 };

static void name_file(const struct scheduler *s, int i, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "prefixes-%016llx.%d",
             (unsigned long long)s->server->info.content_id, i);
}

/* What is wrong with file i, which does not stop the server, and what it does. */
static void report(const struct scheduler *s, int i, const char *what, const char *then)
{
    char name[NAME_BYTES];
    name_file(s, i, name);
    fprintf(stderr, "serve: --cache-dir %s/%s: %s: %s\n",
            s->server->options->value[SERVE_CACHE_DIR].text, name, what, then);
}

static enum tern_status open_one(struct scheduler *s, int dir, int i, const char *folder,
                                 struct tern_error *e)
{
    char name[NAME_BYTES];
    struct stat st;
    name_file(s, i, name);
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return refuse(e, folder, name);
    s->cache_fd[i] = fd;
    if (fstat(fd, &st) || fchmod(fd, 0600))
        return refuse(e, folder, name);
    if (!S_ISREG(st.st_mode)) {
        snprintf(e->text, sizeof e->text, "--cache-dir %.200s: %s is not a regular file", folder,
                 name);
        return e->code = TERN_IO;
    }
    if (flock(fd, LOCK_EX | LOCK_NB))
        return refuse(e, folder, "another server uses it");
    return TERN_OK;
}

/* When the file was written, s; below 0: it is empty. */
static double age_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) || !st.st_size)
        return -1;
    return (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
}

static void load(struct scheduler *s)
{
    struct tern_error e;
    double time[2] = {age_of(s->cache_fd[0]), age_of(s->cache_fd[1])};
    s->newest = time[1] > time[0];
    for (int i = 0; i < 2; i++, s->newest ^= 1) {
        if (time[s->newest] < 0)
            continue;
        (void)lseek(s->cache_fd[s->newest], 0, SEEK_SET);
        if (!tern_prefix_load(s->ctx, s->cache_fd[s->newest], &e))
            return;
        report(s, s->newest, e.text, "it is not used, and written again when the server ends");
    }
}

static enum tern_status open_folder(int *dir, const char *folder, struct tern_error *e)
{
    *dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *dir >= 0 ? TERN_OK
                     : refuse(e, folder, errno == ENOENT ? "the folder must exist" : "open");
}

enum tern_status saved_prefixes_check(const char *folder, struct tern_error *e)
{
    int dir;
    enum tern_status status = open_folder(&dir, folder, e);
    if (!status && faccessat(dir, ".", W_OK | X_OK, AT_EACCESS))
        status = refuse(e, folder, "files in it");
    if (dir >= 0)
        close(dir);
    return status;
}

enum tern_status saved_prefixes_open(struct scheduler *s, const char *folder, struct tern_error *e)
{
    int dir;
    enum tern_status status = open_folder(&dir, folder, e);
    if (status)
        return status;
    status = open_one(s, dir, 0, folder, e);
    if (!status)
        status = open_one(s, dir, 1, folder, e);
    close(dir);
    if (!status)
        load(s);
    return status;
}

void saved_prefixes_save(struct scheduler *s)
{
    struct tern_error e;
    int fd = s->cache_fd[!s->newest];
    if (fd < 0)
        return;
    errno = 0;
    if (!ftruncate(fd, 0) && lseek(fd, 0, SEEK_SET) == 0 && !tern_prefix_save(s->ctx, fd, &e) &&
        !fsync(fd)) {
        s->newest = !s->newest;
        return;
    }
    report(s, !s->newest, errno ? strerror(errno) : e.text,
           "the kept prompts were not saved; the file before this one stays");
    (void)!ftruncate(fd, 0);
}

void saved_prefixes_close(struct scheduler *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->cache_fd[i] >= 0)
            close(s->cache_fd[i]);
        s->cache_fd[i] = -1;
    }
}
