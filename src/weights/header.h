/* The header of a weights file: in, the open file; out, its sections and its tensor directory, checked. In
 * the order of the file: start, section table, tensor directory. Messages are without the path; weights.c,
 * which opens and maps the file, adds it. */
#ifndef WEIGHTS_HEADER_H
#define WEIGHTS_HEADER_H

#include <string.h>
#include <sys/stat.h>

#include "weights/weights.h"

struct weights {
    char *path;
    unsigned char *header; /* [header_bytes], private */
    uint64_t kind, header_bytes, file_bytes, content_id;
    struct section sections[LAYOUT_MAX_SECTIONS];
    size_t n_sections;
    struct tensor *tensors;        /* [n_tensors], file order */
    const struct tensor **by_name; /* [n_tensors], sorted */
    bool *bound;                   /* [n_tensors] */
    char *names;                   /* all tensor names, each with its NUL */
    size_t n_tensors;
    struct keys config;
    void *map;          /* [file_bytes], or NULL */
    struct stat opened; /* the file as it was */
#ifdef TERN_MPI
    struct slices slices;
    struct file_part *part; /* or NULL */
#endif
};

/* Reads and checks all of it. `actual`: bytes of the file; w has path and kind. */
enum tern_status header_read(struct weights *w, int fd, uint64_t actual, struct tern_error *e);

/* TERN_BAD_FILE: what is wrong, and what to do */
enum tern_status header_bad(struct tern_error *e, const char *what);

/* The order of by_name */
static inline int header_compare_names(const void *a, const void *b)
{
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

#endif
