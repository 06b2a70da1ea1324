/* The activation with numbers of its own: see xielu.h. */
#include "model/xielu.h"

#include "kernels/math.h"

/* log(1 + exp(x)) without overflow */
static float softplus(float x)
{
    return x > 0 ? x + math_log(1 + math_exp(-x)) : math_log(1 + math_exp(x));
}

void xielu_apply(float *y, const float *x, size_t n, const float numbers[4])
{
    float beta = numbers[2], eps = numbers[3];
    float p = softplus(numbers[0]), m = beta + softplus(numbers[1]);
    for (size_t i = 0; i < n; i++) {
        float v = x[i], low = v < eps ? v : eps;
        float above = p * v * v, below = (math_exp(low) - 1 - v) * m;
        y[i] = (v > 0 ? above : below) + beta * v;
    }
}
