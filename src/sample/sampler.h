/* Sampler: logits in, one token id out. No state but mirostat's `mu`, which is the caller's: the
 * same parameters, logits, history and index always give the same token. It alone knows the stages
 * and the random numbers.
 *
 * First every logit bias is added. Then the stages, in the order of the parameters (by default this
 * one). Weights are w = exp((v - largest v) / t), where t begins as 1, and p = w / (sum of w), both
 * over what the stages before left. (ADDING A STAGE: a name in enum tern_stage and in `names`, its
 * function, and its line in apply().)
 *   penalties    tokens among the last repeat_last_n of the history, n times each:
 *                v = v > 0 ? v / repeat_penalty : v * repeat_penalty (Keskar et al. 2019, CTRL,
 *                section 4.1), then v -= n * frequency_penalty + presence_penalty
 *   dry          see penalties.h
 *   top_n_sigma  those stay with v / t >= largest - top_n_sigma * (standard deviation of all v / t;
 *                Tang et al. 2024); -inf does not count
 *   top_k        the k best stay (v descending, id ascending)
 *   typ_p        the fewest stay whose p reach typical_p, those first whose -log p is nearest to
 * the entropy (Meister et al. 2022); the lower id on ties top_p        the fewest best stay whose p
 * reach top_p (Holtzman et al. 2019) min_p        those stay with w >= min_p xtc          when
 * u(seed, index, 1) < xtc_probability: of those with p >= xtc_threshold all but the last go (the
 * author's description in text-generation-webui, 2024) temperature  t = t * temperature and then
 * the draw: it walks the rest, best first, until the sum of p exceeds u(seed, index, 0).
 *
 * temperature 0: the largest value after bias, penalties and DRY, the lowest id on ties; nothing
 * else applies. mirostat: after bias, penalties, DRY and temperature, tokens with -log2 p > mu go
 * (the best stays), and after the draw mu -= eta * (-log2 p of the token among the rest - tau)
 * (Basu et al. 2021, version 2 of its authors' code).
 *
 * At least one candidate stays. A NaN counts as -inf; a token of the history outside the
 * vocabulary is passed over. Weights are f32 (exp of the kernels). Their sums are binary64 for the
 * best 64 and whatever a stage left; the rest of a whole vocabulary adds exp(log_sum_exp), the
 * kernels' lane sum. */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "base/error.h"

struct decoder;

struct sampler_item {
    float value;
    tern_token id;
};

/* What a choice needs beside its arguments; all borrowed. */
struct sampler {
    size_t vocab;                                   /* at least 1 */
    float (*log_sum_exp)(const float *x, size_t n); /* of the kernels */
    struct decoder *decoder;      /* knows what tokens read as; NULL: no breakers */
    struct sampler_item *scratch; /* [sampler_scratch(vocab)]; contents before and after: nothing */
};

/* What tern.h states. */
struct tern_sampler_params sampler_defaults(void);

/* TERN_USAGE, naming the parameter, its value and its range (in sampler.c). NaN is refused. */
enum tern_status sampler_check(const struct tern_sampler_params *params, size_t vocab,
                               struct tern_error *e);

/* The order that a text such as "penalties;top_k;temperature" names. TERN_USAGE: the first name
 * that is unknown or comes twice. */
enum tern_status sampler_order(struct tern_sampler_params *params, const char *text,
                               struct tern_error *e);

/* The number of draw `draw` at token `index`: uniform in [0, 1), a multiple of 2^-24.
 *   z = mix(mix(mix(seed) + index) + draw), u = (z >> 40) / 2^24
 *   mix(z): z += 0x9e3779b97f4a7c15, then the finalizer of splitmix64 (Steele et al. 2014) */
float sampler_uniform(uint64_t seed, uint64_t index, uint64_t draw);

/* Items of scratch: candidates, and behind them two arrays of floats. */
static inline size_t sampler_scratch(size_t vocab)
{
    return 2 * vocab;
}

/* Picks a token.
 *   logits   [vocab]
 *   history  [n_history] tokens so far, oldest first; may be NULL when n_history is 0
 *   index    number of the token being chosen
 * Allocates nothing. O(vocab) and, for the c candidates that a stage looks at, O(c log vocab). */
tern_token sampler_pick(const struct sampler *s, const struct tern_sampler_params *params,
                        const float *logits, const tern_token *history, size_t n_history,
                        uint64_t index);

#endif
