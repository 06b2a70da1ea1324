/* A part of a weights file: what one of several machines needs of it, cut out, so that its disk holds no
 * more (FORMAT.md, "Parts"). In: the open file; out: where the pieces of the whole file lie in it. The
 * reader (weights.c) sees the whole file with holes, which nobody may read. */
#ifndef WEIGHTS_PART_H
#define WEIGHTS_PART_H

#ifdef TERN_MPI

#include "base/machines.h"
#include "weights/weights.h"

struct file_piece {
    uint64_t offset, bytes, checksum; /* in the whole file, on a page; XXH64 */
    uint64_t at;                      /* in this one */
};

struct file_part {
    uint64_t n_machines, rank, share[MOST_MACHINES]; /* of the machines, as they were given */
    uint64_t whole_bytes, content_id;                /* of the whole file */
    struct file_piece *pieces;                            /* [n] ascending, the first with the header */
    uint64_t n;
};

/* *out is NULL, and all is well, where the file of so many bytes is no part. Messages are without the path. */
enum tern_status part_open(struct file_part **out, int fd, uint64_t bytes, const char *path,
                           struct tern_error *e);
void part_close(struct file_part *p);

bool part_holds(const struct file_part *p, uint64_t begin, uint64_t end);

/* Where byte `offset` of the whole, which the part holds, lies in its file */
uint64_t part_place(const struct file_part *p, uint64_t offset);

/* The checksums of all pieces, mapped as the whole file is; TERN_BAD_FILE names the first that differs. */
enum tern_status part_verify(const struct file_part *p, const char *map, const char *path,
                             int (*progress)(void *arg, uint64_t done, uint64_t total), void *arg,
                             struct tern_error *e);

/* "PATH.part-2-of-3", of rank 1; false where that is too long */
bool part_name(char *name, size_t size, const char *path, size_t rank, size_t n_machines);

/* Writes what `like` says (machines, rank, shares) of w's slices beside w's file. */
enum tern_status part_write(const struct weights *w, const struct file_part *like, struct tern_error *e);

#endif

#endif
