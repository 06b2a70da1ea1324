/* Files of named arrays that other tools read: .npz (numpy) and .safetensors. The sizes of all arrays
 * are known before the first value, so rows are written where they belong, in any order, and nothing
 * is kept in memory. */
#ifndef LOOK_TENSOR_FILE_H
#define LOOK_TENSOR_FILE_H

#include "app/cli/output_file.h"

#include <stdint.h>

struct tensor_array {
    char name[80];
    bool is_int; /* i32; otherwise f32 */
    size_t n_dims, shape[4];
    uint64_t offset, bytes; /* of its values in the file; set by tensor_file_open */
};

struct tensor_file {
    struct output_file out;
    int fd;
    bool is_npz, is_resumed;     /* the latter: by tensor_file_resume */
    struct tensor_array *arrays; /* [n], the caller's; they live as long as the file */
    size_t n;
    uint64_t bytes; /* of the whole file */
    uint64_t head;  /* .npz: bytes before the directory; .safetensors: before the values */
    int failed;     /* errno of the first failure, or 0 */
};

/* True for the names of files that can be written: *.npz, *.safetensors. */
bool tensor_file_has_name(const char *path);

/* Sets offset and bytes of the arrays, and f->bytes, without a file. TERN_LIMIT: .npz ends at 4 GiB. */
enum tern_status tensor_file_plan(struct tensor_file *f, const char *path,
                                  struct tensor_array *arrays, size_t n, struct tern_error *e);

/* Plans, creates the file and writes its headers. */
enum tern_status tensor_file_open(struct tensor_file *f, const char *path,
                                  struct tensor_array *arrays, size_t n, struct tern_error *e);

/* The same for a .safetensors file that may take hours: it is called PATH.part until it is whole, and
 * stays when the work is stopped. *done is the number that tensor_file_mark left there, or 0. `key`
 * stands for what the values depend on: with another one the file begins anew. */
enum tern_status tensor_file_resume(struct tensor_file *f, const char *path,
                                    struct tensor_array *arrays, size_t n, uint64_t key,
                                    uint64_t *done, struct tern_error *e);
/* Everything before `done` is written; what that counts is the caller's affair. */
void tensor_file_mark(struct tensor_file *f, uint64_t key, uint64_t done);

/* Writes n values of 4 bytes to an array, `at` values after its beginning. Failures are found when
 * the file is closed. */
void tensor_file_write(struct tensor_file *f, const struct tensor_array *a, uint64_t at,
                       const void *values, size_t n);

/* s TERN_OK: finishes the file; otherwise removes it, unless it can be resumed. */
enum tern_status tensor_file_close(struct tensor_file *f, enum tern_status s, struct tern_error *e);

#endif
