/* Sampler: see sampler.h. Candidates are pairs (value, id), ordered by value descending, then id
 * ascending; the best lie sorted at the end of the scratch, taken one by one from a heap, so that
 * nothing sorts a whole vocabulary to look at a few candidates. */
#include "text/sampler.h"

#include "kernels/math.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct candidates {
    struct sampler_item *item; /* [n]: a heap of n - sorted, then the best, best last */
    size_t n, sorted;
};

struct tern_sampler_params sampler_defaults(void)
{
    return (struct tern_sampler_params){.temperature = 0.8f,
                                        .top_k = 40,
                                        .top_p = 0.95f,
                                        .min_p = 0.05f,
                                        .repeat_penalty = 1.0f,
                                        .repeat_last_n = 64};
}

static enum tern_status check_range(const char *name, float value, float max, struct tern_error *e)
{
    if (value >= 0.0f && value <= max)
        return TERN_OK;
    return error_set(e, TERN_USAGE, "sampler: %s is %g, want 0 to %g", name, (double)value,
                     (double)max);
}

enum tern_status sampler_check(const struct tern_sampler_params *params, struct tern_error *e)
{
    enum tern_status s = check_range("temperature", params->temperature, 1000.0f, e);
    if (!s)
        s = check_range("top_p", params->top_p, 1.0f, e);
    if (!s)
        s = check_range("min_p", params->min_p, 1.0f, e);
    if (!s)
        s = check_range("repeat_penalty", params->repeat_penalty, 1000.0f, e);
    return s;
}

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float sampler_uniform(uint64_t seed, uint64_t index, uint64_t draw)
{
    uint64_t z = mix(mix(mix(seed) + index) + draw);
    return (float)(z >> 40) * 0x1p-24f;
}

static bool before(struct sampler_item a, struct sampler_item b)
{
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* Restores a heap of n below element i; the root is the best, or the worst when worst_first. */
static void sift(struct sampler_item *heap, size_t n, size_t i, bool worst_first)
{
    struct sampler_item x = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child]) != worst_first)
            child++;
        if (before(x, heap[child]) != worst_first)
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

static void make_heap(struct sampler_item *heap, size_t n, bool worst_first)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(heap, n, i, worst_first);
}

enum { SPAN = 32 }; /* values looked at together, which compilers make vectors of */

static bool any_above(const float *x, float limit)
{
    int above = 0;
    for (size_t i = 0; i < SPAN; i++)
        above |= x[i] > limit;
    return above;
}

static struct sampler_item item_of(const float *logits, size_t id)
{
    return (struct sampler_item){isnan(logits[id]) ? -INFINITY : logits[id], (tern_token)id};
}

/* item[0 .. k) = the k < n best logits, in any order: a heap of k with the worst at its root meets
 * the rest, most of which are below it. Ids ascend, so that an equal one does not come before. */
static void take_best(struct sampler_item *item, const float *logits, size_t n, size_t k)
{
    size_t i = 0;
    for (; i < k; i++)
        item[i] = item_of(logits, i);
    make_heap(item, k, true);
    while (i < n) {
        if (i + SPAN <= n && !any_above(logits + i, item[0].value)) {
            i += SPAN;
            continue;
        }
        for (size_t end = i + SPAN < n ? i + SPAN : n; i < end; i++)
            if (logits[i] > item[0].value) {
                item[0] = item_of(logits, i);
                sift(item, k, 0, true);
            }
    }
}

/* The i-th best candidate; i is at most the number asked for so far. */
static struct sampler_item best(struct candidates *c, size_t i)
{
    while (c->sorted <= i) {
        size_t last = c->n - 1 - c->sorted++;
        struct sampler_item x = c->item[0];
        c->item[0] = c->item[last];
        c->item[last] = x;
        sift(c->item, last, 0, false);
    }
    return c->item[c->n - 1 - i];
}

/* exp((value - max) / temperature): 1 for the best candidate. */
static float weight(struct sampler_item x, float max, float temperature)
{
    return math_exp((x.value - max) / temperature);
}

