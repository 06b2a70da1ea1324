/* Files: see files.h. */
#include "app/cli/files.h"

#include "app/cli/parser.h"
#include "app/cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 256 << 20 }; /* bytes: a device may not end */

static enum tern_status fail(enum tern_status code, const char *path, const char *what,
                             struct tern_error *e)
{
    e->code = code;
    snprintf(e->text, sizeof e->text, "%.300s: %s%s%s", strcmp(path, "-") ? path : "standard input",
             what, code == TERN_IO ? ": " : "", code == TERN_IO ? strerror(errno) : "");
    return code;
}

/* Reads to the end; what is held then is in *text, also after a failure. */
static enum tern_status read_all(int fd, const char *path, char **text, size_t *n,
                                 struct tern_error *e)
{
    for (size_t room = 0;;) {
        if (*n + 1 >= room) {
            room = room ? room + room / 2 : 65536;
            char *more = realloc(*text, room);
            if (!more)
                return fail(TERN_NO_MEMORY, path, "does not fit into memory", e);
            *text = more;
        }
        ssize_t got = read(fd, *text + *n, room - *n - 1);
        if (got < 0 && errno != EINTR)
            return fail(TERN_IO, path, "cannot read", e);
        if (got == 0)
            break;
        *n += got > 0 ? (size_t)got : 0;
        if (*n > FILE_MOST)
            return fail(TERN_LIMIT, path, "it has more than 256 MiB", e);
    }
    (*text)[*n] = 0;
    return TERN_OK;
}

enum tern_status files_take(const char *path, char **text, size_t *n, struct tern_error *e)
{
    bool is_input = !strcmp(path, "-");
    int fd = STDIN_FILENO;
    if (!is_input)
        do
            fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd < 0 && errno == EINTR && !signals_caught()); /* a pipe may have no writer */
    *text = NULL;
    *n = 0;
    if (fd < 0)
        return fail(TERN_IO, path, "cannot open", e);
    enum tern_status s = read_all(fd, path, text, n, e);
    if (!is_input)
        close(fd);
    if (s) {
        free(*text);
        *text = NULL, *n = 0;
    }
    return s;
}

enum tern_status files_take_unmarked(const char *path, char **text, size_t *n, struct tern_error *e)
{
    enum tern_status s = files_take(path, text, n, e);
    if (!s && *n >= 3 && !memcmp(*text, "\xEF\xBB\xBF", 3))
        memmove(*text, *text + 3, (*n -= 3) + 1);
    return s;
}

/* Standard input is a pipe or a file. */
static bool input_is_prompt(void)
{
    struct stat input;
    return !fstat(STDIN_FILENO, &input) && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
}

enum tern_status files_take_prompt(const char *text, const char *path, char **prompt, size_t *n,
                                   struct tern_error *e)
{
    if (path)
        return files_take(path, prompt, n, e);
    if (!text && input_is_prompt()) {
        enum tern_status s = files_take("-", prompt, n, e);
        *n -= !s && *n && (*prompt)[*n - 1] == '\n';
        return s;
    }
    *prompt = strdup(text ? text : "");
    *n = *prompt ? strlen(*prompt) : 0;
    return *prompt ? TERN_OK : parser_no_memory_for(e, "the prompt");
}
