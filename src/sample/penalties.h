/* Penalties: what lowers the logits of tokens that the text already has. `x` [vocab] are the
 * values, `count` [vocab] is scratch. A token outside the vocabulary is ignored. */
#ifndef SAMPLE_PENALTIES_H
#define SAMPLE_PENALTIES_H

#include "sample/sampler.h"

/* Repeat, frequency and presence penalty: see sampler.h. */
void penalties_repeat(const struct sampler *s, const struct tern_sampler_params *p, float *x,
                      uint32_t *count, const tern_token *history, size_t n);

/* DRY ("don't repeat yourself", its author's description in text-generation-webui, 2024): a token
 * that would make a repetition longer loses multiplier * base^(length - allowed_length), where
 * `length`, at least allowed_length, is the longest end of the history that stands before an
 * earlier occurrence of the token as well. Only the last dry_last_n tokens are looked at; a
 * repetition neither reaches over the token in which a breaker ends, nor counts for more than
 * DRY_MOST tokens. Breakers are found in the joined text of the tokens: the last place where one
 * begins is the one that counts. */
enum { DRY_MOST = 100, DRY_BREAKER_MAX = 64 };
void penalties_dry(const struct sampler *s, const struct tern_sampler_params *p, float *x,
                   uint32_t *count, const tern_token *history, size_t n);

#endif
