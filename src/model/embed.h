/* Tokens to rows of the residual stream. */
#ifndef MODEL_EMBED_H
#define MODEL_EMBED_H

#include "model/state.h"

/* x[i] = embed[token i] * embed_scale (+ positions[i]);  cos and sin of every row's position for
 * every RoPE set */
void step_embed(struct forward *f);

#endif
