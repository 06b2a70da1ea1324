/* Writes a weights file (FORMAT.md): sections and shapes first, then the tensors' bytes in pieces
 * of any size, at last the header with its checksums. Memory: the sections, the directory and 4 MiB.
 *
 *   writer_open     creates the file
 *   writer_section  once for each section
 *   writer_tensor   once for each tensor
 *   writer_data     the bytes of all tensors, in any number of calls
 *   writer_finish   the header
 *   writer_close
 *
 * The file grows under the given name: give a temporary name, then call file_replace (base/file.h).
 */
#ifndef WEIGHTS_WRITER_H
#define WEIGHTS_WRITER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct writer;

/* Creates or empties the file. */
enum tern_status writer_open(struct writer **out, const char *path, struct tern_error *e);
void writer_close(struct writer *w); /* before writer_finish: the file is left invalid */

/* A section, copied. Sections keep their order; the writer adds `tensors` itself, after the first.
 */
enum tern_status writer_section(struct writer *w, const char *tag, bool critical, const void *data,
                                size_t bytes, struct tern_error *e);

/* Declares a tensor; all of them before the first writer_data. */
enum tern_status writer_tensor(struct writer *w, const char *name, enum tern_type type,
                               uint64_t rows, uint64_t k, uint64_t matrices, struct tern_error *e);

/* The next n bytes of tensor data, in directory order, without the gaps. They are gathered to pieces
 * of 4 MiB, so an error may come with a later call. */
enum tern_status writer_data(struct writer *w, const void *data, size_t n, struct tern_error *e);

/* The header, when every tensor has all its bytes. */
enum tern_status writer_finish(struct writer *w, struct tern_error *e);

/* The section `seal` of a file whose fingerprint is not known yet: arith 0 says so. */
enum tern_status writer_empty_seal(struct writer *w, struct tern_error *e);

/* Rewrites one number in the finished file `path`: the seal's two values, or the bound that the
 * golden logits of its vectors are held to (TERN_BAD_FILE when the file has no such key). */
enum tern_status writer_patch_seal(const char *path, uint64_t arith, uint64_t fingerprint,
                                   struct tern_error *e);
enum tern_status writer_patch_bound(const char *path, float bound, struct tern_error *e);

#endif
