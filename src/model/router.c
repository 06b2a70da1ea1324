/* The choice of experts: see router.h. */
#include "model/router.h"

#include <math.h>
#include <string.h>

#include "kernels/math.h"

/* Scores become weights: softmax over all of them, or sigmoid; those of the chosen alone wait. */
static void weigh(float *s, size_t n, size_t kind)
{
    float max = s[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        max = s[i] > max ? s[i] : max;
    for (size_t i = 0; i < n && kind == ROUTER_SOFTMAX; i++)
        sum += s[i] = math_exp(s[i] - max);
    for (size_t i = 0; i < n && kind == ROUTER_SOFTMAX; i++)
        s[i] /= sum;
    for (size_t i = 0; i < n && kind == ROUTER_SIGMOID; i++)
        s[i] = 1 / (1 + math_exp(-s[i]));
}

/* The sum of the best scores of a group, by which groups are chosen: of one, or of two */
static float group_score(const struct experts *x, const float *s, size_t group)
{
    size_t size = x->n / x->groups;
    float first = -INFINITY, second = -INFINITY;
    for (size_t i = group * size; i < (group + 1) * size; i++) {
        float v = x->select_bias ? s[i] + x->select_bias[i] : s[i];
        second = v > first ? first : v > second ? v : second;
        first = v > first ? v : first;
    }
    return x->group_best > 1 && size > 1 ? first + second : first;
}

/* The scores of experts outside of the best groups become -inf; ties go to the lower group. */
static void drop_groups(const struct experts *x, float *s, bool *taken)
{
    size_t size = x->n / x->groups;
    memset(taken, 0, x->groups * sizeof *taken);
    for (size_t j = 0; j < x->groups_used; j++) {
        size_t best = x->groups;
        float top = 0;
        for (size_t g = 0; g < x->groups; g++) {
            float v = taken[g] ? 0 : group_score(x, s, g);
            if (!taken[g] && (best == x->groups || v > top))
                best = g, top = v;
        }
        taken[best] = true;
    }
    for (size_t i = 0; i < x->n; i++)
        if (!taken[i / size])
            s[i] = -INFINITY;
}

/* SparseMixer (Liu et al. 2024): one after another, the best of those that are left, t, weighs
 * exp(0) / sum exp(s_i - s_t) over those i that are left and near: (s_t - s_i) / max(|s_i|, s_t)
 * at most twice the jitter. Its weight takes the place of its score. */
static void mix_sparsely(const struct experts *x, float *s, bool *taken)
{
    memset(taken, 0, x->n * sizeof *taken);
    for (size_t j = 0; j < x->n_used; j++) {
        size_t best = x->n;
        float sum = 0;
        for (size_t i = 0; i < x->n; i++)
            if (!taken[i] && (best == x->n || s[i] > s[best]))
                best = i;
        for (size_t i = 0; i < x->n; i++) {
            float size = s[i] < 0 ? -s[i] : s[i], by = s[best] > size ? s[best] : size;
            if (!taken[i] && !((s[best] - s[i]) / by > 2 * x->jitter))
                sum += math_exp(s[i] - s[best]);
        }
        s[best] = 1 / sum;
        taken[best] = true;
    }
}

/* Marks the n_used experts of the highest scores (plus the bias of the choice); ties go to the
 * lower id. */
static void take_best(const struct experts *x, const float *s, bool *taken)
{
    memset(taken, 0, x->n * sizeof *taken);
    for (size_t j = 0; j < x->n_used; j++) {
        size_t best = x->n;
        float top = 0;
        for (size_t i = 0; i < x->n; i++) {
            float v = x->select_bias ? s[i] + x->select_bias[i] : s[i];
            if (!taken[i] && (best == x->n || v > top))
                best = i, top = v;
        }
        taken[best] = true;
    }
}

/* The weights of the chosen, in the order of their ids */
static void settle_weights(const struct experts *x, struct choice *c)
{
    float sum = 0, max = c[0].weight;
    for (size_t j = 1; j < x->n_used; j++)
        max = c[j].weight > max ? c[j].weight : max;
    for (size_t j = 0; j < x->n_used; j++) {
        if (x->score == ROUTER_SOFTMAX_CHOSEN)
            c[j].weight = math_exp(c[j].weight - max);
        if (x->score == ROUTER_SIGMOID_CHOSEN)
            c[j].weight = 1 / (1 + math_exp(-c[j].weight));
        sum += c[j].weight;
    }
    for (size_t j = 0; j < x->n_used; j++) {
        if (x->normalize || x->score == ROUTER_SOFTMAX_CHOSEN)
            c[j].weight /= sum;
        c[j].weight *= x->factor;
        if (x->scale)
            c[j].weight *= x->scale[c[j].expert];
    }
}

void router_choose(const struct experts *x, float *scores, bool *taken, struct choice *chosen)
{
    weigh(scores, x->n, x->score);
    if (x->groups > x->groups_used)
        drop_groups(x, scores, taken);
    if (x->score == ROUTER_SPARSEMIXER)
        mix_sparsely(x, scores, taken);
    else
        take_best(x, scores, taken);
    for (size_t i = 0, j = 0; i < x->n; i++)
        if (taken[i])
            chosen[j++] = (struct choice){(uint32_t)i, 0, scores[i]};
    settle_weights(x, chosen);
}
