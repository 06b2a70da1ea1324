/* cflags: -O2 */
/* Candidates: see candidates.h. The best are taken one by one from a heap and lie sorted behind it.
 */
#include "sample/candidates.h"

#include "base/strict.h"
#include "kernels/math.h"

#include <math.h>
#include <string.h>

enum {
    SPAN = 32, /* values looked at together, which compilers make vectors of; a word of a mask */
    HEAD = 64, /* so many are listed first */
    SUMS = 8   /* of a deviation */
};

static bool before(struct sampler_item a, struct sampler_item b)
{
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* Restores a heap of n below element i; the root is the best, or the worst when worst_first. */
static __attribute__((noinline)) void sift(struct sampler_item *heap, size_t n, size_t i,
                                           bool worst_first)
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

/* The first place from i on where x may exceed the limit; a multiple of SPAN away, or n. */
static __attribute__((noinline)) size_t skip_below(const float *x, size_t i, size_t n, float limit)
{
    for (int above = 0; i + SPAN <= n; i += SPAN) {
        for (size_t k = 0; k < SPAN; k++)
            above |= x[i + k] > limit;
        if (above)
            break;
    }
    return i;
}

static struct sampler_item item_of(const float *x, size_t id)
{
    return (struct sampler_item){isnan(x[id]) ? -INFINITY : x[id], (tern_token)id};
}

/* item[0 .. k) = the k <= n best of x, in any order: a heap of k with the worst at its root meets
 * the rest, most of which are below it. Ids ascend, so that an equal one does not come before. */
static void take_best(struct sampler_item *item, const float *x, size_t n, size_t k)
{
    size_t i = 0;
    for (; i < k; i++)
        item[i] = item_of(x, i);
    make_heap(item, k, true);
    while ((i = skip_below(x, i, n, item[0].value)) < n)
        for (size_t end = i + SPAN < n ? i + SPAN : n; i < end; i++)
            if (x[i] > item[0].value) {
                item[0] = item_of(x, i);
                sift(item, k, 0, true);
            }
}

void candidates_init(struct candidates *c, const struct sampler *s, const float *logits)
{
    *c = (struct candidates){.s = s, .x = logits, .item = s->scratch, .t = 1};
    c->n = c->whole = s->vocab;
    c->own = (float *)(void *)(s->scratch + s->vocab);
    c->spare = c->own + s->vocab;
}

/* to = x where `bits` has bit[k], else -inf; how many are above -inf. As integers, of which all
 * compilers make vectors. */
static int cover_span(float *to, const float *x, uint32_t bits, const uint32_t *bit)
{
    const float none = -INFINITY;
    uint32_t v[SPAN], low;
    int live = 0;
    memcpy(v, x, sizeof v);
    memcpy(&low, &none, sizeof low);
    for (size_t k = 0; k < SPAN; k++) {
        uint32_t in = -(uint32_t)((bits & bit[k]) != 0);
        v[k] = (v[k] & in) | (low & ~in);
    }
    memcpy(to, v, sizeof v);
    for (size_t k = 0; k < SPAN; k++)
        live += to[k] > -INFINITY;
    return live;
}

/* c->own becomes c->x inside the mask and -inf outside. */
static void cover(struct candidates *c)
{
    size_t vocab = c->s->vocab, i = 0, lowest = 0;
    uint32_t bit[SPAN];
    for (size_t k = 0; k < SPAN; k++)
        bit[k] = (uint32_t)1 << k;
    c->whole = 0;
    for (; i + SPAN <= vocab; i += SPAN)
        c->whole += (size_t)cover_span(c->own + i, c->x + i, c->mask[i / SPAN], bit);
    for (; i < vocab; i++) {
        c->own[i] = c->mask[i / SPAN] & bit[i % SPAN] ? c->x[i] : -INFINITY;
        c->whole += c->own[i] > -INFINITY;
    }
    while (!c->whole && !(c->mask[lowest / SPAN] & bit[lowest % SPAN]))
        lowest++;
    if (!c->whole)
        c->own[lowest] = INFINITY, c->whole = 1;
    c->n = c->whole;
    c->x = c->own;
}

void candidates_allow(struct candidates *c, const uint32_t *mask)
{
    c->mask = mask;
    candidates_changed(c);
}

static void list(struct candidates *c, size_t n)
{
    c->listed = n;
    c->sorted = 0;
    make_heap(c->item, n, false);
}

static void list_all(struct candidates *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->s->vocab; i++)
        if (!c->mask || c->x[i] > -INFINITY)
            c->item[n++] = item_of(c->x, i);
    list(c, n);
}

/* Lists more of the vocabulary's best: HEAD of them, then those above a limit that sinks by half of
 * what it is below the best, then all. */
static void list_more(struct candidates *c)
{
    size_t n = 0, vocab = c->s->vocab, end = c->first + c->n;
    if (!c->listed) {
        n = end <= 16 * HEAD ? end : HEAD;
        take_best(c->item, c->x, vocab, n);
        c->limit = c->item[0].value;
        list(c, n);
        return;
    }
    c->limit -= 0.5f * (candidates_at(c, 0).value - c->limit);
    for (size_t i = 0; (i = skip_below(c->x, i, vocab, c->limit)) < vocab;)
        for (size_t stop = i + SPAN < vocab ? i + SPAN : vocab; i < stop; i++)
            if (c->x[i] > c->limit)
                c->item[n++] = item_of(c->x, i);
    if (n > c->listed)
        list(c, n);
    else
        list_all(c);
}

