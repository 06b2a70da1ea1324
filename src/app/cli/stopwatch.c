/* Time: see stopwatch.h. */
#include "app/cli/stopwatch.h"

#include <time.h>

double stopwatch_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
