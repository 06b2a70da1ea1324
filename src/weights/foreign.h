/* Recognises files that people pass instead of a weights file: GGUF, safetensors, llama2.c. */
#ifndef WEIGHTS_FOREIGN_H
#define WEIGHTS_FOREIGN_H

#include "base/error.h"

/* TERN_BAD_FILE with a sentence that names the file's format and the command that converts it, from
 * its first n bytes (at most 64 are looked at) and its size. */
enum tern_status foreign_refuse(const char *path, const unsigned char *p, size_t n,
                                uint64_t file_bytes, struct tern_error *e);

/* The same for a folder. */
enum tern_status foreign_folder(const char *path, struct tern_error *e);

/* TERN_IO for a path that does not exist and looks like a model's name, else TERN_OK. */
enum tern_status foreign_missing(const char *path, struct tern_error *e);

#endif
