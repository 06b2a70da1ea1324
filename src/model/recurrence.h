/* The mixers that keep a state, as steps over heads, columns and channels: each item moves one slice
 * of a state through all rows of the batch, so that the slice stays in a cache. */
#ifndef MODEL_RECURRENCE_H
#define MODEL_RECURRENCE_H

#include "model/state.h"

/* [q | k | v], z, decay, beta = norm(x) W..., or [B | C | x] */
void step_project_mixer(struct forward *f, const struct layer *w);

/* conv = silu(conv(mix)) and keys, normed; or conv(B * x) */
void step_convolve(struct forward *f, const struct layer *w);

/* att = what is read from the states, gated and normed; or C * conv */
void step_recur(struct forward *f, const struct layer *w);

/* att *= sigmoid(norm(x) Wgate)   where a layer's attention has a gate */
void step_gate_attention(struct forward *f, const struct layer *w);

/* Settles where the batch's sequences have their states: n rows follow the sequence's end. Rows that
 * were taken back, or dropped, are run again here. */
void recurrence_begin(struct forward *f, size_t seq, size_t n, bool is_prompt);

/* After a load: runs the rows of the log. The end is a snapshot too, so that a longer text can come back
 * to it. */
void recurrence_resume(struct forward *f, size_t seq);

/* plain.c runs on records that hold the state already. */
void recurrence_copy(struct forward *f, size_t seq);
/* The marks that lie after the sequence's first `row` rows */
void recurrence_mark(struct forward *f, size_t seq, size_t row);

#endif
