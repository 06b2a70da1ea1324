/* tern_lab.h: measuring tern and looking inside it. To embed tern, tern.h is enough; its rules of
 * handles, errors and text hold here, too.
 *
 * include/example_lab.c is a complete program. */
#ifndef TERN_LAB_H
#define TERN_LAB_H

#include "tern.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- tensors ------------------------------------------------------------------------------ */

struct tern_tensor_info {
    const char *name; /* borrowed from the model; "" for an invalid index */
    enum tern_type type;
    uint64_t rows, k, matrices, bytes, checksum;
};

size_t tern_model_n_tensors(const tern_model *model);
void tern_model_tensor(const tern_model *model, size_t i, struct tern_tensor_info *info);

/* What a layer is made of */
struct tern_layer_info {
    uint64_t n_heads, n_kv_heads, head_dim, hidden;
    uint64_t window;                    /* 0: none; W: position i sees j with i - W < j <= i */
    uint64_t n_experts, n_experts_used; /* 0: a dense layer */
    uint64_t kv_rank;                   /* above 0: latent attention, a row of head_dim for all heads */
    uint64_t rope_dims;                 /* of a head that turn, 0: none */
    float attn_scale;                   /* scores are q . k times this */
    float attn_cap;                     /* > 0: then cap * tanh(score / cap) */
    const float *sinks;                 /* [n_heads] a score without a value, or NULL; borrowed */
    const float *alibi; /* [n_heads] slopes of biases by distance, or NULL; borrowed */
    int parallel;       /* attention and feed-forward read the same x, so there is no `middle` */
    int gated;
    int qk_norm, attn_post_norm, ffn_post_norm; /* it has such norms */
    int qkv_clipped;                            /* q, k and v are clamped */
    int learned_positions;                      /* of the model: they are added to the embedding */
    unsigned mixer; /* bits: 1 attention (without it there are no heads), 2 recurrent, 4 convolution */
    int attn_gate;  /* attention's output is multiplied by a gate */
    int chunked;    /* of `window`: position i sees those j <= i with j / W = i / W */
    int kv_shared;  /* it reads the keys and values of an earlier layer and has none itself */
};
void tern_model_layer(const tern_model *model, uint64_t layer, struct tern_layer_info *info);

/* ---- fingerprints and seals --------------------------------------------------------------- */

/* Adds the logits of the last tern_forward to tern_fingerprint, in a context that does not do so by
 * itself: hashing then stays outside of what is timed. */
void tern_fingerprint_begin(tern_context *ctx); /* starts anew */
void tern_fingerprint_add(tern_context *ctx);

/* Fingerprint of the model's logits for a built-in prompt. The seal of a file stores it. */
enum tern_status tern_model_seal(tern_model *model, uint64_t *fingerprint, struct tern_error *e);

/* ---- random models ------------------------------------------------------------------------ */

struct tern_shape {
    uint64_t dim, hidden, n_layers, n_heads, n_kv_heads, head_dim, vocab, max_seq;
    int tied;        /* the embedding is the output head */
    uint64_t window; /* of every layer; 0: none */
    /* More config keys of src/weights/FORMAT.md, or NULL: "n_experts=8,experts_used=2,mixer=2*3/1". A
     * value for each layer, begun anew after the last; 2*3 is 2/2/2. A value with a point is f32.
     * Heads are 0 where `mixer` has no attention. rope_dims=64/256: rotary dims of the RoPE sets;
     * without it they are those of a head. */
    const char *keys;
};

/* Writes a weights file with random weights and without a tokenizer. All matrices are of `type`,
 * except those that the format wants in f32; their scale keeps logits finite. Vectors are ones. The bytes are the same for any number of threads (0: all
 * available cores). The file at `path` is created or overwritten; after a failure it is useless. */
enum tern_status tern_random_model(const char *path, const struct tern_shape *shape,
                                   enum tern_type type, uint64_t seed, int n_threads,
                                   struct tern_error *e);
/* The size of that file, or a little less */
enum tern_status tern_shape_bytes(const struct tern_shape *shape, enum tern_type type,
                                  uint64_t *bytes, struct tern_error *e);

/* ---- measuring ---------------------------------------------------------------------------- */

/* The least work of the batch being built: bytes to read (every weight, and every visible key and
 * value, once) and multiply-adds to compute (of matmuls; of scores and values). */
