/* A model: the configuration as features, and every tensor bound with its expected shape. In: a
 * weights file. Out: structs that the forward pass reads. Knows config keys (config.c) and tensor
 * names (model.c); knows no model family.
 *
 * ADDING A FEATURE: a key in config.c, a field here, its tensors in model.c, its definition in
 * plain.c, its line in the file of its step (embed.c, projections.c, attention.c, ffn.c, experts.c,
 * residual.c, head.c), its row in FORMAT.md.
 *
 * The vocabulary of sizes, used in every shape comment:
 *   dim         width of the residual stream
 *   n_heads     query heads of a layer;  n_kv_heads: key/value heads, a divisor of n_heads
 *   head_dim    size of one head
 *   hidden      width of the feed-forward step, or of one expert; 0: the layer has none
 *   k_heads, v_heads, k_dim, v_dim   of a recurrent mixer: a state [k_dim, v_dim] for each of v_heads,
 *               v_heads / k_heads neighbours share a key
 *   channels    what passes through a mixer's convolution
 *   vocab       tokens;  max_seq: positions that the model was made for */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kernels/kernels.h" /* enum activation */
#include "weights/weights.h"

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
    const float *far;      /* [half] for texts longer than the model's rope_limit; or NULL */
};

/* A norm over n values; kind rms or layer is the model's. weight NULL: there is no such norm. */
struct norm {
    const float *weight, *bias; /* [n]; bias may be NULL */
};

/* Order of FORMAT.md's numbers. */
enum qk_norm { QK_NONE, QK_HEAD, QK_FULL, QK_HEAD_LAYER, QK_SHARED_LAYER };
enum { ACT_XIELU = N_ACTIVATIONS }; /* the one that has numbers of its own, in each layer (xielu.h) */
enum router_score { ROUTER_SOFTMAX, ROUTER_SOFTMAX_CHOSEN, ROUTER_SIGMOID, ROUTER_SPARSEMIXER, ROUTER_SIGMOID_CHOSEN };

/* Feed-forward experts: the router chooses n_used of n for each row. */
struct experts {
    size_t n, n_used;         /* n 0: the layer has none */
    size_t score;             /* enum router_score */
    size_t normalize;         /* weights of the chosen are divided by their sum */
    float factor;             /* then multiplied by this */
    bool weigh_input;         /* what an expert reads is multiplied by its weight, not what it gives */
    float jitter;             /* of ROUTER_SPARSEMIXER */
    size_t groups, groups_used; /* neighbours form groups, of which so many are chosen from; by */
    size_t group_best;          /* the sum of so many best scores of each */
    struct matrix router;     /* [n, dim] f32; its bias is part of the score */
    const float *select_bias; /* [n] added for the choice only, or NULL */
    size_t shared_hidden;     /* of the expert that every row takes; 0: none */
    struct matrix shared_gate, shared_up, shared_down;
    struct matrix shared_switch; /* [1, dim] f32: times sigmoid of it; data NULL: always whole */
    /* Norms of x for the router and for the experts, and of what the shared expert and the others
     * give, all [dim] or none: then the shared expert alone reads x through the layer's own norm */
    struct norm router_norm, in_norm, shared_post_norm, post_norm;
    const float *scale; /* [n] multiplies the weights of the chosen, at last; or NULL */
};

/* What a layer mixes its positions with: bits of the key `mixer`. */
enum { MIX_ATTENTION = 1, MIX_RECURRENT = 2, MIX_CONVOLUTION = 4 };

enum { MAX_CONV = 16 }; /* width of a convolution */

/* Order of FORMAT.md's numbers. */
enum attn_gate { GATE_NONE, GATE_VALUES, GATE_HEADS, GATE_SOFT_VALUES, GATE_SOFT_HEADS };
enum recurrence_rule { RULE_DELTA, RULE_MAMBA2 };
enum state_norm { STATE_NORM_NONE, STATE_NORM_FIRST, STATE_NORM_LAST }; /* before, after the gate */

