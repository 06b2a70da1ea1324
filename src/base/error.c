/* Errors: see error.h. Knows nothing but text. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum tern_status error_set(struct tern_error *e, enum tern_status code, const char *format, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, format);
        e->code = code;
        vsnprintf(e->text, sizeof e->text, format, ap);
        va_end(ap);
    }
    return code;
}

enum tern_status error_io(struct tern_error *e, const char *path, const char *what)
{
    return error_set(e, TERN_IO, "%s: %s: %s", path, what, strerror(errno));
}

enum tern_status error_in(struct tern_error *e, enum tern_status code, const char *path)
{
    enum { SHOWN = 160 };
    size_t n = strlen(path);
    if (!e)
        return code;
    struct tern_error inner = *e;
    return error_set(e, code, "%s%s: %s", n > SHOWN ? "..." : "",
                     n > SHOWN ? path + n - SHOWN : path, inner.text);
}

enum tern_status error_no_path(struct tern_error *e)
{
    return error_set(e, TERN_USAGE, "the path of a file is missing (NULL)");
}

enum tern_status error_memory(struct tern_error *e, const char *what, size_t n)
{
    return error_set(e, TERN_NO_MEMORY, "not enough memory for %s (%zu bytes)", what, n);
}