struct tern_cost {
    uint64_t weight_bytes, cache_bytes, matmul_macs, attention_macs;
};
void tern_batch_cost(const tern_context *ctx, struct tern_cost *cost);

/* What the machine can do with the threads and the target of a model, or, with model NULL, with those
 * that a model has by default; for a model on several machines, what all do together when each does its
 * share. Each call measures for about a fifth of a second. A meter holds the buffer that is read: 512 MiB,
 * or less if memory is short. Close it before the model. */
typedef struct tern_meter tern_meter;
enum tern_status tern_meter_open(tern_meter **out, tern_model *model, struct tern_error *e);
void tern_meter_close(tern_meter *meter);
double tern_meter_read(tern_meter *meter); /* GB/s of plain reads of memory */
/* 1e9 multiply-adds per second of the instructions that a dot with weights of `type` takes, with
 * operands in registers. *instruction (may be NULL) names them. 0 if there is only plain C. */
double tern_meter_peak(tern_meter *meter, enum tern_type type, const char **instruction);

#ifdef TERN_MPI
/* What this machine exchanged with the others (tern.h) since it started */
struct tern_network {
    uint64_t calls, sent, received; /* sent, received: bytes */
    uint64_t gathers, gathered;     /* calls that gather rows of all machines; bytes received by them */
    double wait_seconds;            /* for the network, and for machines that are slower */
};
void tern_network(struct tern_network *use);

/* What a token should take, in seconds: on this machine alone, which must read all of its weights, in one
 * process with the threads of those that share it; on all machines, of which the slowest reads its share,
 * and all exchange rows. Measures memory for about a fifth of a second; the network was measured when the
 * model was opened. All is 0 where one machine has the model, before a context was planned, and where this
 * machine has too little memory for the model and that context in one process. */
struct tern_network_cost {
    uint32_t beside; /* processes that share this machine, itself included; two sockets are two */
    double alone, together;
    double exchange, bytes_per_second; /* a small gather; a large one */
    uint64_t exchanges;                /* of a token */
};
enum tern_status tern_network_cost(tern_model *model, struct tern_network_cost *cost,
                                   struct tern_error *e);
#endif

/* What this machine is, allows and can do, and what could be better: one call of `report` for each
 * line, with a topic ("threads", "advice") and a text. Measures for about a second. TERN_INTERNAL
 * when a kernel gives other bits than it must. */
enum tern_status tern_doctor(void (*report)(void *arg, const char *topic, const char *text),
                             void *arg, struct tern_error *e);

/* Time per operation, over all batches from start to stop. It changes no bit of a result. Nothing
 * is slower while no profile runs. With the target "plain", a profiled or observed context runs
 * the steps of "ref" instead: they have the same bits, and plain has no steps to time. */
struct tern_op {
    const char *name; /* static */
    uint64_t calls;
    double seconds;      /* wall clock, waiting included */
    double wait_seconds; /* in which a thread had nothing to do; mean over the threads */
    uint64_t bytes, macs;
};
enum tern_status tern_profile_start(tern_context *ctx, struct tern_error *e); /* from zero */
void tern_profile_stop(tern_context *ctx);
/* Fills ops [max] with the operations that ran, in the order of the forward pass. Returns how many it
 * filled. */
size_t tern_profile(const tern_context *ctx, struct tern_op *ops, size_t max);

/* When each thread did what, from tern_timeline_start to stop: for each run of an operation, the items
 * that a thread had in work. Attention says which ones: KV heads, rows of the batch, blocks of 256
 * positions (of a thread's last item, where it had several). */
struct tern_span {
    const char *operation; /* static; a name of tern_profile */
    uint64_t layer;        /* n_layers: embedding and logits */
    int thread;
    double begin, end; /* seconds since the start */
    double wait;       /* seconds from its end until all threads were done, or it began again */
    uint64_t bytes;    /* its share of what the operation must read */
    uint32_t kv_head, n_kv_heads, row, n_rows, block, n_blocks; /* n_rows 0: not attention */
};

/* Starts a profile, too, and keeps up to max_spans of them; later ones are counted only. */
enum tern_status tern_timeline_start(tern_context *ctx, size_t max_spans, struct tern_error *e);
/* Fills spans [max], by time. Returns how many there are; *lost (may be NULL) gets how many did not
 * fit. tern_profile_stop ends it. */
size_t tern_timeline(const tern_context *ctx, struct tern_span *spans, size_t max, uint64_t *lost);

