/* Sampler: logits in, one token id out. It keeps no state except mirostat's `mu`, which is the
 * caller's: the same parameters, logits, history and index always give the same token. It alone
 * knows the stages and the random numbers.
 *
 * A mask comes first: the tokens outside it do not exist for anything that follows. Values v begin as
 * the logits, plus every logit bias. Then the stages run, in the order that the parameters give, by
 * default this one. With t = 1 until `temperature` changes it, every stage
 * computes over the tokens that the stages before it left
 *
 *   w = exp((v - largest v) / t)        p = w / (sum of w)
 *
 *   penalties    for a token that stands n > 0 times in the last repeat_last_n of the history:
 *                v = v > 0 ? v / repeat_penalty : v * repeat_penalty        [Keskar 2019, 4.1]
 *                v = v - n * frequency_penalty - presence_penalty
 *   dry          penalties.h has the formula
 *   top_n_sigma  keeps v / t >= largest - top_n_sigma * (standard deviation of all v / t);
 *                -inf does not count                                        [Tang 2024]
 *   top_k        keeps the k largest v; the lower id on ties
 *   typ_p        keeps the fewest tokens whose sum of p reaches typical_p, those first whose
 *                -log p is nearest to the entropy; the lower id on ties     [Meister 2022]
 *   top_p        keeps the fewest tokens, best first, whose sum of p reaches top_p
 *                                                                           [Holtzman 2019]
 *   min_p        keeps w >= min_p
 *   xtc          when u(seed, index, 1) < xtc_probability: of the tokens with
 *                p >= xtc_threshold, drops all except the last              [1]
 *   temperature  t = t * temperature
 *   (draw)       walks the rest, best first, until the sum of p exceeds u(seed, index, 0)
 *
 * temperature 0: the largest v after bias, penalties and DRY, the lowest id on ties; nothing else
 * applies.
 * mirostat, after bias, penalties, DRY and temperature: drops tokens with -log2 p > mu, but never
 * the best; after the draw, mu = mu - eta * (-log2 p of the token among the rest - tau)   [2]
 *
 * A bias that makes v infinite decides alone: the lowest id of those tokens is taken, of the mask.
 *
 * At least one candidate stays. A NaN counts as -inf. A token of the history outside the vocabulary
 * is ignored. Weights are f32 (exp of the kernels). Their sums are binary64 for the best 64 and for
 * whatever a stage left; the rest of a whole vocabulary adds exp(log_sum_exp), the kernels' lane
 * sum.
 *
 * ADDING A STAGE: a name in enum tern_stage and in `names`, its function, its line in apply().
 *
 * [1] the author's description in text-generation-webui, 2024
 * [2] Basu et al. 2021, version 2 of its authors' code */
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

/* The name [n] of a stage, as sampler_order reads it; 1 <= stage < TERN_N_STAGES. Not NUL-terminated */
const char *sampler_stage(size_t stage, size_t *n);

/* The number of draw `draw` at token `index`: uniform in [0, 1), a multiple of 2^-24.
 *   z = mix(mix(mix(seed) + index) + draw), u = (z >> 40) / 2^24
 *   mix(z): z += 0x9e3779b97f4a7c15, then the finalizer of splitmix64 (Steele et al. 2014) */
float sampler_uniform(uint64_t seed, uint64_t index, uint64_t draw);

/* Items of scratch: candidates, and behind them two arrays of floats. */
static inline size_t sampler_scratch(size_t vocab)
{
    return 2 * vocab;
}

#ifdef TERN_MPI
/* How many of the largest logits decide what sampler_pick gives without a mask; 0: it may be all. */
size_t sampler_reads(const struct tern_sampler_params *params);
#endif

/* Picks a token.
 *   logits   [vocab]
 *   history  [n_history] tokens so far, oldest first; may be NULL when n_history is 0
 *   index    number of the token being chosen
 *   mask     [(vocab + 31) / 32] bit i % 32 of word i / 32: token i may be chosen; NULL: every token
 * -1 if the mask is empty. Where no token of the mask is above -inf, the lowest id of it is taken.
 * Allocates nothing. O(vocab) and, for the c candidates that a stage looks at, O(c log vocab). */
tern_token sampler_pick(const struct sampler *s, const struct tern_sampler_params *params,
                        const float *logits, const tern_token *history, size_t n_history,
                        uint64_t index, const uint32_t *mask);

#endif
