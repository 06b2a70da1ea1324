/* The linear maps around attention. */
#ifndef MODEL_PROJECTIONS_H
#define MODEL_PROJECTIONS_H

#include "model/state.h"

/* q, k, v = norm(x) Wq, Wk, Wv (+ bias);  q and k may be clamped and normed, and RoPE turns them;
 * k and v go into the cache */
void step_project_qkv(struct forward *f, const struct layer *w);

/* y = att Wo (+ bias);  x += y, unless y has a norm first, or waits in z (parallel) */
/* The same of a mixer with a state */
void step_mix_out(struct forward *f, const struct layer *w);
void step_project_out(struct forward *f, const struct layer *w);

#endif
