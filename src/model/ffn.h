/* The dense feed-forward step, and the pieces of it that experts use. */
#ifndef MODEL_FFN_H
#define MODEL_FFN_H

#include "model/state.h"

struct input;

/* ffn = act(norm(x) Wgate) * (norm(x) Wup);  without a gate, act(norm(x) Wup) */
void step_gate_up(struct forward *f, const struct layer *w);

/* y = ffn Wdown (+ bias);  x += y, unless y has a norm first */
void step_project_down(struct forward *f, const struct layer *w);

/* f->z = the shared expert of norm(x), which every row takes: f->ffn first, which step_experts then
 * gathers with its own. in: norm(x) as input_prepare left it; NULL: not yet */
void ffn_shared_gate_up(struct forward *f, const struct layer *w, const struct input *in);
void ffn_shared_down(struct forward *f, const struct layer *w);

/* Whether gate or up, of the shared expert too, reads quantized rows; and whether one reads floats */
bool ffn_reads_integers(const struct layer *w);
bool ffn_reads_floats(const struct layer *w);

/* Where the output of attention waits in a parallel layer, until all have read x: experts and the shared one need z */
static inline float *waiting_of(const struct forward *f, const struct layer *w)
{
    return w->experts.n ? f->y : f->z;
}

/* What the feed-forward step reads x through: a parallel one may share attention's norm. */
const struct norm *ffn_norm_of(const struct layer *w);

/* Rows of a feed-forward step: of the batch, or of one expert */
struct ffn_rows {
    const struct activations *in;
    const struct act_buffer *to; /* rows first .. first + n - 1 of it */
    size_t first, n;
    size_t form; /* the `rows` of quantize_row: 1 only for a single row of the batch */
};

/* Columns c .. c + n - 1 of act(gate) * up of one expert (0 where there are none), for which
 * s->gate and s->up have room; without a gate, of act(up). Quantized where down wants it. */
void ffn_columns(struct forward *f, const struct layer *w, size_t expert, const struct ffn_rows *r,
                 size_t c, size_t n, struct scratch *s);

#endif
