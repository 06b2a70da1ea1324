/* Embeddings per layer (PLE): every layer has an embedding of its own of each token, mixed with a
 * projection of the embedded row, which enters the stream at the layer's end through a gate. */
#ifndef MODEL_PLE_H
#define MODEL_PLE_H

#include "model/linear.h"
#include "model/state.h"

/* Row of a token in the embeddings per layer */
static inline size_t ple_row_of(const struct model *m, tern_token token)
{
    return (size_t)token < m->ple_vocab ? (size_t)token : 0;
}

/* ple[l] = (norm(Win[l] x * in_scale) + embed[token][l] * embed_scale) * scale   of every layer */
void step_embed_layers(struct forward *f);

/* to [n, dim] = second (g(first in)), g(y) = act(y) * ple of the layer where it is gated, else y */
struct ple_pair {
    const struct matrix *first, *second; /* [rank, dim], [dim, rank] */
    float *to;
    bool gated;
};
void ple_pass(struct forward *f, const struct layer *w, struct input *in, const struct ple_pair *pair);

/* x += norm(Wout (act(Wgate x) * ple[l])); of several streams (altup.h), all others get it */
void step_ple(struct forward *f, const struct layer *w);

/* x *= the layer's scale */
void step_scale(struct forward *f, const struct layer *w);

#endif
