/* One way to say what went wrong: a status and one sentence for the person who can act on it. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "tern.h"

#if defined(__GNUC__)
#define ERROR_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define ERROR_PRINTF(a, b)
#endif

/* Fills e (unless NULL) and returns code, so that a caller can write
 * `return error_set(e, TERN_BAD_FILE, "...", ...)`. A sentence that does not fit is cut. */
enum tern_status error_set(struct tern_error *e, enum tern_status code, const char *format, ...)
    ERROR_PRINTF(3, 4);

/* error_set(TERN_IO) with the text of errno at its end: "PATH: cannot read: No such file". */
enum tern_status error_io(struct tern_error *e, const char *path, const char *what);

/* Puts the path, or the end of a long one, before e's message; returns code. */
enum tern_status error_in(struct tern_error *e, enum tern_status code, const char *path);

/* error_set(TERN_USAGE): a path is NULL. */
enum tern_status error_no_path(struct tern_error *e);

/* error_set(TERN_NO_MEMORY): "not enough memory for WHAT (N bytes)". */
enum tern_status error_memory(struct tern_error *e, const char *what, size_t n);

#endif
