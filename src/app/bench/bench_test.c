/* Tests: see bench_test.h. */
#include "app/cli/stopwatch.h"
#include "app/bench/bench_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pass { /* one repetition */
    tern_context *ctx;
    uint32_t n_batch, mtp;
    double seconds;                   /* of evaluation */
    struct tern_cost *cost;           /* added up here, unless NULL */
    struct tern_generate_result made; /* of a test of guesses */
#ifdef TERN_MPI
    struct tern_network *network; /* the same */
#endif
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

/* Adds the next n tokens of a sequence to the batch; the last asks for logits if wanted. */
static enum tern_status add_rows(struct pass *p, uint32_t seq, uint32_t n, bool logits,
                                 struct tern_error *e)
{
    struct tern_model_info info;
    uint64_t at = (uint64_t)tern_seq_length(p->ctx, seq) + seq;
    enum tern_status s = TERN_OK;
    tern_model_info(tern_context_model(p->ctx), &info);
    for (uint32_t i = 0; !s && i < n; i++)
        s = tern_batch_add(p->ctx, seq, (tern_token)(((at + i) * 7919 + 13) % info.vocab),
                           logits && i + 1 == n ? TERN_ROW_LOGITS : 0, e);
    return s;
}

/* Evaluates the next n tokens of sequences first .. end - 1 as one batch. */
static enum tern_status step(struct pass *p, uint32_t first, uint32_t end, uint32_t n, bool logits,
                             struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    double start = stopwatch_now();
    for (uint32_t seq = first; !s && seq < end; seq++)
        s = add_rows(p, seq, n, logits, e);
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

/* The next n tokens of a sequence as a prompt, of whose last row logits are wanted, or not. */
static enum tern_status prompt(struct pass *p, uint32_t seq, uint32_t n, bool logits,
                               struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    while (!s && n) {
        uint32_t part = n < p->n_batch ? n : p->n_batch;
        n -= part;
        s = step(p, seq, seq + 1, part, logits && !n, e);
    }
    return s;
}

enum tern_status bench_fill(tern_context *ctx, const struct bench_plan *plan, struct tern_error *e)
{
    struct pass p = {.ctx = ctx, .n_batch = plan->n_batch};
    enum tern_status s = TERN_OK;
    for (uint32_t seq = 0; !s && seq < plan->n_parallel; seq++)
        s = prompt(&p, seq, plan->depth - tern_seq_keep(ctx, seq, plan->depth), false, e);
    return s;
}

/* Takes the logits that a token was chosen from into the fingerprint, outside of what is timed. */
static int hash_token(void *arg, tern_token token, const float *logits)
{
    struct pass *p = arg;
    double start = stopwatch_now();
    (void)token, (void)logits;
    tern_fingerprint_add(p->ctx);
    p->seconds -= stopwatch_now() - start;
    return 0;
}

/* Continues the text by n_gen tokens, with at most p->mtp guesses at a time. */
static enum tern_status text(struct pass *p, const struct bench_plan *plan, struct tern_error *e)
{
    struct tern_generate_params g = tern_generate_defaults();
    struct tern_sampler_params sampler = tern_sampler_defaults(tern_context_model(p->ctx));
    sampler.seed = 1;
    g.tokens = plan->text, g.n_tokens = plan->n_text, g.n_predict = plan->n_gen, g.ignore_end = 1;
    g.sampler = &sampler, g.mtp = p->mtp, g.on_token = hash_token, g.arg = p;
    enum tern_status s = tern_generate(p->ctx, &g, &p->made, e);
    if (!s && p->made.reason == TERN_STOP_CANCELLED)
        s = e->code = TERN_CANCELLED;
    p->seconds += p->made.generate_seconds;
    return s;
}

static enum tern_status once(struct pass *p, const struct bench_plan *plan, struct tern_error *e)
{
    if (plan->mtp)
        return text(p, plan, e);
    enum tern_status s = prompt(p, 0, plan->n_prompt, true, e);
    for (uint32_t i = 0; !s && i < plan->n_gen; i++)
        s = step(p, 0, plan->n_parallel, 1, true, e);
    return s;
}

#ifdef TERN_MPI
/* Adds what was exchanged since `before`. */
static void add_network(struct tern_network *sum, const struct tern_network *before)
{
    struct tern_network now;
    tern_network(&now);
    sum->calls += now.calls - before->calls;
    sum->sent += now.sent - before->sent;
    sum->received += now.received - before->received;
    sum->gathers += now.gathers - before->gathers;
    sum->gathered += now.gathered - before->gathered;
    sum->wait_seconds += now.wait_seconds - before->wait_seconds;
}
#endif

/* One repetition, and back to the depth. */
static enum tern_status repeat(struct pass *p, const struct bench_plan *plan, struct tern_error *e)
{
    tern_fingerprint_begin(p->ctx);
#ifdef TERN_MPI
    struct tern_network before;
    tern_network(&before);
#endif
    enum tern_status s = once(p, plan, e);
#ifdef TERN_MPI
    if (p->network)
        add_network(p->network, &before);
#endif
    return s ? s : bench_fill(p->ctx, plan, e);
}

/* Enough to touch all that the test will touch: the whole prompt, one token, some guesses. */
static enum tern_status warm_up(tern_context *ctx, const struct bench_plan *plan,
                                struct tern_error *e)
{
    struct bench_plan less = *plan;
    struct pass p = {.ctx = ctx, .n_batch = plan->n_batch, .mtp = plan->mtp};
    uint32_t most = plan->mtp ? 16 : 1;
    less.n_gen = plan->n_gen < most ? plan->n_gen : most;
    return repeat(&p, &less, e);
}

/* The logits of repetition i are those of all before it. */
static enum tern_status check_same(tern_context *ctx, struct bench_result *r, size_t i,
                                   struct tern_error *e)
{
    bool first = r->rows == 0;
    uint64_t fingerprint = tern_fingerprint(ctx, &r->rows);
    if (!first && fingerprint != r->fingerprint) {
        snprintf(e->text, sizeof e->text,
                 "repetition %zu gave other logits (%016llx) than those before it (%016llx)", i + 1,
                 (unsigned long long)fingerprint, (unsigned long long)r->fingerprint);
        return e->code = TERN_INTERNAL;
    }
    r->fingerprint = fingerprint;
    return TERN_OK;
}

/* The text of repetition i without guesses */
static enum tern_status repeat_plain(tern_context *ctx, struct bench_result *r, size_t i,
                                     struct tern_error *e)
{
    struct pass p = {.ctx = ctx, .n_batch = r->plan.n_batch};
    enum tern_status s = repeat(&p, &r->plan, e);
    r->guesses.plain_ns[i] = p.seconds * 1e9;
    return s ? s : check_same(ctx, r, i, e);
}

static enum tern_status repetitions(tern_context *ctx, struct bench_result *r, struct tern_error *e)
{
    struct bench_guesses *g = &r->guesses;
    for (size_t i = 0; i < r->plan.repetitions; i++) {
        struct pass p = {.ctx = ctx,
                         .n_batch = r->plan.n_batch,
                         .mtp = r->plan.mtp,
#ifdef TERN_MPI
                         .network = &r->network,
#endif
                         .cost = i ? NULL : &r->cost};
        enum tern_status s = r->plan.mtp ? repeat_plain(ctx, r, i, e) : TERN_OK;
        if (s || (s = repeat(&p, &r->plan, e)) || (s = check_same(ctx, r, i, e)))
            return s;
        r->ns[i] = p.seconds * 1e9;
        r->ts[i] = (r->plan.n_prompt + (double)r->plan.n_gen * r->plan.n_parallel) / p.seconds;
        g->n_tried += p.made.n_drafted, g->n_right += p.made.n_accepted;
        g->n_steps += p.made.n_steps;
    }
    return TERN_OK;
}

static enum tern_status profile(tern_context *ctx, struct bench_result *r, struct tern_error *e)
{
    struct pass p = {.ctx = ctx, .n_batch = r->plan.n_batch, .mtp = r->plan.mtp};
    enum tern_status s = tern_profile_start(ctx, e);
    if (!s)
        s = once(&p, &r->plan, e);
    r->n_ops = tern_profile(ctx, r->ops, BENCH_MAX_OPS);
    r->ops_seconds = p.seconds;
    tern_profile_stop(ctx);
    return s ? s : bench_fill(ctx, &r->plan, e);
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
    enum tern_status s = bench_fill(ctx, &r->plan, e);
    r->cost = (struct tern_cost){0};
    r->guesses = (struct bench_guesses){0};
    r->n_ops = r->rows = 0;
#ifdef TERN_MPI
    uint32_t rank;
    r->machines = tern_machines(&rank);
    r->network = (struct tern_network){0};
#endif
    if (!s && r->plan.warmup)
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

double bench_plain_ts(const struct bench_result *r)
{
    return r->plan.mtp ? r->plan.n_gen / median(r->guesses.plain_ns, r->plan.repetitions) * 1e9 : 0;
}

double bench_gain(const struct bench_result *r)
{
    return r->plan.mtp ? 100 * (r->median_ts / bench_plain_ts(r) - 1) : 0;
}

double bench_tokens_per_step(const struct bench_result *r)
{
    size_t n = r->guesses.n_steps;
    return n ? (double)(n + r->guesses.n_right) / (double)n : 0;
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

#ifdef TERN_MPI

double bench_a_token(const struct bench_result *r, uint64_t n)
{
    double tokens = r->plan.n_prompt + (double)r->plan.n_gen * r->plan.n_parallel;
    return (double)n / (tokens * (double)r->plan.repetitions);
}

double bench_a_layer(const struct bench_result *r, uint64_t n)
{
    return bench_a_token(r, n) / (double)r->info.n_layers;
}

double bench_waits(const struct bench_result *r)
{
    double seconds = 0;
    for (size_t i = 0; i < r->plan.repetitions; i++)
        seconds += r->ns[i] * 1e-9;
    return bench_percent(r->network.wait_seconds, seconds);
}

#endif
