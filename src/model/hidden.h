/* The newest hidden states of each sequence: what the layer that guesses further tokens reads beside
 * the cache (mtp.h), and how far its keys and values reach. Knows positions; no arithmetic.
 *
 * The row of position p > 0 in that layer is made of the token at p and of the hidden state at p - 1.
 * It depends on the tokens up to p, as rows of other layers do, so pages are shared in the same way. */
#ifndef MODEL_HIDDEN_H
#define MODEL_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

enum {
    HIDDEN_RING = 128, /* positions whose state is held, */
    HIDDEN_LAG = 32    /* rows that the layer may lag behind a sequence */
};

struct hidden_seq {
    size_t first; /* position of the first row that the layer has, */
    size_t next;  /* and the one after the last; at least 1 */
    size_t known; /* first position whose state is held; the others follow, to the sequence's end */
};

struct hidden {
    size_t dim;              /* 0: the model does not guess */
    struct hidden_seq *seqs; /* [n_seqs] */
    float *ring;             /* [n_seqs, HIDDEN_RING, dim] position p is p % HIDDEN_RING */
};

uint64_t hidden_bytes(const struct model *m, size_t n_seqs);
enum tern_status hidden_open(struct hidden *h, const struct model *m, size_t n_seqs,
                             struct tern_error *e);
void hidden_close(struct hidden *h);

/* The place of a position's state */
float *hidden_at(const struct hidden *h, size_t seq, size_t position);

/* It, or NULL where it is not known */
const float *hidden_find(const struct hidden *h, size_t seq, size_t position);

/* The states up to position n - 1 have been put in their places, or the newest HIDDEN_RING of them. */
void hidden_put(struct hidden *h, size_t seq, size_t n);

/* The sequence has n positions now. Where the state before the next row is unknown, that row is made
 * without one: the price is one weak row, and acceptance alone can feel it. */
void hidden_keep(struct hidden *h, size_t seq, size_t n);
void hidden_fork(struct hidden *h, size_t from, size_t to, size_t n);

/* The sequence has n positions; the layer has rows first .. n - 1, or none. */
void hidden_refill(struct hidden *h, size_t seq, size_t n, size_t first);

#endif
