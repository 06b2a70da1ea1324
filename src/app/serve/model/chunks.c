/* Rows of prompts for a step: see chunks.h.
 *
 *   a step takes about  base(streams) + quads(n) + (rows + READ) * depth * seen
 *   without streams       rows * alone
 *
 * n: how many groups of four rows the batch has more than that of the streams, because kernels compute four
 * rows in the time of one to three. depth: positions that a row of the prompt attends to; reading them costs
 * as much as READ rows more. Each prompt has its own depth.
 *
 * Beside streams, a step may take BESIDE times what one took before the prompt came: the gap between two
 * tokens then stays below twice what it was, with something left for noise. Streams grow meanwhile, and
 * leave less to the prompt, but rows may always add LEAST of base. A prompt takes two and a half to three
 * times as long as alone: its few rows cost more each than many do, most where attention reads far back.
 * Where more texts read than run, rows may add as much for each of them. base is measured again every
 * REFRESH steps, by a step without prompts. Without streams a step may take ALONE: so long does a request
 * wait that arrives meanwhile.
 */
#include "app/serve/model/chunks.h"

#include <math.h>
#include <stdbool.h>

#define BESIDE 1.80
#define LEAST 0.5
#define ALONE 0.25
#define WEIGHT 0.2  /* of the newest time in an average */
#define FORGET 0.02 /* of what more quads cost, with each step of fewer */
#define OUTLIER 1.3 /* times what was expected */
#define NEAR 0.02   /* by so much of itself a median moves at most with each time */

enum {
    REFRESH = 48,
    FIRST_BESIDE = 4,
    FIRST_ALONE = 32,
    MIN_ALONE = 16,
    QUAD = 4,
    GROWTH = 4,  /* part of the rows of a step that the next may have more */
    SEEN = 4096, /* row times positions that `seen` is for */
    READ = 2,    /* rows */
};

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

/* One row alone has kernels of its own. */
static size_t quads_of(size_t n_rows)
{
    return n_rows > 1 ? (n_rows + QUAD - 1) / QUAD : 0;
}

static size_t quads_added(size_t n_streams, size_t n_rows)
{
    return quads_of(n_streams + n_rows) - quads_of(n_streams);
}

static size_t place_of(size_t n)
{
    return n < CHUNKS_QUADS ? n : CHUNKS_QUADS - 1;
}

/* As measured, or in proportion to the nearest number that was, which is rather a smaller one. */
static double seconds_of_quads(const struct chunks *c, size_t n)
{
    for (size_t i = place_of(n); i > 0; i--)
        if (c->quads[i] > 0)
            return c->quads[i] * (double)n / (double)i;
    for (size_t i = n; n && i < CHUNKS_QUADS; i++)
        if (c->quads[i] > 0)
            return c->quads[i] * (double)n / (double)i;
    return 0;
}

/* What the first n_rows rows of the prompts attend to */
static double seen_by(size_t n_rows, const struct prompt_readers *r)
{
    double seen = 0;
    for (size_t i = 0, rows; i < r->n && n_rows; i++, n_rows -= rows) {
        rows = n_rows < r->of[i].unread ? n_rows : r->of[i].unread;
        seen += (double)(rows + READ) * (double)r->of[i].depth;
    }
    return seen / SEEN;
}

static double seconds_added(const struct chunks *c, size_t n_streams, size_t n_rows,
                            const struct prompt_readers *r)
{
    return seconds_of_quads(c, quads_added(n_streams, n_rows)) + seen_by(n_rows, r) * c->seen;
}

/* The number of rows that go fastest, of those that add so many seconds at most. What more rows than in the
 * step before cost is only guessed. */
static uint32_t best_rows(const struct chunks *c, size_t n_streams, const struct prompt_readers *r,
                          double base, double seconds)
{
    uint32_t more = c->last / GROWTH > QUAD ? c->last / GROWTH : QUAD, best = 1;
    uint32_t most = c->last + more < c->max ? c->last + more : c->max;
    double rate = 0;
    for (uint32_t rows = 1; rows <= most; rows++) {
        double added = seconds_added(c, n_streams, rows, r);
        if (added <= seconds && (double)rows >= rate * (base + added)) {
            rate = (double)rows / (base + added);
            best = rows;
        }
    }
    return best;
}

