/* Shapes of well-known models, and weights files with random weights that exist only while they
 * are measured: in memory, or, where memory is short, in a temporary file without a name. */
#ifndef BENCH_BENCH_SHAPE_H
#define BENCH_BENCH_SHAPE_H

#include "tern_lab.h"

const char *bench_shape_names(void); /* "15m 42m ..." */

struct bench_shape {
    struct tern_shape sizes;
    char name[96];   /* as the user has it; with the layers that are left: "glm-4.7-flash 4/47" */
    char keys[1024]; /* of sizes */
};

/* A name, perhaps with the number of layers as in name:4; or dim=N,hidden=N,... with every size and
 * perhaps `window=N`, `tied` and keys of struct tern_shape. Shapes are separated by commas; *text is
 * left behind the one that was read. max_seq is left 0. */
enum tern_status bench_shape_read(struct bench_shape *shape, const char **text,
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
