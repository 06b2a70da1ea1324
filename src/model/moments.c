/* Means and squares of rows: see moments.h. */
#include "model/moments.h"

#include <math.h>

enum { LANES = 16 };

static float fold(float *lane, size_t n)
{
    for (size_t step = LANES / 2; step; step /= 2)
        for (size_t j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0] / (float)n;
}

float moments_mean(const float *x, size_t n)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % LANES] += x[i];
    return fold(lane, n);
}

float moments_square(const float *x, size_t n, float about)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float d = x[i] - about;
        lane[i % LANES] += d * d;
    }
    return fold(lane, n);
}

void moments_cut(float *x, size_t n, float c)
{
    float mean = moments_mean(x, n);
    float least = mean + sqrtf(moments_square(x, n, mean)) * c;
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > least ? x[i] - least : 0;
}
