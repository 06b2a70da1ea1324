/* A file that a program writes: it appears under its name when it is whole, or not at all. */
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tern.h"

struct output_file {
    FILE *stream;                     /* to be written; errors are found when it is closed */
    char path[4096], temporary[4096]; /* temporary "": standard output */
    bool stays;                       /* also unfinished */
};

/* Opens a temporary file beside `path`; "-" is standard output. A signal that ends the program
 * removes it. TERN_USAGE where path is a folder or a device, TERN_IO with the system's reason. */
enum tern_status output_file_open(struct output_file *o, const char *path, struct tern_error *e);

/* The same, but the unfinished file is PATH.part: it stays when the work ends early, and is opened
 * again, as it is, the next time. */
enum tern_status output_file_reopen(struct output_file *o, const char *path, struct tern_error *e);

/* s TERN_OK: the file gets its name, unless something could not be written. Otherwise it is
 * removed. Returns s, or why that failed. */
enum tern_status output_file_close(struct output_file *o, enum tern_status s, struct tern_error *e);

#endif
