/* A model: the configuration as features, and every tensor bound with its expected shape. In: a
 * weights file. Out: structs that the forward pass reads. Knows config keys and tensor names;
 * knows no model family. ADDING A FEATURE: a key in model.c, a field here, its step in steps.c,
 * its row in FORMAT.md.
 *
 * The vocabulary of sizes, used in every shape comment:
 *   dim         width of the residual stream
 *   n_heads     query heads of a layer;  n_kv_heads: key/value heads, a divisor of n_heads
 *   head_dim    size of one head
 *   hidden      width of the feed-forward step
 *   vocab       tokens;  max_seq: positions that the model was made for */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/weights.h"

struct matrix {
    const void *data; /* tiles [rows, k]; borrowed from the weights file */
    enum tern_type type;
    size_t rows, k;
    const float *bias; /* [rows], or NULL */
};

struct rope_set {
    const float *inv_freq; /* [half]; borrowed */
    size_t half;           /* dimension i < half turns with i + half */
    float factor;          /* attention factor, multiplies cos and sin */
};

struct layer {
    size_t n_heads, n_kv_heads, head_dim, hidden;
    size_t window;               /* 0: none; W: position i sees j with i - W < j <= i */
    const struct rope_set *rope; /* NULL: none */
    float attn_scale;
    const float *attn_norm, *ffn_norm; /* [dim] */
    struct matrix q;                   /* [n_heads * head_dim, dim] */
    struct matrix k, v;                /* [n_kv_heads * head_dim, dim] */
    struct matrix o;                   /* [dim, n_heads * head_dim] */
    struct matrix gate, up;            /* [hidden, dim] */
    struct matrix down;                /* [dim, hidden] */
};

struct model {
    struct weights *weights; /* owned; every pointer above borrows from it */
    size_t n_layers, dim, vocab, max_seq;
    float norm_eps;
    struct layer *layers; /* [n_layers] */
    struct rope_set *ropes;
    size_t n_ropes;
    struct matrix embed, head; /* [vocab, dim]; the same tensor when tied */
    const float *final_norm;   /* [dim] */
    int head_tied;
};

enum tern_status model_open(struct model **out, const char *path, struct tern_error *e);
void model_close(struct model *m);

/* Weights without padding; bytes of weights that one token reads (an untied embedding: not). */
uint64_t model_params(const struct model *m);
uint64_t model_token_bytes(const struct model *m);

#endif
