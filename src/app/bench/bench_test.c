/* Tests: see bench_test.h. */
#include "app/cli/stopwatch.h"
#include "app/bench/bench_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pass { /* one repetition */
    tern_context *ctx;
    uint32_t n_batch;
    double seconds;         /* of evaluation */
    struct tern_cost *cost; /* added up here, unless NULL */
};

static void add_cost(struct pass *p)
{
    struct tern_cost c;
    tern_batch_cost(p->ctx, &c);
    p->cost->weight_bytes += c.weight_bytes;
    p->cost->cache_bytes += c.cache_bytes;
    p->cost->matmul_macs += c.matmul_macs;
    p->cost->attention_macs += c.attention_macs;
}

/* Evaluates the next n tokens as one batch; the last asks for logits if wanted. */
static enum tern_status step(struct pass *p, uint32_t n, bool logits, struct tern_error *e)
{
    struct tern_model_info info;
    uint64_t length = tern_seq_length(p->ctx, 0);
    enum tern_status s = TERN_OK;
    tern_model_info(tern_context_model(p->ctx), &info);
    double start = stopwatch_now();
    for (uint32_t i = 0; !s && i < n; i++)
        s = tern_batch_add(p->ctx, 0, (tern_token)(((length + i) * 7919 + 13) % info.vocab),
                           logits && i + 1 == n ? TERN_ROW_LOGITS : 0, e);
    p->seconds += stopwatch_now() - start;
    if (p->cost && !s)
        add_cost(p);
    start = stopwatch_now();
    if (!s)
        s = tern_forward(p->ctx);
    p->seconds += stopwatch_now() - start;
    if (!s && logits)
        tern_fingerprint_add(p->ctx);
    return s;
}

/* The next n tokens as a prompt, of whose last row logits are wanted, or not. */
static enum tern_status prompt(struct pass *p, uint32_t n, bool logits, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    while (!s && n) {
        uint32_t part = n < p->n_batch ? n : p->n_batch;
        n -= part;
        s = step(p, part, logits && !n, e);
    }
    return s;
}

enum tern_status bench_fill(tern_context *ctx, uint32_t depth, uint32_t n_batch,
                            struct tern_error *e)
{
    struct pass p = {.ctx = ctx, .n_batch = n_batch};
    uint32_t kept = tern_seq_keep(ctx, 0, depth);
    return prompt(&p, depth - kept, false, e);
}

/* One repetition, and back to the depth. */
static enum tern_status repeat(struct pass *p, const struct bench_plan *plan, struct tern_error *e)
{
    tern_fingerprint_begin(p->ctx);
    enum tern_status s = prompt(p, plan->n_prompt, true, e);
    for (uint32_t i = 0; !s && i < plan->n_gen; i++)
        s = step(p, 1, true, e);
    if (!s)
        s = bench_fill(p->ctx, plan->depth, plan->n_batch, e);
    return s;
}

/* Enough to touch all that the test will touch: the whole prompt, one token. */
static enum tern_status warm_up(tern_context *ctx, const struct bench_plan *plan,
                                struct tern_error *e)
{
    struct bench_plan less = *plan;
    struct pass p = {.ctx = ctx, .n_batch = plan->n_batch};
    less.n_gen = plan->n_gen > 0;
    return repeat(&p, &less, e);
}

static enum tern_status repetitions(tern_context *ctx, struct bench_result *r, struct tern_error *e)
{
    for (size_t i = 0; i < r->plan.repetitions; i++) {
        struct pass p = {.ctx = ctx, .n_batch = r->plan.n_batch, .cost = i ? NULL : &r->cost};
        enum tern_status s = repeat(&p, &r->plan, e);
        if (s)
            return s;
        r->ns[i] = p.seconds * 1e9;
        r->ts[i] = (double)(r->plan.n_prompt + r->plan.n_gen) / p.seconds;
        uint64_t fingerprint = tern_fingerprint(ctx, &r->rows);
        if (i && fingerprint != r->fingerprint) {
            snprintf(e->text, sizeof e->text,
                     "repetition %zu gave other logits (%016llx) than those before it (%016llx)",
                     i + 1, (unsigned long long)fingerprint, (unsigned long long)r->fingerprint);
            return e->code = TERN_INTERNAL;
        }
        r->fingerprint = fingerprint;
    }
    return TERN_OK;
}

static enum tern_status profile(tern_context *ctx, struct bench_result *r, struct tern_error *e)
{
    struct pass p = {.ctx = ctx, .n_batch = r->plan.n_batch};
    uint32_t depth = r->plan.depth;
    enum tern_status s = tern_profile_start(ctx, e);
    if (!s)
        s = prompt(&p, r->plan.n_prompt, true, e);
    for (uint32_t i = 0; !s && i < r->plan.n_gen; i++)
        s = step(&p, 1, true, e);
    r->n_ops = tern_profile(ctx, r->ops, BENCH_MAX_OPS);
    r->ops_seconds = p.seconds;
    tern_profile_stop(ctx);
    return s ? s : bench_fill(ctx, depth, r->plan.n_batch, e);
}

/* ---- statistics --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *v, size_t n)
{
    double sorted[BENCH_MAX_REPETITIONS];
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, compare);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Mean and standard deviation of the sample (n - 1; 0 for one value). */
static double mean(const double *v, size_t n, double *deviation)
{
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    for (size_t i = 0; i < n; i++)
        square += (v[i] - sum / (double)n) * (v[i] - sum / (double)n);
    *deviation = n > 1 ? sqrt(square / (double)(n - 1)) : 0;
    return sum / (double)n;
}

enum tern_status bench_run(tern_context *ctx, struct bench_result *r, struct tern_error *e)
{
    size_t n = r->plan.repetitions;
    enum tern_status s = TERN_OK;
    r->cost = (struct tern_cost){0};
    r->n_ops = 0;
    if (r->plan.warmup)
        s = warm_up(ctx, &r->plan, e);
    if (!s)
        s = repetitions(ctx, r, e);
    if (!s && r->plan.ops)
        s = profile(ctx, r, e);
    if (s)
        return s;
    r->avg_ns = mean(r->ns, n, &r->stddev_ns);
    r->avg_ts = mean(r->ts, n, &r->stddev_ts);
    r->median_ns = median(r->ns, n);
    r->median_ts = median(r->ts, n);
    return tern_numeric_status(ctx, e);
}

double bench_gbs(const struct bench_result *r)
{
    return (double)(r->cost.weight_bytes + r->cost.cache_bytes) / r->avg_ns;
}

double bench_gmacs(const struct bench_result *r)
{
    return (double)(r->cost.matmul_macs + r->cost.attention_macs) / r->avg_ns;
}

double bench_percent(double value, double limit)
{
    return limit > 0 ? 100 * value / limit : 0;
}
