/* The last step: rows of the residual stream to logits. */
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "model/state.h"

/* logits = norm(x) Whead (+ bias) * logit_scale, capped   of the rows that asked for them */
void step_logits(struct forward *f);

/* x of the rows that asked for it, through the final norm, moved to the front of x */
void step_hidden(struct forward *f);

/* The same for the rows 0 .. n_logits - 1 of y, whatever they are, through the norm given */
void head_run(struct forward *f, const struct norm *norm);

#endif
