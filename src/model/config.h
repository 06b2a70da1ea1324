/* The config section: keys to numbers. In: the keys of a weights file. Out: the model-wide fields
 * of struct model, its RoPE sets, and a struct shape per layer, every number within its limits.
 * A critical key that nobody asked for is refused by name. Knows keys; knows no tensors. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "model/model.h"

/* bits of `attn_bias`, `ffn_bias` and `norms` */
enum {
    BIAS_Q = 1,
    BIAS_K = 2,
    BIAS_V = 4,
    BIAS_O = 8,
    BIAS_GATE = 1,
    BIAS_UP = 2,
    BIAS_DOWN = 4,
    MIX_BIAS_IN = 1, /* of `mix_bias` */
    MIX_BIAS_GATE = 2,
    MIX_BIAS_OUT = 4,
    NORM_ATTN = 1,
    NORM_ATTN_POST = 2,
    NORM_FFN = 4,
    NORM_FFN_POST = 8,
    NORM_OUT = 16,
    NORM_DOWN = 32,
};

/* Fills m but for what points to tensors; m->shapes is the caller's to free. */
enum tern_status config_read(struct model *m, struct keys *keys, struct tern_error *e);

#endif
