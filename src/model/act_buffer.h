/* Rows of activations in every form that matmul reads (struct activations), with room to write. */
#ifndef MODEL_ACT_BUFFER_H
#define MODEL_ACT_BUFFER_H

#include <stdbool.h>

#include "base/arena.h"
#include "kernels/kernels.h"

struct act_buffer {
    float *x;      /* [n, stride] */
    size_t stride; /* floats between rows */
    int8_t *q;     /* one row, quantized: [k rounded up], */
    float *scale;  /* [groups of 32] */
    int32_t *sum;
    struct octet *octets; /* several rows, quantized; NULL with room for one row only */
};

/* Cuts room for n rows of k from the arena, or measures it. */
void act_buffer_take(struct arena *a, struct act_buffer *b, size_t n, size_t k);

/* The first n rows, as matmul reads them; `quantized` where an integer format does. */
struct activations act_buffer_view(const struct act_buffer *b, size_t n, size_t k, bool quantized);

#endif
