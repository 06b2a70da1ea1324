/* Candidates: the tokens among which a sampler chooses, best first, found as far as they are asked
 * for, so that nothing sorts a whole vocabulary to look at a few. Order: value descending, then id
 * ascending; a NaN counts as -inf. */
#ifndef SAMPLE_CANDIDATES_H
#define SAMPLE_CANDIDATES_H

#include "sample/sampler.h"

#include <stdbool.h>

struct candidates {
    const struct sampler *s;
    const float *x;            /* [vocab] logits, or `own` once they were changed */
    float *own, *spare;        /* [vocab] scratch */
    struct sampler_item *item; /* [listed]: a heap, then `sorted` best ones, best last */
    size_t listed, sorted;
    float limit;          /* below every listed one */
    size_t first, n;      /* the candidates are places first .. first + n - 1 of the order */
    bool closed;          /* the list is all there is; else the vocabulary's best are listed */
    const uint32_t *mask; /* candidates_allow; NULL: every token is one */
    size_t whole;         /* how many are candidates until a stage drops some */
    float t;              /* the temperature so far */
};

void candidates_init(struct candidates *c, const struct sampler *s, const float *logits);

/* Before any stage: only tokens of mask [(vocab + 31) / 32], borrowed and not empty, are candidates,
 * and of these only such with a value above -inf; where there is none, the lowest of the mask. */
void candidates_allow(struct candidates *c, const uint32_t *mask);

/* The i-th best, i < c->n. */
struct sampler_item candidates_at(struct candidates *c, size_t i);

/* exp((value - largest) / t) of the i-th best: 1 for the best. */
float candidates_weight(struct candidates *c, size_t i);
/* The sum of all weights. */
double candidates_total(struct candidates *c);

/* Makes c->own [vocab] the values, divided by t (then t is 1): they may be changed, and then
 * candidates_changed must follow. */
void candidates_change(struct candidates *c);
void candidates_changed(struct candidates *c);

/* Keeps the fewest whose weights reach `share` of all, those first whose log p is nearest to its
 * mean. */
void candidates_keep_typical(struct candidates *c, float share);

/* The first of the largest values. */
tern_token candidates_largest(const struct candidates *c);

/* Standard deviation of the values that are not -inf, over t. */
double candidates_deviation(struct candidates *c);

#endif
