/* Whole files, and standard input, into memory. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <stddef.h>

#include "tern.h"

/* Reads all of `path` ("-": standard input) into *text, which the caller frees; a NUL that is not
 * counted follows it. TERN_IO with the reason, TERN_NO_MEMORY; TERN_LIMIT: more than 256 MiB. */
enum tern_status files_take(const char *path, char **text, size_t *n, struct tern_error *e);
/* The same without a byte order mark */
enum tern_status files_take_unmarked(const char *path, char **text, size_t *n,
                                     struct tern_error *e);

/* The prompt of a command line into *prompt, which the caller frees; a NUL that is not counted
 * follows it. It is the file at `path` if that is given, else `text`, else what a pipe or file on
 * standard input holds, without the line feed that ends its last line; else it is empty. */
enum tern_status files_take_prompt(const char *text, const char *path, char **prompt, size_t *n,
                                   struct tern_error *e);

#endif
