/* The log: see access_log.h. */
#include "app/serve/http/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096 }; /* a pipe that can take anything can take this (PIPE_BUF) */

enum tern_status access_log_open(struct access_log *l, const char *path, bool quiet,
                                 struct tern_error *e)
{
    *l = (struct access_log){.fd = STDERR_FILENO, .quiet = quiet && !path};
    if (!path)
        return TERN_OK;
    l->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    l->owned = true;
    if (l->fd >= 0)
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "--log-file: %.300s: %s", path, strerror(errno));
    return e->code = TERN_IO;
}

void access_log_close(struct access_log *l)
{
    if (l->owned && l->fd >= 0)
        close(l->fd);
    *l = (struct access_log){.fd = -1, .quiet = true};
}

/* text as printable ASCII to line [room >= 4]; returns its length */
static size_t escape(char *line, size_t room, const char *text)
{
    size_t n = 0;
    for (; *text && n + 5 < room; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= ' ' && byte < 127 && byte != '\\')
            line[n++] = (char)byte;
        else
            n += (size_t)snprintf(line + n, room - n, "\\x%02x", byte);
    }
    return n;
}

void access_log_line(struct access_log *l, const char *format, ...)
{
    char text[LINE], line[LINE];
    struct pollfd p = {.fd = l->fd, .events = POLLOUT};
    struct tm tm;
    time_t now = time(NULL);
    va_list ap;
    if (l->quiet)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    gmtime_r(&now, &tm);
    size_t n = strftime(line, 32, "%Y-%m-%dT%H:%M:%SZ ", &tm);
    n += escape(line + n, sizeof line - n - 1, text);
    line[n++] = '\n';
    if (poll(&p, 1, 0) != 1 || write(l->fd, line, n) != (ssize_t)n)
        l->lost++;
}
