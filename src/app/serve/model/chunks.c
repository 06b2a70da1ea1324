/* Rows of prompts for a step: see chunks.h.
 *
 *   a step takes about  base(streams) + rows * beside,  without streams  rows * alone
 *
 * Beside streams, rows may add BESIDE of base: the gap between two tokens then stays below twice what it
 * was, with something left for noise, and a prompt takes about (1 + BESIDE) / BESIDE = 2.7 times at most as long as
 * alone. Where more texts read than run, rows may add as much for each of them. base is measured again every
 * REFRESH steps, by a step without prompts. Without streams a step may take ALONE: so long does a request
 * wait that arrives meanwhile. */
#include "app/serve/model/chunks.h"

#define BESIDE 0.6
#define ALONE 0.25
#define WEIGHT 0.2 /* of the newest time in an average */
#define OUTLIER 1.5

enum { REFRESH = 48, FIRST_BESIDE = 4, FIRST_ALONE = 32, MIN_ALONE = 16 };

static size_t class_of(size_t n_streams)
{
    size_t i = 0;
    while (i + 1 < CHUNKS_CLASSES && ((size_t)1 << i) < n_streams)
        i++;
    return i;
}

/* Of the class, or of the nearest below that was measured, or above. */
static double base_of(const struct chunks *c, size_t n_streams)
{
    size_t class = class_of(n_streams);
    for (size_t i = class + 1; i-- > 0;)
        if (c->base[i] > 0)
            return c->base[i];
    for (size_t i = class; i < CHUNKS_CLASSES; i++)
        if (c->base[i] > 0)
            return c->base[i];
    return 0;
}

static uint32_t clamp(double rows, uint32_t min, uint32_t max)
{
    if (rows >= max)
        return max;
    return rows > min ? (uint32_t)rows : min < max ? min : max;
}

uint32_t chunks_choose(struct chunks *c, size_t n_streams, size_t n_readers)
{
    if (!n_streams)
        return c->alone > 0 ? clamp(ALONE / c->alone, MIN_ALONE, c->max)
                            : clamp(FIRST_ALONE, 1, c->max);
    double base = base_of(c, n_streams), seconds = BESIDE * base;
    if (!(base > 0) || ++c->since > REFRESH) {
        c->since = 0;
        return 0;
    }
    if (n_readers > n_streams)
        seconds *= (double)n_readers / (double)n_streams;
    if (seconds > ALONE)
        seconds = ALONE;
    double wanted = c->beside > 0 ? seconds / c->beside + c->rest : FIRST_BESIDE;
    if (c->last && wanted > 2 * c->last)
        wanted = 2 * c->last;
    c->last = clamp(wanted, 1, c->max);
    c->rest = wanted - c->last > 0 && c->last < c->max ? wanted - c->last : 0;
    return c->last;
}

/* A step that something else on the machine held up counts as OUTLIER times the mean at most. */
static void average(double *mean, double value)
{
    if (*mean > 0 && value > OUTLIER * *mean)
        value = OUTLIER * *mean;
    *mean = *mean > 0 ? *mean + WEIGHT * (value - *mean) : value;
}

void chunks_learn(struct chunks *c, size_t n_streams, size_t n_rows, double seconds)
{
    double base = n_streams ? base_of(c, n_streams) : 0;
    if (!n_streams && n_rows >= MIN_ALONE)
        average(&c->alone, seconds / (double)n_rows);
    else if (n_streams && !n_rows)
        average(&c->base[class_of(n_streams)], seconds);
    else if (n_rows && n_rows >= c->last / 2 && base > 0 && seconds > base)
        average(&c->beside, (seconds - base) / (double)n_rows);
}

double chunks_guess(const struct chunks *c, size_t n_streams, size_t n_rows)
{
    double row = n_streams ? c->beside : c->alone;
    return (n_streams ? base_of(c, n_streams) : 0) + (double)n_rows * row;
}