/* A mixer with a state: recurrent, or a short convolution, which has only `in`, `out` and `conv`. */
struct mixer {
    enum recurrence_rule rule;
    size_t k_heads, v_heads, k_dim, v_dim; /* 0 in a short convolution */
    size_t width, channels;                /* of the convolution: (2 k_heads k_dim + v_heads v_dim),
                                            * or dim */
    size_t in_place; /* floats of a projected row before those that are convolved */
    enum state_norm norm_order;
    size_t norm_groups; /* of v_heads * v_dim values; in a delta net the heads */
    bool sigmoid;       /* the gate is sigmoid(z), not silu(z) */
    float norm_eps, beta_scale, decay_floor;
    size_t n_decay;         /* numbers that a head's state decays by: one, or k_dim, of each row of S */
    struct matrix gate_down, decay_down; /* [rank, dim]: gate and decay read what these make of a row,
                                          * and have k = rank; data NULL: they read the row */
    struct matrix in;       /* [q | k | v] [channels, dim]; short convolution: [B | C | x] */
    struct matrix gate;     /* z: [v_heads * v_dim, dim] */
    struct matrix decay;    /* [v_heads * n_decay, dim] f32, or wide of any type */
    struct matrix beta;     /* [v_heads, dim] f32; of a delta net */
    struct matrix out;      /* [dim, v_heads * v_dim] */
    const float *conv;      /* [width, channels] */
    const float *conv_bias; /* [channels], or NULL */
    const float *a;         /* [v_heads] */
    const float *d;         /* [v_heads], or NULL */
    const float *norm;      /* [v_dim] in a delta net, else [v_heads * v_dim]; or NULL */
    size_t at, floats;      /* of its state in a record, and of a row of the log: recurrent.h */
    size_t log_at, log_floats;
};

/* Latent attention: the cache holds one row [rank + rotary] for all heads; the first `rank` numbers of
 * it are also the value. Then n_kv_heads is 1, and head_dim is rank + rotary. rank 0: plain attention. */
struct latent {
    size_t rank, q_rank, nope, value; /* q_rank 0: q reads norm(x); nope + rotary of q; of v, a head */
    float eps;                        /* of both norms */
    struct matrix q_down;             /* [q_rank, dim] */
    struct matrix k_up;               /* n_heads of [rank, nope] */
    struct matrix v_up;               /* n_heads of [value, rank] */
    const float *q_norm, *k_norm;     /* [q_rank] or NULL, [rank] */
};

/* Sizes and switches of a layer, as the config has them (FORMAT.md, "Config keys") */
struct shape {
    size_t n_heads, n_kv_heads, head_dim, hidden;
    size_t window; /* 0: none; W: position i sees j with i - W < j <= i */
    size_t rope_set;
    size_t attn_bias, ffn_bias, norms, qk_norm, sinks, parallel, gated, round_inputs;
    size_t n_experts, experts_used, router_score, router_normalize, router_bias, select_bias;
    size_t shared_hidden, shared_switch, expert_norms, router_scaled;
    size_t kv_from, v_from_k, v_norm, scaled;
    size_t chunked, q_scaled, weigh_input;
    size_t qkv_clip_last, qk_norm_last, router_groups, router_groups_used, router_group_best;
    size_t mixer, attn_gate, rule, k_heads, v_heads, k_dim, v_dim, conv_width, conv_bias, mix_bias;
    size_t state_norm, norm_groups, state_gate, skip, state_decay, decay_rank, gate_rank;
    size_t kv_rank, q_rank, nope_dim, value_dim, laurel_rank;
    float beta_scale, decay_floor, state_norm_eps, latent_eps;
    float attn_scale, attn_cap, qkv_clip, ffn_clamp, ffn_cutoff, router_factor, router_jitter;
};

/* How a layer mixes n streams (altup.h) */
struct altup {
    struct norm norm;      /* [dim] */
    struct matrix router;  /* [n, dim] f32 */
    const float *predict;  /* [n * n, n] */
    const float *correct;  /* [n, n] */
    const float *scale;    /* [dim] */
};

#define NO_CUTOFF (-0x1p100f)