/* Before the last prompt came, or since there are so many streams. What others on the machine do makes
 * base longer for a while, but hardly the median. */
static void note_before(struct chunks *c, size_t n_streams, const struct prompt_readers *r,
                        double base)
{
    size_t unread = 0;
    double median = c->median[class_of(n_streams)];
    for (size_t i = 0; i < r->n; i++)
        unread += r->of[i].unread;
    if (unread > c->unread || n_streams != c->n_streams || !(c->before > 0))
        c->before = median > 0 ? fmin(median, base) : base;
    c->unread = unread;
    c->n_streams = n_streams;
}

uint32_t chunks_choose(struct chunks *c, size_t n_streams, const struct prompt_readers *r)
{
    if (!n_streams)
        return c->alone > 0 ? clamp(ALONE / c->alone, MIN_ALONE, c->max)
                            : clamp(FIRST_ALONE, 1, c->max);
    double base = base_of(c, n_streams);
    note_before(c, n_streams, r, base);
    double seconds = fmax(BESIDE * c->before - base, LEAST * base);
    if (!(base > 0) || ++c->since > REFRESH) {
        c->since = 0;
        return 0;
    }
    if (r->n > n_streams)
        seconds *= (double)r->n / (double)n_streams;
    if (seconds > ALONE)
        seconds = ALONE;
    c->last = c->last ? best_rows(c, n_streams, r, base, seconds) : clamp(FIRST_BESIDE, 1, c->max);
    return c->last;
}

static void average(double *mean, double value)
{
    *mean = *mean > 0 ? *mean + WEIGHT * (value - *mean) : value;
}

static void follow(double *median, double value)
{
    double most = NEAR * *median;
    *median = *median > 0 ? *median + fmax(-most, fmin(most, value - *median)) : value;
}

/* Of streams alone */
static void learn_base(struct chunks *c, size_t n_streams, double seconds)
{
    average(&c->base[class_of(n_streams)], seconds);
    follow(&c->median[class_of(n_streams)], seconds);
}

/* Something else on the machine held this step up, but not all steps. */
static bool is_outlier(struct chunks *c, double expected, double seconds)
{
    bool late = expected > 0 && seconds > OUTLIER * expected;
    c->late = late ? c->late + 1 : 0;
    return late && c->late < 3;
}

/* Both costs move by their share of the error. What more quads cost is forgotten in time, so that they are
 * tried again. */
static void learn_beside(struct chunks *c, size_t n_streams, size_t n_rows,
                         const struct prompt_readers *r, double seconds)
{
    size_t n = quads_added(n_streams, n_rows), at = place_of(n);
    double seen = seen_by(n_rows, r);
    double error = seconds - seconds_added(c, n_streams, n_rows, r);
    double share = WEIGHT / (1 + seen * seen);
    double quads = fmax(0, seconds_of_quads(c, n) + (c->quads[at] > 0 ? share : 1) * error);
    if (n)
        c->quads[at] = quads * (double)at / (double)n;
    for (size_t i = at + 1; n && i < CHUNKS_QUADS; i++)
        if (c->quads[i] > 0)
            c->quads[i] += FORGET * (quads * (double)i / (double)n - c->quads[i]);
    c->seen = fmax(0, c->seen + share * seen * error);
}

void chunks_learn(struct chunks *c, size_t n_streams, size_t n_rows, const struct prompt_readers *r,
                  double seconds)
{
    double base = n_streams ? base_of(c, n_streams) : 0;
    if (!r->n)
        c->unread = 0;
    bool is_known = !n_streams || !n_rows || seconds_added(c, n_streams, n_rows, r) > 0;
    if (is_known && is_outlier(c, chunks_guess(c, n_streams, n_rows, r), seconds))
        return;
    if (!n_streams && n_rows >= MIN_ALONE)
        average(&c->alone, seconds / (double)n_rows);
    else if (n_streams && !n_rows)
        learn_base(c, n_streams, seconds);
    else if (n_streams && base > 0)
        learn_beside(c, n_streams, n_rows, r, seconds - base);
}

double chunks_guess(const struct chunks *c, size_t n_streams, size_t n_rows,
                    const struct prompt_readers *r)
{
    if (!n_streams)
        return (double)n_rows * c->alone;
    return base_of(c, n_streams) + seconds_added(c, n_streams, n_rows, r);
}
