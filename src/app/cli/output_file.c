/* Files that are written whole: see output_file.h. */
#include "app/cli/output_file.h"

#include "app/cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum tern_status fail(struct tern_error *e, const char *path, const char *what)
{
    snprintf(e->text, sizeof e->text, "%.300s: %s: %s", path, what, strerror(errno));
    return e->code = TERN_IO;
}

/* What stands there may be replaced: nothing, or a regular file. */
static enum tern_status check_target(const char *path, struct tern_error *e)
{
    struct stat there;
    if (!*path || strlen(path) + 16 > sizeof((struct output_file *)0)->path) {
        snprintf(e->text, sizeof e->text, "-o: the name of the file is %s",
                 *path ? "too long" : "empty");
        return e->code = TERN_USAGE;
    }
    if (lstat(path, &there) || S_ISREG(there.st_mode))
        return TERN_OK;
    snprintf(e->text, sizeof e->text,
             "%.300s is %s, and only a file can be replaced: choose another name", path,
             S_ISDIR(there.st_mode) ? "a folder" : "not a regular file");
    return e->code = TERN_USAGE;
}

enum tern_status output_file_open(struct output_file *o, const char *path, struct tern_error *e)
{
    *o = (struct output_file){.stream = stdout};
    if (!strcmp(path, "-"))
        return TERN_OK;
    enum tern_status s = check_target(path, e);
    o->stream = NULL;
    if (s)
        return s;
    snprintf(o->path, sizeof o->path, "%s", path);
    snprintf(o->temporary, sizeof o->temporary, "%.4080s.%ld~", path, (long)getpid());
    int fd = open(o->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(e, path, "cannot create it");
    signals_temporary(o->temporary);
    o->stream = fdopen(fd, "w");
    if (o->stream)
        return TERN_OK;
    s = fail(e, path, "cannot write it");
    close(fd);
    return output_file_close(o, s, e);
}

enum tern_status output_file_reopen(struct output_file *o, const char *path, struct tern_error *e)
{
    struct stat there;
    *o = (struct output_file){.stays = true};
    enum tern_status s = check_target(path, e);
    if (s)
        return s;
    snprintf(o->path, sizeof o->path, "%s", path);
    snprintf(o->temporary, sizeof o->temporary, "%.4080s.part", path);
    int fd = open(o->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0 || fstat(fd, &there) || !S_ISREG(there.st_mode) || !(o->stream = fdopen(fd, "r+"))) {
        s = fail(e, o->temporary, "cannot open it for writing");
        if (fd >= 0)
            close(fd);
    }
    return s;
}

enum tern_status output_file_close(struct output_file *o, enum tern_status s, struct tern_error *e)
{
    bool is_file = *o->temporary;
    bool whole = !o->stream || (!fflush(o->stream) && !ferror(o->stream));
    if (is_file && o->stream && fclose(o->stream))
        whole = false;
    o->stream = NULL;
    if (!s && !whole)
        s = fail(e, is_file ? o->path : "standard output", "cannot write it");
    if (is_file && !s && rename(o->temporary, o->path))
        s = fail(e, o->path, "cannot give the file its name");
    if (is_file && s && !o->stays)
        unlink(o->temporary);
    signals_temporary(NULL);
    return s;
}
