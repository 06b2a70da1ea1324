/* Sampler: logits in, one token id out. No state: the same parameters, logits, history and index
 * always give the same token. It alone knows the order of the stages and the random numbers.
 *
 * Stages, in this order (ADDING A STAGE: a function and its line in sampler_pick):
 *   repeat penalty   v = v > 0 ? v / penalty : v * penalty, once for each distinct token among the
 *                    last repeat_last_n of the history (Keskar et al. 2019, CTRL, section 4.1)
 *   temperature 0    the largest value, the lowest id on ties; nothing below applies
 *   top_k            the k best (value descending, id ascending) stay
 *   top_p            the fewest best stay whose probabilities reach top_p (Holtzman et al. 2019)
 *   min_p            those stay whose probability is at least min_p times the largest
 *   temperature      v / temperature
 *   draw             walks the rest in that order until the sum of probabilities exceeds u
 *
 * Probabilities of top_p and min_p are softmax of what the stages before left, at temperature 1.
 * At least one candidate stays. A NaN counts as -inf; a token of the history outside the
 * vocabulary is passed over. Weights are f32 (exp of the kernels), their sums binary64. */
#ifndef TEXT_SAMPLER_H
#define TEXT_SAMPLER_H

#include "base/error.h"

struct sampler_item {
    float value;
    tern_token id;
};

/* 0.8, 40, 0.95, 0.05, 1, 64, 0: what tern.h states. */
struct tern_sampler_params sampler_defaults(void);

/* TERN_USAGE, naming the parameter, its value and its range, unless: temperature in [0, 1000],
 * top_p and min_p in [0, 1], repeat_penalty in [0, 1000] (0 and 1: off). NaN is refused. */
enum tern_status sampler_check(const struct tern_sampler_params *params, struct tern_error *e);

/* The number of draw `draw` at token `index`: uniform in [0, 1), a multiple of 2^-24.
 *   z = mix(mix(mix(seed) + index) + draw), u = (z >> 40) / 2^24
 *   mix(z): z += 0x9e3779b97f4a7c15, then the finalizer of splitmix64 (Steele et al. 2014) */
float sampler_uniform(uint64_t seed, uint64_t index, uint64_t draw);

/* Items that sampler_pick needs room for: the candidates and, behind them, punished logits. */
static inline size_t sampler_scratch(size_t vocab)
{
    return vocab + (vocab + 1) / 2;
}

/* Picks a token.
 *   logits   [vocab], vocab >= 1
 *   history  [n_history] tokens so far, oldest first; may be NULL when n_history is 0
 *   index    number of the token being chosen
 *   scratch  [sampler_scratch(vocab)], the caller's; its contents before and after mean nothing
 * Allocates nothing. O(vocab) and, for the c candidates that a stage looks at, O(c log vocab). */
tern_token sampler_pick(const struct tern_sampler_params *params, const float *logits, size_t vocab,
                        const tern_token *history, size_t n_history, uint64_t index,
                        struct sampler_item *scratch);

#endif
