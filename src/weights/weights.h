/* The weights file, read: a path in, checked tensors and sections out (FORMAT.md beside this file).
 *
 * weights_open reads the header into private memory, validates all of it, and maps the file; tensor
 * bytes are not touched. What it lets through is safe to use: every tensor lies inside the mapping,
 * on 64 bytes, with exactly the bytes that its type and shape need. Only weights.c and part.c map files.
 * If somebody shortens the file under the mapping, reading it raises SIGBUS: a program that cares
 * catches that and asks weights_mapping for the range.
 *
 * Every error names the file and what is wrong in it: TERN_IO when it cannot be opened or read,
 * TERN_BAD_FILE when its content is refused, TERN_NO_MEMORY. */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include "weights/keys.h"
#include "weights/file_layout.h"
#include "tern.h"

struct tensor {
    const char *name; /* borrowed until weights_close, like `data` */
    enum tern_type type;
    uint64_t rows, k, matrices; /* [matrices, rows, k], without padding */
    const void *data;           /* mapped, on 64 bytes, in the tiles of kernels/formats.h */
    uint64_t offset, bytes;     /* in the file */
    uint64_t checksum;          /* XXH64 of the bytes, as the directory states it */
};

struct section {
    char tag[17];
    bool critical;
    const void *data; /* on 8 bytes, borrowed until weights_close */
    uint64_t offset;  /* in the file */
    size_t bytes;
};

struct weights;

enum tern_status weights_open_kind(struct weights **out, const char *path, uint64_t kind,
                                   struct tern_error *e);
static inline enum tern_status weights_open(struct weights **out, const char *path,
                                            struct tern_error *e)
{
    return weights_open_kind(out, path, LAYOUT_KIND_MODEL, e);
}
void weights_close(struct weights *w);

/* The path as it was opened. */
const char *weights_path(const struct weights *w);

/* The keys of section `config`, parsed. Their getters mark what was used (weights/keys.h). */
struct keys *weights_config(struct weights *w);

/* The body of a section, or NULL when the file has none of that tag. */
const void *weights_section(const struct weights *w, const char *tag, size_t *bytes);

/* All sections, in file order, `tensors` among them. */
size_t weights_n_sections(const struct weights *w);
const struct section *weights_section_at(const struct weights *w, size_t i);

/* Tensors, in file order. */
size_t weights_count(const struct weights *w);
const struct tensor *weights_at(const struct weights *w, size_t i); /* i < weights_count */
const struct tensor *weights_find(const struct weights *w, const char *name); /* NULL if absent */

/* The tensor `name`, which must be `matrices` matrices [rows, k] of a type in type_mask (bits
 * 1 << type), and is marked as bound. Errors name the tensor, what was found and what is wanted. */
enum tern_status weights_bind(struct weights *w, const char *name, unsigned type_mask,
                              uint64_t rows, uint64_t k, uint64_t matrices,
                              const struct tensor **out, struct tern_error *e);

/* TERN_BAD_FILE, naming it, when the file holds a tensor that nobody bound. */
enum tern_status weights_all_bound(const struct weights *w, struct tern_error *e);

uint64_t weights_content_id(const struct weights *w);
uint64_t weights_header_bytes(const struct weights *w);
uint64_t weights_file_bytes(const struct weights *w);
void weights_mapping(const struct weights *w, const void **start, size_t *bytes);

/* Bytes of the file that this machine needs: all of them, or the slices below */
#ifdef TERN_MPI

/* Bytes begin .. end - 1 of the file. Rare: embeddings, of which a token reads one row, in a matrix that is
 * also a head */
struct slice {
    uint64_t begin, end;
    bool rare;
};
struct slices {
    struct slice *list; /* [n], ascending */
    size_t n;           /* 0: all of the file */
};

/* The weights own the list from now on, whatever is returned. */
enum tern_status weights_take_slices(struct weights *w, struct slices s, struct tern_error *e);
/* The part that was opened in place of the whole file, or NULL. Bytes that it does not hold must not be read. */
struct file_part;
const struct file_part *weights_part(const struct weights *w);
uint64_t weights_place(const struct weights *w, uint64_t offset); /* of a byte of the whole, in the file */
const struct slices *weights_slices(const struct weights *w);
uint64_t weights_own_bytes(const struct weights *w); /* with all of an embedding, of which rows are read */

#else

static inline uint64_t weights_own_bytes(const struct weights *w)
{
    return weights_file_bytes(w);
}

static inline uint64_t weights_place(const struct weights *w, uint64_t offset)
{
    (void)w;
    return offset;
}

#endif

/* TERN_IO unless fd is the file that was opened, as it was then. */
enum tern_status weights_unchanged(const struct weights *w, int fd, struct tern_error *e);

#endif