struct layer {
    size_t index; /* in the model */
    size_t mixer; /* bits; without attention there are no heads */
    size_t n_heads, n_kv_heads, head_dim, hidden;
    size_t window;               /* 0: none; W: position i sees j with i - W < j <= i, */
    bool chunked;                /* or those j <= i with j / W = i / W */
    bool q_scaled;               /* queries grow with their position: q_scale_of */
    const struct rope_set *rope; /* NULL: none */
    float attn_scale;
    const float *alibi; /* [n_heads] slopes of biases by distance, or NULL; the model's */
    float attn_cap;     /* > 0: scores become cap * tanh(score / cap) */
    float qkv_clip;     /* > 0: q, k and v are clamped to +-clip */
    bool clip_last;     /* after the norm of q and k, not before it */
    const float *sinks; /* [n_heads] a score without a value, or NULL */
    struct norm attn_norm, attn_post_norm, ffn_norm, ffn_post_norm; /* [dim] */
    struct norm out_norm;  /* [n_heads * head_dim] of the input of o, or none */
    struct norm down_norm; /* [hidden] of the input of down, or none */
    bool round_inputs;     /* of all matrices: round_row in residual.h */
    enum qk_norm qk_norm;
    bool qk_norm_last;          /* after RoPE, not before it */
    struct norm q_norm, k_norm; /* [head_dim], or [heads * head_dim] */
    size_t kv_from;             /* layer, plus one, whose keys and values it reads; 0: its own */
    const float *v_norm;        /* [head_dim] RMSNorm of each head of v, or NULL */
    bool parallel;              /* attention and feed-forward read the same x */
    struct matrix q;            /* [n_heads * head_dim, dim] */
    struct matrix k;            /* [n_kv_heads * head_dim, dim] */
    struct matrix v;            /* [n_kv_heads * head_dim, dim]; may be k's */
    struct matrix o;            /* [dim, n_heads * head_dim] */
    struct latent latent;       /* then v is none, and q, k and o have other shapes: FORMAT.md */
    struct matrix attn_gate;    /* [k of o, dim] or [n_heads, dim]; data NULL: none */
    bool soft_gate;             /* softplus of it, not sigmoid */
    struct mixer mix;
    bool gated;
    float ffn_clamp;        /* ACT_SWIGLU_OAI: of gate and up */
    const float *xielu;     /* [4] of ACT_XIELU, or NULL */
    struct matrix gate, up; /* [hidden, dim]; one for each expert; gate only if gated */
    struct matrix down;     /* [dim, hidden]; one for each expert */
    struct experts experts;
    struct matrix ple_gate; /* [ple_dim, dim]; data NULL: the model has no embeddings per layer */
    struct matrix ple_out;  /* [dim, ple_dim] */
    struct norm ple_post_norm; /* [dim] */
    const float *scale;        /* [1] multiplies x at the layer's end, or NULL */
    float ffn_cutoff; /* of gate, NO_CUTOFF: none; moments_cut */
    struct matrix laurel_left, laurel_right; /* [rank, dim], [dim, rank]; data NULL: no such residual */
    struct norm laurel_norm;                 /* [dim] */
    struct altup altup;
};

