/* A pace that tries guesses at random, in the place of the library's, for a test whose bits must not depend
 * on what is guessed. Not for two files of a test. */
#ifndef UNIT_GAMBLING_PACE_H
#define UNIT_GAMBLING_PACE_H

#include "engine/guess/pace.h"

static uint64_t dice_state;

static unsigned dice(unsigned n)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice_state >> 33) % n;
}

void pace_init(struct pace *p, size_t crowd)
{
    *p = (struct pace){.base = 1, .crowd = crowd};
}

void pace_plain(struct pace *p, double seconds)
{
    (void)p, (void)seconds;
}

void pace_trial(struct pace *p, double seconds)
{
    (void)p, (void)seconds;
}

void pace_settle(struct pace *p, size_t tokens)
{
    (void)p, (void)tokens;
}

void pace_begin(struct pace *p)
{
    (void)p;
}

size_t pace_choose(const struct pace *p, const float *chance, size_t max, float each, float *gain)
{
    (void)p, (void)chance, (void)each;
    *gain = (float)dice(100);
    return dice(4) ? dice((unsigned)max + 1) : 0;
}

void pace_add(struct pace *p, const float *chance, size_t n, double extra)
{
    (void)p, (void)chance, (void)n, (void)extra;
}

void pace_pass(struct pace *p)
{
    p->credit = 1e9f;
}

void pace_waste(struct pace *p, double seconds)
{
    (void)p, (void)seconds;
}

float pace_least(const struct pace *p, size_t m, float each, float gain)
{
    (void)p, (void)m, (void)each, (void)gain;
    return (float)dice(100) / 1e2f;
}

#endif