/* ---- looking inside ----------------------------------------------------------------------- */

struct tern_row { /* of a batch */
    uint32_t seq, position;
    tern_token token;
    unsigned flags;
};

/* The result of one step: f32, before any quantization. Valid during the call only. */
struct tern_observation {
    uint64_t layer;        /* 0 .. n_layers - 1; n_layers: of final_norm and logits */
    const char *operation; /* static; a name below */
    size_t rows, columns;
    const float *values; /* [rows, columns], rows `stride` floats apart */
    size_t stride;
    const struct tern_row *at; /* [rows]; for layer n_layers only rows that asked for logits, for
                                * `expert` only those that the router sends to it */
    uint64_t expert;           /* of `expert`: which one; else 0 */
};
typedef void (*tern_observe_fn)(void *arg, const struct tern_observation *o);

/* Calls fn after the steps of every later batch, in the thread of tern_forward. fn NULL ends that.
 * It changes no bit of a result. Nothing is slower while nobody looks. In this order:
 *   embed           [dim]  the stream x as layer 0 gets it (layer 0 only)
 *   attn_norm       [dim]
 *   q, k, v         [heads * head_dim] as attention reads them: q and k after norm and RoPE (with
 *                   dimension i and i + half rotating together, however the source stored them);
 *                   k and v before the cache rounds them
 *   attend          [n_heads * head_dim], in latent attention [n_heads * its values]: what the output
 *                   matrix reads, after a gate, norm or rounding; of other mixers likewise
 *   o               [dim]  what attention adds to x, times the residual multiplier
 *   attn_post_norm  [dim]  norm of o; if a layer has it, this is added instead of o
 *   middle          [dim]  x after attention; absent if feed-forward is parallel
 *   ffn_norm        [dim]
 *   gate, up, act   [hidden] act is what `down` reads: activation(gate) * up, or activation(up)
 *   down            [dim]  what feed-forward adds to x; in a layer of experts instead
 *   router          [experts] the weight of each expert, 0 if not chosen,
 *   expert          [dim]  what one expert gives for the rows that chose it, before its weight; once
 *                   for each expert that has rows, by id, and
 *   experts         [dim]  the weighted sum of the experts, with the shared one
 *   ffn_post_norm   [dim]  norm of down or experts; if a layer has it, this is added instead
 *   ple             [dim]  norm of what the layer's own embedding of the token adds (FORMAT.md)
 *   out             [dim]  x after the layer, and after its scale, if it has one
 *   final_norm      [dim], logits [vocab]
 * A layer without a step has no such operation. Guessed tokens (struct tern_generate_params) are
 * shown, too, even if they turn out wrong. Tokens that are evaluated again (tern_seq_expect) are
 * shown each time. */
enum tern_status tern_observe(tern_context *ctx, tern_observe_fn fn, void *arg,
                              struct tern_error *e);

/* cos and sin [rope_dims / 2] by which RoPE turned q and k at a position of this sequence, times the
 * attention factor: q' = (q_a cos - q_b sin, q_b cos + q_a sin) for the dims a = i, b = i + rope_dims / 2.
 * Nothing where the layer has no RoPE. */
void tern_rope_angles(const tern_context *ctx, uint32_t seq, uint64_t layer, uint32_t position,
                      float *cos, float *sin);

/* ---- attention as a matrix ------------------------------------------------------------------ */

/* Keeps q, k and v of chosen layers and computes the rows of attention from them, with the
 * arithmetic of the engine: k and v are rounded as the cache rounds them, and sums are merged block
 * by block. It is fed by an observer, so attention itself runs as always. Unlike the cache, it
 * keeps what a sliding window has passed, and a row can be compared with keys that came later. */
typedef struct tern_attention tern_attention;

struct tern_attention_params {
    uint32_t seq, n_positions;   /* the first n_positions of this sequence are kept */
    const unsigned char *layers; /* [n_layers] non-zero: this one is kept; NULL: all are */
    /* As tern_attention_use chose; 0: what the model has */
    uint64_t window;
    int bidirectional;
    int sinks; /* 1: a sink of score 0 where a layer has none */
    /* 1: only the last of the n_positions is kept, and its keys are read in the cache, so that positions
     * before it may have been evaluated earlier. It then has that row alone, at the stage of weights, and
     * until the context is used again. window, bidirectional and sinks are 0. */
    int last;
};

