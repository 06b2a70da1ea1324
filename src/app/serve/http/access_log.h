/* The log: one line a request, to standard error or the file of --log-file. A line is ASCII without
 * control characters whatever a client sends. */
#ifndef SERVE_ACCESS_LOG_H
#define SERVE_ACCESS_LOG_H

#include "tern.h"

#include <stdbool.h>
#include <stdint.h>

struct access_log {
    int fd;
    bool owned, quiet;
    uint64_t lost; /* lines that could not be written: a full disk, a reader that stopped */
};

enum tern_status access_log_open(struct access_log *l, const char *path, bool quiet,
                                 struct tern_error *e);
void access_log_close(struct access_log *l);

/* Time, the text with everything but printable ASCII as \xNN, line feed. Never waits; never fails. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void access_log_line(struct access_log *l, const char *format, ...);

#endif
