/* The choice of experts: see router.h. */
#include "model/router.h"

#include <string.h>

#include "kernels/math.h"

/* Scores become weights: softmax over all of them, or sigmoid; softmax over the chosen waits. */
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
        sum += c[j].weight;
    }
    for (size_t j = 0; j < x->n_used; j++) {
        if (x->normalize || x->score == ROUTER_SOFTMAX_CHOSEN)
            c[j].weight /= sum;
        c[j].weight *= x->factor;
    }
}

void router_choose(const struct experts *x, float *scores, bool *taken, struct choice *chosen)
{
    weigh(scores, x->n, x->score);
    take_best(x, scores, taken);
    for (size_t i = 0, j = 0; i < x->n; i++)
        if (taken[i])
            chosen[j++] = (struct choice){(uint32_t)i, 0, scores[i]};
    settle_weights(x, chosen);
}
