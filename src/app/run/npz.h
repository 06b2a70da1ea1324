/* Arrays of numpy, read: a file as numpy.savez writes it, an uncompressed zip of .npy members.
 *
 *   member 1: local head (30 bytes, name, extra), data     <- offset in the directory
 *   ...
 *   directory: an entry per member (46 bytes, name, extra, comment): method, CRC-32, sizes, offset
 *   end: 22 bytes and a comment: how many entries, where the directory begins
 *
 *   a member: "\x93NUMPY", version, length of what follows,
 *             "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 64), }", numbers
 *
 * Read are float32 and int32 of one or two dimensions. Nothing in the file is trusted. */
#ifndef RUN_NPZ_H
#define RUN_NPZ_H

#include <stddef.h>

#include "tern.h"

struct npz_array {
    char name[64];        /* without ".npy" */
    char kind;            /* 'f' or 'i' */
    size_t rows, columns; /* of one dimension: a column */
    const char *data; /* [rows, columns] of 4 bytes, anywhere in memory; borrowed from the file */
    size_t seen, at;  /* the caller's */
    double worst;
};

struct npz {
    char *bytes;
    size_t n_arrays;
    struct npz_array *arrays; /* in the order of the file */
};

/* TERN_BAD_FILE with a sentence that names the member; what is held then is closed all the same. */
enum tern_status npz_open(struct npz *z, const char *path, struct tern_error *e);
void npz_close(struct npz *z);

struct npz_array *npz_find(const struct npz *z, const char *name); /* NULL: there is none */
float npz_float(const struct npz_array *a, size_t row, size_t column);
int32_t npz_int(const struct npz_array *a, size_t row);

#endif