struct model {
    struct weights *weights; /* owned; every pointer above borrows from it */
#ifdef TERN_MPI
    const struct split *split; /* NULL: one machine has all of it (split.h) */
#endif
    size_t n_layers, dim, vocab, max_seq;
    size_t n_mtp; /* layers after those that guess further tokens (mtp.h): 0 or 1, */
    bool has_mtp; /* as the file has; whoever opened the model may do without */
    float norm_eps;
    bool layer_norm; /* norms are LayerNorm, not RMSNorm */
    enum activation activation;
    float embed_scale, residual_scale, logit_scale;
    float logit_cap;      /* > 0: logits become cap * tanh(logit / cap) */
    struct layer *layers; /* [n_layers + n_mtp] */
    size_t state_floats;  /* of all recurrent layers of a sequence, and */
    size_t log_floats;    /* of a row of their log; 0: there are none */
    struct rope_set *ropes;
    size_t n_ropes;
    size_t rope_limit; /* positions from which on the sets' far frequencies hold; 0: none has any */
    struct matrix embed, head; /* [vocab, dim]; the same tensor when tied */
    const float *positions;    /* [max_seq, dim] learned, added to the embedding; or NULL */
    struct norm embed_norm;    /* [dim] of the embedded row, before the positions; or none */
    struct norm final_norm;    /* [dim] */
    const float *q_scales;     /* [n_q_scales] of queries, q_scale_every positions each; or NULL */
    size_t n_q_scales, q_scale_every, q_scale_shift; /* position p is in part (p + shift) / every */
    const float *alibi;        /* [n_heads] of every layer, borrowed from the file; or NULL */
    size_t ple_dim;            /* of the embedding that each layer has of its own; 0: none (ple.h) */
    struct matrix ple_embed;   /* [ple_vocab, n_layers * ple_dim] */
    struct matrix ple_in;      /* [n_layers * ple_dim, dim] */
    struct norm ple_norm;      /* [ple_dim] */
    size_t ple_vocab;          /* tokens of ple_embed; all others have the row of token 0 */
    size_t n_streams;          /* 0: one */
    struct matrix altup_in, altup_out; /* n_streams - 1 of [dim, dim] */
    float ple_embed_scale, ple_in_scale, ple_scale;
    struct norm mtp_embed_norm, mtp_hidden_norm, mtp_norm; /* [dim] */
    struct matrix mtp_in;                                  /* [dim, 2 * dim] */
    size_t head_tied;
    /* what config.c read and model.c binds */
    struct shape *shapes; /* [n_layers + n_mtp]; only while opening */
    size_t norm_bias, head_bias, learned_positions, has_embed_norm;
};

/* Width of a value in attention, and how many K and V a block of the cache holds */
static inline size_t layer_v_dim(const struct layer *w)
{
    return w->latent.rank ? w->latent.rank : w->head_dim;
}

static inline size_t layer_kv(const struct layer *w)
{
    return w->latent.rank ? 1 : 2 * w->n_kv_heads;
}

/* Numbers of a query head as it is projected, and of all heads as the matrix after attention reads them */
static inline size_t layer_q_dim(const struct layer *w)
{
    return w->latent.rank ? w->latent.nope + w->head_dim - w->latent.rank : w->head_dim;
}

static inline size_t layer_out_dim(const struct layer *w)
{
    return w->n_heads * (w->latent.rank ? w->latent.value : w->head_dim);
}

/* First position that the row at `position` sees */
static inline size_t layer_sees_from(const struct layer *w, size_t position)
{
    if (w->window && w->chunked)
        return position - position % w->window;
    return w->window && position >= w->window ? position + 1 - w->window : 0;
}

/* Factor of the queries of a position in a layer */
static inline float q_scale_of(const struct model *m, const struct layer *w, size_t position)
{
    size_t i = (position + m->q_scale_shift) / m->q_scale_every;
    return m->q_scales && w->q_scaled ? m->q_scales[i < m->n_q_scales ? i : m->n_q_scales - 1] : 1;
}

/* What reads a layer's heads, states or channels: the matrix after its (first) mixer */
static inline const struct matrix *layer_out(const struct layer *w)
{
    return w->mixer & MIX_ATTENTION ? &w->o : &w->mix.out;
}

enum tern_status model_open(struct model **out, const char *path, struct tern_error *e);

/* Calls fn for each tensor that a model of this config has, in the order of a weights file. */
struct tensor_want {
    const char *name; /* valid during the call */
    unsigned types;   /* bit t: TERN type t may be */
    size_t rows, k, matrices;
};
typedef void (*model_wants_fn)(void *arg, const struct tensor_want *want);
struct keys;
enum tern_status model_wants(struct keys *config, model_wants_fn fn, void *arg,
                             struct tern_error *e);

void model_close(struct model *m);

/* Weights without padding; bytes of weights that one token reads (an untied embedding: not). */
uint64_t model_params(const struct model *m);
uint64_t model_token_bytes(const struct model *m);

#endif
