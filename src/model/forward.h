/* The forward pass: a batch of rows in, logits out, keys and values into the cache. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/state.h"

/* Evaluates rows[0 .. n), leaves n_logits rows of logits, lengthens the sequences. The rows of a
 * sequence are neighbours and begin at its length. TERN_CANCELLED leaves every sequence as it was.
 */
enum tern_status forward_run(struct forward *f);

/* x = layer(x) for rows[0 .. n), whose keys and values go into the cache */
void forward_layer(struct forward *f, const struct layer *w);

#endif
