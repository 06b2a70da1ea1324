/* The steps of the forward pass, each over all rows of the batch and all threads. One call is one
 * barrier, or two where a batch of several rows has its input prepared first. */
#ifndef MODEL_STEPS_H
#define MODEL_STEPS_H

#include "model/state.h"

/* x[i] = embed[token i];  cos and sin of every row's position for every RoPE set */
void step_embed(struct forward *f);

/* q, k, v = norm(x) Wq, Wk, Wv (+ bias); RoPE turns q and k; k and v go into the cache */
void step_project_qkv(struct forward *f, const struct layer *w);

/* att[i, h] = sum_j softmax_j(q[i, h] . k[j] * scale) v[j]   over the visible positions j */
void step_attend(struct forward *f, const struct layer *w);

/* y = att Wo (+ bias);  x += y, unless y is to be normed first, or waits in z (parallel) */
void step_project_out(struct forward *f, const struct layer *w);

/* x += norm(y)   where the layer has such a norm */
void step_post_norm(struct forward *f, const struct norm *norm);

/* ffn = silu(norm(x) Wgate) * (norm(x) Wup) */
void step_gate_up(struct forward *f, const struct layer *w);

/* y = ffn Wdown (+ bias);  x += y, unless y is to be normed first */
void step_project_down(struct forward *f, const struct layer *w);

/* y = sum over the experts e that the router chose of weight[e] * ffn_e(norm(x)), and the shared
 * one; in the place of the two steps above */
void step_experts(struct forward *f, const struct layer *w);

/* logits = norm(x) Whead   of the rows that asked for them */
void step_logits(struct forward *f);

#endif
