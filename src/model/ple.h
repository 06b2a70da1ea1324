/* Embeddings per layer (PLE): every layer has an embedding of its own of each token, mixed with a
 * projection of the embedded row, which enters the stream at the layer's end through a gate. */
#ifndef MODEL_PLE_H
#define MODEL_PLE_H

#include "model/state.h"

/* ple[l] = (norm(Win[l] x * in_scale) + embed[token][l] * embed_scale) * scale   of every layer */
void step_embed_layers(struct forward *f);

/* x += norm(Wout (act(Wgate x) * ple[l])) */
void step_ple(struct forward *f, const struct layer *w);

/* x *= the layer's scale */
void step_scale(struct forward *f, const struct layer *w);

#endif