/* What one row of weights has gone through. s_ij = q_i . k_j; row i may look at j if j <= i and the
 * layer's window allows it. */
enum tern_attention_stage {
    TERN_ATTENTION_RAW,      /* s_ij, of all j */
    TERN_ATTENTION_SCALED,   /* (s_ij + alibi) * attn_scale, capped, of all j */
    TERN_ATTENTION_MASKED,   /* the same, -infinity where i may not look */
    TERN_ATTENTION_WEIGHTS,  /* softmax of that: exp(s_ij - max) / (sum + exp(sink - max)) */
    TERN_ATTENTION_UNMASKED, /* softmax without the mask */
    TERN_N_ATTENTION_STAGES
};

enum tern_attention_part { TERN_ATTENTION_Q, TERN_ATTENTION_K, TERN_ATTENTION_V };

/* The memory that it would take; no more than that is allocated. */
uint64_t tern_attention_bytes(const tern_context *ctx, const struct tern_attention_params *params);
enum tern_status tern_attention_open(tern_attention **out, tern_context *ctx,
                                     const struct tern_attention_params *params,
                                     struct tern_error *e);
void tern_attention_close(tern_attention *a); /* before the context */

/* Takes an observation; q, k and v are kept, the rest is ignored. To be called from the function
 * that tern_observe calls. A position that comes again replaces itself and all after it. */
void tern_attention_feed(tern_attention *a, const struct tern_observation *o);

/* Positions that it has, from 0 on. Evaluate the sequence from its beginning: positions that were
 * evaluated before it was opened are missing, and so is all after them. */
uint32_t tern_attention_length(const tern_attention *a);

/* Rows row .. row + n_rows - 1 of a head, [n_rows, length], `stride` floats apart. TERN_USAGE, with
 * the valid range, for a layer, head or row that is not there. */
enum tern_status tern_attention_rows(const tern_attention *a, uint64_t layer, uint64_t head,
                                     enum tern_attention_stage stage, uint32_t row, uint32_t n_rows,
                                     float *out, size_t stride, struct tern_error *e);

/* q, k or v of positions row .. row + n_rows - 1, [n_rows, head_dim], as attention reads them: q
 * and k after RoPE, k and v as the cache gives them back. `head` is a query head, also for k and
 * v: the KV head is head / (n_heads / n_kv_heads). */
enum tern_status tern_attention_vectors(const tern_attention *a, uint64_t layer, uint64_t head,
                                        enum tern_attention_part part, uint32_t row,
                                        uint32_t n_rows, float *out, struct tern_error *e);

/* ---- surgery ------------------------------------------------------------------------------ */

/* May change `values`: those of `o`, in place (the rows and columns of `o`, not what lies between
 * rows). Returns non-zero if it changed any. */
typedef int (*tern_edit_fn)(void *arg, const struct tern_observation *o, float *values);

/* Calls fn in the order of tern_observe with every operation that can be edited; the engine goes on
 * with what fn leaves. fn NULL ends that. With an observer in the same context, fn comes first, so
 * the observer sees what the engine goes on with. An editor that changes nothing changes no bit.
 * These can be edited:
 *   embed, middle, out   the stream itself
 *   q, k, v              k and v go into the cache again. What later tokens read is the changed
 *                        key or value; keys of earlier tokens are not shown again. In latent
 *                        attention both are the one cached row: what changes v changes k.
 *   attend               head h is columns h * head_dim .. (h + 1) * head_dim - 1; zeros switch
 *                        it off
 *   expert               each row multiplies it by its own weight of the expert
 *   o, attn_post_norm, down, experts, ffn_post_norm
 *                        x becomes (x before the step) + (what fn left)
 *   act                  rounded again if `down` reads integers
 *   router               0 switches a chosen expert off. The experts with a weight other than 0
 *                        are evaluated: at most as many as the router chooses, the first by id.
 *   logits
 * attn_norm, ffn_norm, gate, up and final_norm cannot: edit what they are made of, or what is made
 * of them. */
enum tern_status tern_edit(tern_context *ctx, tern_edit_fn fn, void *arg, struct tern_error *e);

/* 1 if an editor has ever changed a value in this context, or tern_attention_use has chosen another
 * attention for it; else 0. It stays so until the context is closed: the cache may hold what the
 * model never computed. tern_session_save then refuses, and tern_fingerprint returns 0, with 0
 * rows. tern_session_load works: it replaces a sequence. */
