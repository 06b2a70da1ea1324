/* The weights files while the server uses them: see model_files.h. A read behind the end of a file that
 * was cut raises SIGBUS, but one in its last page does not, nor does a file that was written again; size
 * and time of the file tell of these. */
#include "app/serve/model/model_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/signals.h"

enum tern_status model_files_watch(struct scheduler *s, const char *path, struct tern_error *e)
{
    struct model_file *m = &s->files[s->n_files];
    m->path = path;
    m->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->fd >= 0 && !fstat(m->fd, &m->opened)) {
        s->n_files++;
        return TERN_OK;
    }
    snprintf(e->text, sizeof e->text, "%.300s: %s", path, strerror(errno));
    if (m->fd >= 0)
        close(m->fd);
    return e->code = TERN_IO;
}

void model_files_outlive(struct scheduler *s)
{
    if (s->n_files)
        signals_outlive_cut(s->ctx);
}

static bool has_changed(const struct model_file *m)
{
    struct stat now;
    return fstat(m->fd, &now) || now.st_size != m->opened.st_size ||
           now.st_mtim.tv_sec != m->opened.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != m->opened.st_mtim.tv_nsec;
}

bool model_files_changed(struct scheduler *s)
{
    const char *path = signals_was_cut() && s->n_files ? s->files[0].path : NULL;
    for (size_t i = 0; i < s->n_files; i++)
        if (has_changed(&s->files[i]))
            path = s->files[i].path;
    if (!path)
        return false;
    pthread_mutex_lock(&s->lock);
    if (!s->error.code) {
        snprintf(s->error.text, sizeof s->error.text, "%.300s: model file changed while running", path);
        s->error.code = TERN_IO;
    }
    s->draining = s->stopping = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return true;
}

void model_files_close(struct scheduler *s)
{
    signals_outlive_cut(NULL);
    while (s->n_files)
        close(s->files[--s->n_files].fd);
}
