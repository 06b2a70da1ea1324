/* The layer that guesses further tokens (MTP, DeepSeek-V3 report, section 2.2). Row p > 0 of it is
 *
 *   x = Win [norm_e(embed[t(p)]) | norm_h(h(p - 1))];  x = layer(x), over rows first .. p;
 *   g = norm(x);  logits of t(p + 1) = Whead g
 *
 * where h(p - 1) is what the model's own head reads: the last layer's x through the final norm. Beyond
 * the tokens that are known, the guess stands for t and g for h. plain_guess in plain.c defines it.
 *
 * Keys and values of its rows lie in the cache as those of any layer. A prompt's rows are made with
 * the prompt; those of single tokens are made HIDDEN_LAG at a time, or when somebody asks for guesses. */
#ifndef MODEL_MTP_H
#define MODEL_MTP_H

#include "model/state.h"

/* Before and after the rows of a batch are evaluated */
void mtp_precede(struct forward *f);
void mtp_follow(struct forward *f);

/* The rows of all positions of a sequence that has no batch in work */
void mtp_catch_up(struct forward *f, size_t seq);

/* Guesses what follows `token`, which follows the sequence: at most `max` tokens into guess, while the
 * layer gives all of them together at least the probability `least`. Fewer when a value was not finite,
 * or after a cancel; none where no row can be made yet. The context must have room for max rows.
 * Leaves the sequence as it was, and no logits. *made counts also the guess that was too unlikely. */
size_t mtp_guess(struct forward *f, size_t seq, tern_token token, size_t max, float least,
                 tern_token *guess, size_t *made);

/* What mtp_guess repeats: logits [vocab] of the row of `token`, which follows the sequence and `ahead`
 * guesses; g is left in y. False when there is no such row, or a value was not finite. */
bool mtp_row(struct forward *f, size_t seq, tern_token token, size_t ahead);

#endif
