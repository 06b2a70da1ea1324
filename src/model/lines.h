/* Rows that a matrix is to meet. */
#ifndef MODEL_LINES_H
#define MODEL_LINES_H

#include <stddef.h>
#include <stdint.h>

struct octet;

/* Rows of activations in the forms that matmul reads (struct activations), with room to write. */
struct lines {
    float *x;
    size_t stride;
    int8_t *q;
    float *scale;
    int32_t *sum;
    struct octet *octets; /* NULL with room for one row only */
};

#endif