int tern_altered(const tern_context *ctx);

/* ---- logit lens --------------------------------------------------------------------------- */

/* The logits that rows of the stream would give if no layer followed:
 *   logits[i] = cap(logit_scale * (Whead final_norm(x[i]) + bias))
 * x [n_rows, dim], rows `stride` floats apart; logits [n_rows, vocab], without gaps. With rows of
 * the last layer's `out` these are the bits of the engine's own logits. Changes nothing in the
 * context. Not to be called by an observer or editor: copy the rows. */
enum tern_status tern_lens(tern_context *ctx, const float *x, size_t n_rows, size_t stride,
                           float *logits, struct tern_error *e);

/* ---- direct contributions ----------------------------------------------------------------- */

/* One term of a logit. `layer` and `index` are 0 where a term has none. */
enum tern_term_kind {
    TERN_TERM_EMBED,      /* the embedding of the row's token, in all streams */
    TERN_TERM_POSITION,   /* its learned position */
    TERN_TERM_HEAD,       /* what head `index` of `layer` adds to x; of states, after those of attention */
    TERN_TERM_O_BIAS,     /* the bias of the output projection */
    TERN_TERM_ATTN_NORM,  /* the bias of attn_post_norm */
    TERN_TERM_FFN,        /* the dense feed-forward of `layer`, with its bias */
    TERN_TERM_EXPERT,     /* the chosen expert `index` of `layer`, weighted, with its bias */
    TERN_TERM_SHARED,     /* the shared expert of `layer` */
    TERN_TERM_FFN_NORM,   /* the bias of ffn_post_norm */
    TERN_TERM_FINAL_NORM, /* the bias of final_norm */
    TERN_TERM_BIAS,       /* the head's bias of the token */
    /* Rounding: what a matrix gives for its rounded input, minus what it would give for the f32
     * input. Only where a matrix reads integers. */
    TERN_TERM_ROUND_O,    /* of `layer` */
    TERN_TERM_ROUND_DOWN, /* of `layer`, all its experts and its own embedding together */
    TERN_TERM_ROUND_HEAD, /* and, of several streams, before the matrices that join them */
    TERN_TERM_EDITS, /* what an editor wrote into x; only in an altered context */
    TERN_TERM_PLE,   /* what the embedding of the layer's own adds, with its norm's bias */
    TERN_TERM_LAUREL, /* the learned residual of `layer` */
};

struct tern_term {
    enum tern_term_kind kind;
    uint64_t layer, index;
    float value;
};

/* From now on every batch keeps what its last row that asks for logits was made of: the output of
 * attention, the input of `down`, the choice of experts. Takes a few rows of memory a layer. on 0
 * ends that and frees it. It changes no bit of a result. */
enum tern_status tern_keep_terms(tern_context *ctx, int on, struct tern_error *e);

/* The logit of a token, before the cap, as a sum over everything that was added to the stream, for
 * the row kept last (tern_keep_terms). With x the stream after the last layer, a RMSNorm with the
 * weights g and its scale r = 1 / sqrt(mean(x^2) + eps) held at its value, and W the head's row of
 * the token:
 *   logit = logit_scale * (sum_c W[c] r g[c] x[c] + bias)
 *   x     = embedding + sum over layers (residual_scale * (sum_h Wo[h] z[h] + Wdown act + biases))
 * z[h] is `attend` of head h. Both are linear in what is added, so each part of x has its own term.
 * LayerNorm also subtracts the mean, which is linear; its bias is a term. Norms of what a layer
 * adds (attn_post_norm, ffn_post_norm, those of experts) are linear likewise with their scales held. Where
 * layers end with a factor of x, a term has the factors of its own layer and of all later ones. Where
 * there are several streams (Gemma 3n), the numbers that mix them are held, too: then everything that is
 * added reaches the row before the head by a way that is linear. What a head changes in later layers is
 * not in its term.
 * Writes at most `max` terms, in the order of the engine; *n gets the full count. Terms are computed
 * in f64 by the model's threads. *logit (may be NULL) gets the engine's own value before the cap;
 * the terms sum to it up to the rounding of f32. Reads the o and down matrices of all layers.
 * TERN_USAGE if no row was kept, or a layer's norms of experts have biases. */
enum tern_status tern_contributions(tern_context *ctx, tern_token token, struct tern_term *terms,
                                    size_t max, size_t *n, float *logit, struct tern_error *e);

