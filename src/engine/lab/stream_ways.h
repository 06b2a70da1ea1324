/* The way back from the row that the head reads to the streams of altup.h, with all that depends on the
 * values held: scales of norms, how a layer mixes the streams, how the last ones are matched. What is
 * left is linear, so of what is added to a stream at any place only the product with one direction
 * [dim] counts. */
#ifndef LAB_STREAM_WAYS_H
#define LAB_STREAM_WAYS_H

#include "engine/lab/kept_row.h"

struct stream_ways {
    double *streams;    /* [n, dim] of the first streams, from the last ones on */
    double *out, *own;  /* [n_layers, dim] of what a layer adds to x, and of its own embedding */
    double *y;          /* [n, dim] scratch, as is */
    double *rounding;   /* [n] what the rounding of the last streams gives */
    float *rows;        /* [n, dim] */
    struct act_buffer *in; /* [n] of [dim] */
};

/* Cuts it from the arena; nothing with one stream. */
void stream_ways_take(struct stream_ways *s, struct arena *a, const struct model *m);

/* From d [dim], which x meets after the streams have been joined. */
void stream_ways_find(const struct stream_ways *s, const struct forward *f, const struct kept_row *t,
                      const double *d, struct pool *pool);

#endif
