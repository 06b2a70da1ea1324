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
    struct file_piece *pieces;                       /* [n] ascending, the first with the header */
    uint64_t n;
};

/* The path of what to open in place of `path`: itself, or where it is missing on one of several machines, the
 * part of this one, whose name is put into name [size]. TERN_IO when both are missing. */
enum tern_status part_find(const char **out, char *name, size_t size, const char *path,
                           struct tern_error *e);

/* *out is NULL, and all is well, where the file of so many bytes is no part. Messages are without the path. */
enum tern_status part_open(struct file_part **out, int fd, uint64_t bytes, const char *path,
                           struct tern_error *e);
void part_close(struct file_part *p);

/* Its pieces, mapped where they lie in the whole file; nobody may read what is between them. MAP_FAILED with errno */
void *part_map(const struct file_part *p, int fd);

bool part_holds(const struct file_part *p, uint64_t begin, uint64_t end);

/* Its shares as --share takes them: "3,2,1", numbers below a million */
enum { MOST_SHARES = 7 * MOST_MACHINES };
void part_shares(const struct file_part *p, char *text, size_t size);

/* Where byte `offset` of the whole, which the part holds, lies in its file */
uint64_t part_place(const struct file_part *p, uint64_t offset);

/* Writes what `like` says (machines, rank, shares) of w's slices beside w's file. */
enum tern_status part_write(const struct weights *w, const struct file_part *like,
                            struct tern_error *e);

#endif

#endif
