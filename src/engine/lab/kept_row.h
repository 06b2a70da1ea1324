/* What a row of a batch leaves on its way through the layers, as much as its logits are made of
 * (contributions.c): the inputs of the matrices that add to the stream, and the scales of norms. */
#ifndef LAB_KEPT_ROW_H
#define LAB_KEPT_ROW_H

#include <stdbool.h>

#include "engine/lab/observe.h"

static inline bool both_mixers(const struct layer *w)
{
    return w->mixer == (MIX_ATTENTION | MIX_RECURRENT);
}

struct kept_layer {
    float *att;            /* [n_heads * head_dim] */
    float *act, *shared;   /* [hidden], or [experts_used, hidden]; [shared_hidden] */
    float *mix;            /* what `mix_out` reads beside attention */
    float *ple;            /* [ple_dim] what ple_out reads */
    float *laurel;         /* [dim] the learned residual (altup.h) */
    float *predict, *correct; /* [n_streams, n_streams], [n_streams] how streams are mixed */
    struct choice *chosen; /* [experts_used] */
    float shared_weight;
    float attn_post, ffn_post; /* scales of these norms, */
    float expert_post, shared_post, ple_post;
};

struct kept_row {
    bool is_complete, is_on; /* there is a row; one is on its way */
    size_t i;                /* row of the batch on its way */
    struct row row;
    float *x;         /* [dim] the stream after the last layer */
    float *first, *streams; /* [n_streams, dim] several streams before and after all layers */
    float final_norm; /* its scale */
    struct kept_layer *layers;
};

/* Keeps rows of later batches, in memory of its own, until kept_row_close or observe_close. */
enum tern_status kept_row_open(struct observer *o, struct tern_error *e);
void kept_row_close(struct observer *o);

/* To be called at every watch point, when observer and editor have been there */
void kept_row_watch(struct kept_row *t, const struct forward *f, size_t layer, enum watch_point at);

#endif
