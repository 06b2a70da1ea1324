/* What flows into each matrix of a model, seen by running a text through it. In: an open model and
 * token ids. Out: per tensor, the factor (factor.h) of the sum X^T X over all tokens. Sums of as
 * many layers as fit 1 GiB are held at a time; asking for a layer that is not held runs the text
 * again, up to the last layer that is to be held. */
#ifndef QUANTIZE_CALIBRATE_H
#define QUANTIZE_CALIBRATE_H

#include "quantize/factor.h"
#include "model/state.h"

struct calibration_text {
    const tern_token *tokens; /* borrowed */
    size_t n;
    tern_token bos; /* in front of every sequence; -1: none */
};

struct calibration;

/* Model, kernels and pool are borrowed. */
enum tern_status calibrate_open(struct calibration **out, const struct model *m,
                                const struct kernels *kernels, struct pool *pool,
                                const struct calibration_text *text, struct tern_error *e);
void calibrate_close(struct calibration *c);

/* *f = the factor for the tensor, borrowed until the next call; NULL for one whose rows are only
 * looked up. TERN_LIMIT when the text makes a value that is not finite; TERN_CANCELLED when the pool
 * was stopped. */
enum tern_status calibrate_find(struct calibration *c, const char *tensor, const struct factor **f,
                                struct tern_error *e);

/* TERN_CANCELLED, in the words of every part of quantizing. */
enum tern_status calibrate_stopped(struct tern_error *e);

const struct kernels *calibrate_kernels(const struct calibration *c);

#endif
