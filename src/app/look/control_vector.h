/* Directions in the stream as files: GGUF, as llama.cpp's control vectors. Tensor direction.N, f32
 * [dim], is added to the stream after layer N, counted from 0 (llama.cpp: src/llama-adapter.cpp adds
 * it after the feed-forward of layer N; common/common.cpp reads the names from 1 on). Files of tern
 * may also have direction.0 and, for the embedding, direction.embed: llama.cpp refuses those.
 *
 * A place is where a direction is added: 0 is the embedding, l + 1 is after layer l. */
#ifndef LOOK_CONTROL_VECTOR_H
#define LOOK_CONTROL_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern.h"

struct control_vector {
    uint64_t n_places; /* layers + 1 */
    size_t dim;
    unsigned char *has; /* [n_places] 1: it has a direction for this place; owned */
    float *values;      /* [n_places, dim]; owned */
};

/* All 0. To be closed also after an error, as after control_vector_read. */
enum tern_status control_vector_init(struct control_vector *v, uint64_t n_layers, size_t dim,
                                     struct tern_error *e);
void control_vector_close(struct control_vector *v);

/* TERN_BAD_FILE with what is wrong; TERN_USAGE for directions that do not fit the model. */
enum tern_status control_vector_read(struct control_vector *v, const char *path, uint64_t n_layers,
                                     size_t dim, struct tern_error *e);
enum tern_status control_vector_write(const struct control_vector *v, const char *path,
                                      struct tern_error *e);

bool control_vector_has_name(const char *path); /* it ends in .gguf; NULL: false */

#endif
