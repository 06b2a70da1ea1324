/* Shapes of well-known models, and weights files with random weights that exist only while they
 * are measured: in memory, or, where memory is short, in a temporary file without a name. */
#ifndef BENCH_BENCH_SHAPE_H
#define BENCH_BENCH_SHAPE_H

#include "tern_lab.h"

const char *bench_shape_names(void); /* "15m 42m ..." */

/* A name, or dim=N,hidden=N,... with every size and perhaps `window=N` and `tied`. Shapes are separated by commas;
 * *text is left behind the one that was read. max_seq is left 0. */
enum tern_status bench_shape_read(struct tern_shape *shape, const char **text,
                                  struct tern_error *e);

struct bench_file {
    int fd; /* -1: none */
    char path[64];
};

/* Makes the file; f->path names it until bench_file_close. */
enum tern_status bench_file_open(struct bench_file *f, const struct tern_shape *shape,
                                 enum tern_type type, struct tern_error *e);
void bench_file_close(struct bench_file *f);

#endif
