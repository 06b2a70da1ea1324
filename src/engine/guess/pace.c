/* Pace: see pace.h. Loss is bounded by an account: every token pays in SHARE of a step, trials pay
 * what they take and earn the tokens they give, and nothing is tried while the account is empty. */
#include "engine/guess/pace.h"

enum {
    FIRST = 4,     /* steps of one row that are measured before anything is tried */
    IN_A_ROW = 128 /* trials, then one more of them */
};

static const float SHARE = 0.004f, START = 1.5f, MOST = 16, SLOPE = 0.15f, FORGET = 0.004f,
                   DEARER = 1.3f;

void pace_init(struct pace *p, size_t crowd)
{
    *p = (struct pace){.crowd = crowd, .credit = START, .largest = 1};
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static void earn(struct pace *p, float steps)
{
    p->credit = (float)clamp((double)(p->credit + steps), -(double)MOST, (double)MOST);
}

void pace_plain(struct pace *p, double seconds)
{
    p->trials = 0;
    if (p->n_base < FIRST) { /* the first ones touch memory for the first time */
        p->base = p->n_base++ && p->base < seconds ? p->base : seconds;
        return;
    }
    /* interrupts make some steps twice as long: they hardly count */
    p->base += (clamp(seconds, p->base * 0.8, p->base * 1.1) - p->base) / 8;
    earn(p, SHARE);
}

/* Cost of a step with rows - 1 guesses: measured, or on a line through what was measured nearby. */
static float cost_of(const struct pace *p, size_t rows)
{
    size_t low = rows, high = rows;
    if (rows <= 1)
        return 1;
    while (low > 1 && p->cost[low] <= 0)
        low--;
    while (high < GUESSES_MOST + 1 && p->cost[high] <= 0)
        high++;
    float from = low > 1 ? p->cost[low] : 1;
    if (low == rows)
        return from;
    float slope = low > 1 ? (from - 1) / (float)(low - 1) : SLOPE;
    if (p->cost[high] > 0)
        slope = (p->cost[high] - from) / (float)(high - low);
    return from + slope * (float)(rows - low);
}

void pace_trial(struct pace *p, double seconds)
{
    size_t rows = p->guesses + 1;
    float *cost = &p->cost[rows], took = (float)(seconds / p->base);
    took = (float)clamp((double)took, 1, 4 * (double)rows);
    if (!p->warm[rows])
        p->warm[rows] = true;
    else if (*cost <= 0)
        *cost = took;
    else /* interrupts hardly count here, either */
        *cost += ((float)clamp((double)took, *cost / 2, *cost * DEARER) - *cost) / 4;
    p->spent = took + p->made;
    p->trials++;
    if (p->largest < rows)
        p->largest = rows;
}

void pace_settle(struct pace *p, size_t tokens)
{
    earn(p, (float)tokens / (float)p->crowd * (1 + SHARE) - p->spent);
}

void pace_waste(struct pace *p, double seconds)
{
    earn(p, -(float)(seconds / p->base));
}

void pace_begin(struct pace *p)
{
    p->guesses = 0;
    p->expected = 1;
    p->made = 0;
}

void pace_add(struct pace *p, const float *chance, size_t n, double extra)
{
    float all = 1;
    for (size_t i = 0; i < n; i++)
        p->expected += (all *= chance[i]) / (float)p->crowd;
    p->guesses += n;
    p->made += extra > 0 ? (float)(extra / p->base) : 0;
}

size_t pace_choose(const struct pace *p, const float *chance, size_t max, float each, float *gain)
{
    size_t best = 0;
    float all = 1, expected = p->expected;
    float more = (p->trials ? 0.1f : 0.25f) / (float)p->crowd; /* hysteresis */
    *gain = expected / (cost_of(p, p->guesses + 1) + p->made) * (1 + more);
    if (p->n_base < FIRST || p->credit <= 0 || p->trials >= IN_A_ROW)
        return 0;
    if (max > GUESSES_MOST - p->guesses)
        max = GUESSES_MOST - p->guesses;
    for (size_t m = 1; m <= max && p->guesses + m < 2 * p->largest; m++) {
        float cost = cost_of(p, p->guesses + m + 1) + p->made + (float)m * each;
        expected += (all *= chance[m - 1]) / (float)p->crowd;
        float now = expected / cost;
        if (now > *gain && cost - 1 <= p->credit) /* also when no guess is right */
            *gain = now, best = m;
    }
    return best;
}

float pace_least(const struct pace *p, size_t m, float each, float gain)
{
    m += p->guesses;
    return gain * (float)p->crowd * (cost_of(p, m + 2) - cost_of(p, m + 1) + each);
}

void pace_pass(struct pace *p)
{
    for (size_t i = 2; i <= GUESSES_MOST + 1; i++)
        if (p->cost[i] > 0)
            p->cost[i] += (1 - p->cost[i]) * FORGET;
}
