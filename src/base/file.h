/* Files: whole reads and writes, and replacing a file in one step. Interrupted and short calls are
 * continued; every failure is TERN_IO with the path and the system's reason. In the library, only
 * file.c calls pread, pwrite, fsync and rename; beside it, only procfs.c opens files. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens an existing regular file for reading. A folder, pipe or device is TERN_BAD_FILE. */
enum tern_status file_open(int *fd, uint64_t *bytes, const char *path, struct tern_error *e);

/* Opens for reading and writing: an existing file (mode 0), or a new one of this mode, or an
 * emptied one. */
enum tern_status file_open_write(int *fd, int mode, const char *path, struct tern_error *e);

/* The size of an open regular file. Anything else is TERN_BAD_FILE. */
enum tern_status file_size(int fd, uint64_t *bytes, const char *path, struct tern_error *e);

void file_close(int fd); /* -1 is fine */

/* Whether the system should read ahead of what is read next, as it does at first. */
void file_read_ahead(int fd, bool on);

/* Reads or writes n bytes at an offset; the end of the file before them is TERN_IO. */
enum tern_status file_read_at(int fd, void *p, size_t n, uint64_t offset, const char *path,
                              struct tern_error *e);
enum tern_status file_write_at(int fd, const void *p, size_t n, uint64_t offset, const char *path,
                               struct tern_error *e);

/* Name for a temporary file beside `path`, to be given back when the file is replaced or removed.
 * TERN_NO_MEMORY. */
enum tern_status file_take_temporary(char **name, const char *path, struct tern_error *e);

/* Gives the name back (NULL is fine). If the message of e (may be NULL) holds it, it names `path`
 * from then on. */
void file_give_temporary(char *name, struct tern_error *e);

/* TERN_USAGE unless file_replace may put a file there: `path` is new, or a regular file (not a
 * link) other than `source`. Ask before the work. */
enum tern_status file_check_target(const char *path, const char *source, struct tern_error *e);

/* Makes the finished file `temporary` the file `path`: sync, rename, sync of the folder. After a
 * crash `path` is the old file or the new one, whole. */
enum tern_status file_replace(const char *temporary, const char *path, struct tern_error *e);

/* Removes the temporary files that this process is making: for a signal handler that ends it. */
void file_remove_temporaries(void);

void file_remove(const char *path); /* NULL is fine; nothing is reported */

#endif