/* ---- the attention zoo -------------------------------------------------------------------- */

/* Attention as papers define it, on plain arrays (src/model/zoo.c), and the engine's own. Set
 * everything else to 0. Row i of a sequence stands at position n_keys - n_rows + i among its keys.
 * Query head h reads KV head h / (n_heads / n_kv_heads). */
struct tern_zoo {
    size_t n_seqs, n_rows, n_keys; /* n_seqs 0: 1; n_keys 0: n_rows */
    size_t n_heads, n_kv_heads;    /* n_kv_heads 0: n_heads */
    size_t head_dim, v_dim;        /* v_dim 0: head_dim */
    const float *q;                /* [n_seqs, n_rows, n_heads, head_dim] */
    const float *k;                /* [n_seqs, n_keys, n_kv_heads, head_dim] */
    const float *v;                /* [n_seqs, n_keys, n_kv_heads, v_dim] */
    float *out;                    /* [n_seqs, n_rows, n_heads, v_dim] */
    float *weights;                /* [n_seqs, n_heads, n_rows, n_keys], or NULL */
    float scale;                   /* of scores; 0: 1 / sqrt(head_dim) */
    float cap;                     /* > 0: scores become cap * tanh(score / cap) */
    int bidirectional;             /* rows see later keys, too */
    size_t window;                 /* W > 0: row at position p sees keys j with |p - j| < W */
    const float *sinks;            /* [n_heads] a score without a value, or NULL */
    const float *alibi;            /* [n_heads] slopes: scores + slope * -|p - j|; or NULL */
    size_t first;                  /* position of key 0, for alibi */
    const unsigned char *mask;     /* [n_rows, n_keys] not 0: hidden; or NULL */
    size_t block;                  /* "blocked": positions at a time; 0: 256 */
    size_t parts;                  /* "split": 0: 4 */
    const float *beta;             /* "delta": [n_seqs, n_keys, n_kv_heads]; NULL: 1 */
    /* "latent": a key is k [n_seqs, n_keys, latent_dim + rope_dim], v is not read, n_kv_heads is
     * n_heads, and the last rope_dim dims of q meet the last of a key */
    size_t latent_dim, rope_dim;
    const float *up_k; /* [n_heads, head_dim - rope_dim, latent_dim] */
    const float *up_v; /* [n_heads, v_dim, latent_dim] */
};

/* What a run took. bytes: of q, k, v and out, counted as often as they are read or written */
struct tern_zoo_cost {
    double seconds;
    uint64_t bytes, macs, scratch_bytes; /* scratch: beside q, k, v, out and weights */
};

/* The i-th kind and the paper that it comes from; NULL after the last:
 *   naive, online, blocked, split, window, sinks, bidirectional, latent, linear, delta, engine
 * engine: what contexts run, with one thread and an f32 cache; it shows no weights. */
const char *tern_zoo_name(size_t i);
const char *tern_zoo_paper(size_t i);

/* Runs the kind `name` on the arrays. cost may be NULL. TERN_USAGE for an unknown kind, for sizes
 * that do not fit each other, and for what a kind has not: only naive, online, blocked, split,
 * sinks and bidirectional take every field. linear and delta take no window, sinks, mask, cap or alibi. */
enum tern_status tern_zoo(const struct tern_zoo *z, const char *name, struct tern_zoo_cost *cost,
                          struct tern_error *e);

/* From the next batch on, every attention layer computes with a kind of the zoo (not "engine"), as
 * f32, on K and V as the cache rounded them, and over a q8 cache on queries rounded as the engine
 * rounds them. NULL: the engine's own again. Each layer keeps its scale, cap, window, sinks and
 * biases by distance.
 *   window=N        adds a window, or makes a larger one smaller
 *   sinks           adds a sink of score 0 where a layer has none
 *   bidirectional   a row sees all rows of its sequence in the same batch: so a whole prompt must
 *                   be one batch (tern_context_params.n_batch)
 *   latent          every layer as the latent attention that it equals: c = (K, V), up = selection
 *   linear, delta   have none of these but the scale; refused for models with windows
 * The bits of later results may differ: see tern_altered. What was evaluated before stays in the
 * cache as it is. TERN_NO_MEMORY where naive's matrix does not fit. */
enum tern_status tern_attention_use(tern_context *ctx, const char *name, struct tern_error *e);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
