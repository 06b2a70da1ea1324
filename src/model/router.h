/* The choice of experts, for one row. */
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "model/experts.h"

/* Turns the router's scores [n] into the n_used chosen experts by ascending id, with their weights:
 *   p = softmax(s), or sigmoid(s); chosen: the n_used largest p + select_bias, the lower id on ties
 *   weight = p of the chosen (or softmax over the chosen s), normalized if asked for, * factor
 * scores is overwritten with p; taken [n] is scratch; chosen [n_used]. */
void router_choose(const struct experts *x, float *scores, bool *taken, struct choice *chosen);

#endif