/* How many of the best reach top_p of the probability of all. */
static size_t cut_top_p(struct candidates *c, float max, float top_p)
{
    double total = 0.0, sum = 0.0;
    for (size_t i = 0; i < c->n; i++)
        total += (double)weight(c->item[i], max, 1.0f);
    for (size_t i = 0; i < c->n; i++) {
        sum += (double)weight(best(c, i), max, 1.0f);
        if (sum >= (double)top_p * total)
            return i + 1;
    }
    return c->n;
}

/* How many of the best `keep` have at least min_p of the largest probability. */
static size_t cut_min_p(struct candidates *c, size_t keep, float max, float min_p)
{
    for (size_t i = 1; i < keep; i++)
        if (weight(best(c, i), max, 1.0f) < min_p)
            return i;
    return keep;
}

/* Draws among the best `keep`. */
static tern_token draw(struct candidates *c, size_t keep, float max, float temperature, float u)
{
    double total = 0.0, sum = 0.0;
    for (size_t i = 0; i < keep; i++) /* when keep is less than n, these are sorted already */
        total += (double)weight(c->item[c->n - 1 - i], max, temperature);
    for (size_t i = 0; i + 1 < keep; i++) {
        sum += (double)weight(best(c, i), max, temperature);
        if (sum > (double)u * total)
            return best(c, i).id;
    }
    return best(c, keep - 1).id;
}

/* Reads `logits` and writes `x`, so that a token that occurs twice is punished once. */
static void penalise(float *x, const float *logits, size_t vocab, const tern_token *history,
                     size_t n_history, const struct tern_sampler_params *p)
{
    size_t first = n_history > p->repeat_last_n ? n_history - p->repeat_last_n : 0;
    memcpy(x, logits, vocab * sizeof *x);
    for (size_t i = first; i < n_history; i++) {
        size_t id = (size_t)history[i];
        if (history[i] < 0 || id >= vocab || isnan(logits[id]))
            continue;
        x[id] = logits[id] > 0.0f ? logits[id] / p->repeat_penalty : logits[id] * p->repeat_penalty;
    }
}

/* The first of the largest logits; those that are not numbers count as -inf. */
static struct sampler_item largest(const float *logits, size_t n)
{
    struct sampler_item top = item_of(logits, 0);
    for (size_t i = 1; i < n;) {
        if (i + SPAN <= n && !any_above(logits + i, top.value)) {
            i += SPAN;
            continue;
        }
        for (size_t end = i + SPAN < n ? i + SPAN : n; i < end; i++)
            if (logits[i] > top.value)
                top = item_of(logits, i);
    }
    return top;
}

tern_token sampler_pick(const struct tern_sampler_params *params, const float *logits, size_t vocab,
                        const tern_token *history, size_t n_history, uint64_t index,
                        struct sampler_item *scratch)
{
    struct candidates c = {scratch, vocab, 0};
    if (params->repeat_penalty != 1.0f && params->repeat_penalty != 0.0f) {
        float *punished = (float *)(void *)(scratch + vocab);
        penalise(punished, logits, vocab, history, n_history, params);
        logits = punished;
    }
    struct sampler_item top = largest(logits, vocab);
    if (params->temperature == 0.0f || !isfinite(top.value))
        return top.id;

    if (params->top_k && params->top_k < vocab)
        c.n = params->top_k, take_best(c.item, logits, vocab, c.n);
    else
        for (size_t i = 0; i < vocab; i++)
            c.item[i] = item_of(logits, i);
    make_heap(c.item, c.n, false);
    size_t keep = c.n;
    if (params->top_p < 1.0f)
        keep = cut_top_p(&c, top.value, params->top_p);
    if (params->min_p > 0.0f)
        keep = cut_min_p(&c, keep, top.value, params->min_p);
    return draw(&c, keep, top.value, params->temperature, sampler_uniform(params->seed, index, 0));
}