struct sampler_item candidates_at(struct candidates *c, size_t i)
{
    i += c->first;
    while (i >= c->listed)
        list_more(c);
    while (c->sorted <= i) {
        size_t last = c->listed - 1 - c->sorted++;
        struct sampler_item x = c->item[0];
        c->item[0] = c->item[last];
        c->item[last] = x;
        sift(c->item, last, 0, false);
    }
    return c->item[c->listed - 1 - i];
}

float candidates_weight(struct candidates *c, size_t i)
{
    float best = candidates_at(c, 0).value;
    return math_exp((candidates_at(c, i).value - best) / c->t);
}

static bool is_whole(const struct candidates *c)
{
    return !c->closed && c->first + c->n == c->whole;
}

double candidates_total(struct candidates *c)
{
    size_t vocab = c->s->vocab, head = is_whole(c) && c->n > HEAD ? HEAD : c->n;
    float best = candidates_at(c, 0).value;
    double sum = 0;
    for (size_t i = 0; i < head; i++)
        sum += (double)candidates_weight(c, i);
    if (head == c->n)
        return sum;
    for (size_t i = 0; i < vocab; i++) {
        float y = (c->x[i] - best) / c->t;
        c->spare[i] = y <= 0 ? y : -INFINITY;
    }
    for (size_t i = 0; i < c->first + head; i++)
        c->spare[c->item[c->listed - 1 - i].id] = -INFINITY;
    float rest = math_exp(c->s->log_sum_exp(c->spare, vocab));
    return rest > 0 ? sum + (double)rest : sum;
}

/* Moves the candidates to the front of the list, which then is all there is. */
static void close_list(struct candidates *c)
{
    if (is_whole(c) && !c->first) {
        list_all(c);
    } else {
        (void)candidates_at(c, c->n - 1);
        memmove(c->item, c->item + (c->listed - c->first - c->n), c->n * sizeof *c->item);
    }
    c->first = 0;
    c->closed = true;
}

void candidates_change(struct candidates *c)
{
    if (!is_whole(c) || c->first) {
        close_list(c);
        for (size_t i = 0; i < c->n; i++)
            c->own[c->item[i].id] = c->item[i].value / c->t;
    } else {
        for (size_t i = 0; c->t != 1 && i < c->s->vocab; i++)
            c->own[i] = c->x[i] / c->t;
        if (c->t == 1 && c->x != c->own)
            memcpy(c->own, c->x, c->s->vocab * sizeof *c->x);
    }
    c->x = c->own;
    c->t = 1;
}

void candidates_changed(struct candidates *c)
{
    if (c->mask && !c->closed)
        cover(c);
    for (size_t i = 0; c->closed && i < c->n; i++)
        c->item[i] = item_of(c->x, (size_t)c->item[i].id);
    list(c, c->closed ? c->n : 0);
}

/* With y = (value - largest) / t, -log p - entropy is mean - y, where mean = sum of p * y. */
void candidates_keep_typical(struct candidates *c, float share)
{
    float best = candidates_at(c, 0).value;
    double sum = 0, mean = 0;
    close_list(c);
    for (size_t i = 0; i < c->n; i++) {
        float y = (c->item[i].value - best) / c->t, w = math_exp(y);
        if (w > 0)
            sum += (double)w, mean += (double)w * (double)y;
    }
    mean /= sum;
    for (size_t i = 0; i < c->n; i++)
        c->item[i].value = -fabsf((c->item[i].value - best) / c->t - (float)mean);
    list(c, c->n);
    double target = (double)share * sum;
    size_t n = 0;
    for (sum = 0; n < c->n && (!n || sum < target); n++) {
        size_t id = (size_t)candidates_at(c, n).id;
        sum += (double)math_exp((c->x[id] - best) / c->t);
    }
    memmove(c->item, c->item + (c->n - n), n * sizeof *c->item);
    c->n = n;
    candidates_changed(c);
}

tern_token candidates_largest(const struct candidates *c)
{
    size_t n = c->s->vocab;
    struct sampler_item top = item_of(c->x, 0);
    for (size_t i = 1; (i = skip_below(c->x, i, n, top.value)) < n;)
        for (size_t end = i + SPAN < n ? i + SPAN : n; i < end; i++)
            if (c->x[i] > top.value)
                top = item_of(c->x, i);
    return top.id;
}

double candidates_deviation(struct candidates *c)
{
    double sum[SUMS] = {0}, squares[SUMS] = {0}, n = 0;
    float best = candidates_at(c, 0).value;
    bool whole = is_whole(c) && !c->first;
    if (!whole)
        (void)candidates_at(c, c->n - 1);
    for (size_t i = 0; i < (whole ? c->s->vocab : c->n); i++) {
        float v = whole ? c->x[i] : c->item[c->listed - 1 - c->first - i].value;
        double d = v > -INFINITY ? (double)v - (double)best : 0;
        sum[i % SUMS] += d;
        squares[i % SUMS] += d * d;
        n += v > -INFINITY;
    }
    for (size_t i = 1; i < SUMS; i++)
        sum[0] += sum[i], squares[0] += squares[i];
    double mean = sum[0] / n, variance = squares[0] / n - mean * mean;
    return variance > 0 ? (double)(sqrtf((float)variance) / c->t) : 0;
}
