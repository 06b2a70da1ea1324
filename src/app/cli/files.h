/* Whole files, and standard input, into memory. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <stddef.h>

#include "tern.h"

/* Reads all of `path` ("-": standard input) into *text, which the caller frees; a NUL that is not
 * counted follows it. TERN_IO with the reason, TERN_NO_MEMORY; TERN_LIMIT: more than 256 MiB. */
enum tern_status files_take(const char *path, char **text, size_t *n, struct tern_error *e);

#endif
