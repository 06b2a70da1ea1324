/* Latent attention: the steps before and after attention in its absorbed form. */
#ifndef MODEL_LATENT_H
#define MODEL_LATENT_H

#include "base/arena.h"
#include "model/act_buffer.h"
#include "model/model.h"

struct forward;

/* What each thread has for some rows of one head */
struct latent_scratch {
    struct act_buffer in; /* [LATENT_ROWS, nope or rank] */
    float *out;           /* [LATENT_ROWS, out_stride] */
    size_t out_stride;
};

enum { LATENT_ROWS = 64 };

/* Cuts the memory from the arena, or measures it; none for a model without latent attention. */
void latent_take(struct latent_scratch *s, struct arena *a, const struct model *m);

/* c = Wdown h, normed; q[h] = Wup_k[h] c_q[h], and the turned rest of c_q[h], where c_q = Wq norm(c);
 * k = (norm, turned) of Wk h into the cache */
void step_project_latent(struct forward *f, const struct layer *w);

/* att[h] = Wup_v[h] att[h] */
void step_latent_values(struct forward *f, const struct layer *w);

#endif
