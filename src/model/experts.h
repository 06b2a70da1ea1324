/* Feed-forward by experts, and its memory: which rows went where. */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/kernels.h"
#include "model/act_buffer.h"
#include "model/model.h"

struct forward;

struct choice { /* of an expert by a row */
    uint32_t expert, place;
    float weight;
};

struct expert_work {
    size_t n, max_used;    /* experts, and those of a row, at most */
    struct choice *chosen; /* [n_batch, max_used] by ascending expert */
    float *scores;         /* [n_batch, score_stride] */
    bool *taken;           /* [n_batch, n] */
    size_t score_stride;
    float *on;             /* [n_batch, 16] the switch of the shared expert, in the first of 16 */
    uint32_t *at;          /* [places] the choice that has the place */
    size_t *first, *count; /* [n] places of an expert's rows */
    uint32_t *active;      /* [n_active] experts that have rows */
    size_t n_active;
    struct act_buffer in, ffn; /* [places] inputs of gate and up, of down */
    float *y;                  /* [places, dim_stride] what experts give, while somebody watches */
#ifdef TERN_MPI
    struct plane *planes; /* [3 n + MOST_PLANES] of ffn, of all experts and the shared one */
#endif
};

/* Cuts the memory from the arena, or measures it; nothing for a model without experts. */
void experts_take(struct expert_work *e, struct arena *a, const struct model *m, size_t n_batch,
                  size_t dim_stride);

/* y = sum over the experts e that the router chose of weight[e] * ffn_e(norm(x)), and the shared
 * one;  x += y, unless y has a norm first */
void step_experts(struct forward *f, const struct layer *w);

/* What row i takes of the shared expert: the sigmoid of its switch, or all of it. Valid until the
 * step's end. */
float experts_shared_weight(const struct forward *f, const struct experts *x, size_t i);

#endif
