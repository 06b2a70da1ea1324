/* Sampler: see sampler.h. */
#include "sample/sampler.h"

#include "kernels/math.h"
#include "sample/candidates.h"
#include "sample/penalties.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- parameters --------------------------------------------------------------------------- */

/* Of the stages in the order of enum tern_stage, which is the default order. */
static const char names[] = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature;";

struct tern_sampler_params sampler_defaults(void)
{
    return (struct tern_sampler_params){.temperature = 0.8f,
                                        .top_k = 40,
                                        .top_p = 0.95f,
                                        .min_p = 0.05f,
                                        .repeat_penalty = 1,
                                        .repeat_last_n = 64,
                                        .typical_p = 1,
                                        .xtc_threshold = 0.1f,
                                        .dry_base = 1.75f,
                                        .dry_allowed_length = 2,
                                        .dry_last_n = UINT32_MAX,
                                        .mirostat_tau = 5,
                                        .mirostat_eta = 0.1f};
}

#define RANGE(name, min, max)                                       \
    {                                                               \
#name, offsetof(struct tern_sampler_params, name), min, max \
    }

static const struct value_range {
    char name[18];
    unsigned char offset;
    float min, max;
} ranges[] = {
    RANGE(temperature, 0, 1000),
    RANGE(top_p, 0, 1),
    RANGE(min_p, 0, 1),
    RANGE(repeat_penalty, 0, 1000),
    RANGE(frequency_penalty, -1000, 1000),
    RANGE(presence_penalty, -1000, 1000),
    RANGE(typical_p, 0, 1),
    RANGE(top_n_sigma, -1, 1000),
    RANGE(xtc_probability, 0, 1),
    RANGE(xtc_threshold, 0, 1),
    RANGE(dry_multiplier, 0, 1000),
    RANGE(dry_base, 0, 1000),
    RANGE(mirostat_tau, 0, 1000),
    RANGE(mirostat_eta, 0, 1),
};

static enum tern_status check_bias(const struct tern_sampler_params *p, size_t vocab,
                                   struct tern_error *e)
{
    for (size_t i = 0; i < p->n_bias; i++)
        if (p->bias[i].token < 0 || (size_t)p->bias[i].token >= vocab || isnan(p->bias[i].value))
            return error_set(e, TERN_USAGE,
                             "sampler: the bias of token %d is %g, want a number and a token of a "
                             "vocabulary of %zu",
                             (int)p->bias[i].token, (double)p->bias[i].value, vocab);
    return TERN_OK;
}

enum tern_status sampler_check(const struct tern_sampler_params *p, size_t vocab,
                               struct tern_error *e)
{
    for (const struct value_range *r = ranges; r < ranges + sizeof ranges / sizeof *ranges; r++) {
        float value;
        memcpy(&value, (const char *)p + r->offset, sizeof value);
        if (!(value >= r->min && value <= r->max))
            return error_set(e, TERN_USAGE, "sampler: %s is %g, want %g to %g", r->name,
                             (double)value, (double)r->min, (double)r->max);
    }
    if (p->mirostat & ~2u)
        return error_set(e, TERN_USAGE, "sampler: mirostat is %u, want 0 or 2", p->mirostat);
    for (size_t i = 0; p->n_dry_breakers && p->dry_breakers && i < p->n_dry_breakers; i++)
        if (strlen(p->dry_breakers[i]) > DRY_BREAKER_MAX)
            return error_set(e, TERN_USAGE, "sampler: a breaker has %zu bytes, want at most %d",
                             strlen(p->dry_breakers[i]), DRY_BREAKER_MAX);
    return check_bias(p, vocab, e);
}

/* The stage that text[0 .. n) names, or 0. */
static unsigned char find_stage(const char *text, size_t n)
{
    unsigned char stage = 1;
    for (const char *name = names; *name; name = strchr(name, ';') + 1, stage++)
        if (name[n] == ';' && !memcmp(name, text, n))
            return stage;
    return 0;
}

const char *sampler_stage(size_t stage, size_t *n)
{
    const char *name = names;
    while (--stage)
        name = strchr(name, ';') + 1;
    *n = strcspn(name, ";");
    return name;
}

enum tern_status sampler_order(struct tern_sampler_params *p, const char *text,
                               struct tern_error *e)
{
    size_t n, k = 0;
    for (; *text; text += n + (text[n] != 0)) {
        n = strcspn(text, ";");
        unsigned char stage = n < sizeof "temperature" ? find_stage(text, n) : 0;
        if (!stage || memchr(p->order, stage, k))
            return error_set(e, TERN_USAGE, "sampler '%.*s' is unknown or comes twice, of %s",
                             (int)(n < 40 ? n : 40), text, names);
        p->order[k++] = stage;
    }
    if (!k)
        return error_set(e, TERN_USAGE, "no sampler is named, of %s", names);
    memset(p->order + k, 0, sizeof p->order - k);
    return TERN_OK;
}

/* ---- random numbers ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float sampler_uniform(uint64_t seed, uint64_t index, uint64_t draw)
{
    uint64_t z = mix(mix(mix(seed) + index) + draw);
    return (float)(z >> 40) * 0x1p-24f;
}

/* ---- stages ------------------------------------------------------------------------------- */

struct pick {
    const struct tern_sampler_params *p;
    const tern_token *history;
    size_t n_history;
    uint64_t index;
    const uint32_t *mask;
    struct candidates c;
};

typedef void (*penalty_fn)(const struct sampler *s, const struct tern_sampler_params *p, float *x,
                           uint32_t *count, const tern_token *history, size_t n);

static void punish(struct pick *g, penalty_fn penalty)
{
    candidates_change(&g->c);
    penalty(g->c.s, g->p, g->c.own, (uint32_t *)(void *)g->c.spare, g->history, g->n_history);
    candidates_changed(&g->c);
}

static bool is_allowed(const struct pick *g, tern_token id)
{
    return (size_t)id < g->c.s->vocab && (!g->mask || g->mask[id / 32] >> id % 32 & 1);
}

/* Returns the first token that becomes infinite, which is always taken, or -1. */
static tern_token add_bias(struct pick *g)
{
    const struct tern_bias *bias = g->p->bias;
    tern_token always = -1;
    candidates_change(&g->c);
    for (size_t i = 0; i < g->p->n_bias; i++) /* tern_sample's are not checked */
        if (is_allowed(g, bias[i].token))
            g->c.own[bias[i].token] += bias[i].value;
    for (size_t i = 0; i < g->p->n_bias; i++)
        if (is_allowed(g, bias[i].token) && g->c.own[bias[i].token] == INFINITY &&
            (always < 0 || bias[i].token < always))
            always = bias[i].token;
    candidates_changed(&g->c);
    return always;
}

/* The fewest best that reach `share` of all weights. */
static void cut_top_p(struct candidates *c, float share)
{
    double target = (double)share * candidates_total(c), sum = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        sum += (double)candidates_weight(c, i);
        if (sum >= target)
            c->n = i + 1;
    }
}

/* Those with at least `share` of the largest weight. */
static void cut_min_p(struct candidates *c, float share)
{
    for (size_t i = 1; i < c->n; i++)
        if (candidates_weight(c, i) < share)
            c->n = i;
}

static void cut_top_n_sigma(struct candidates *c, float n)
{
    float reach = n * (float)candidates_deviation(c), best = candidates_at(c, 0).value;
    for (size_t i = 1; i < c->n; i++)
        if ((best - candidates_at(c, i).value) / c->t > reach)
            c->n = i;
}

static void cut_xtc(struct candidates *c, float threshold)
{
    double least = (double)threshold * candidates_total(c);
    size_t n = 0;
    while (n < c->n && (double)candidates_weight(c, n) >= least)
        n++;
    if (n > 1)
        c->first += n - 1, c->n -= n - 1;
}

/* -log2 p > mu where log p < -mu * log 2. */
static void cut_surprise(struct candidates *c, float mu)
{
    cut_min_p(c, math_exp(-mu * 0x1.62e43p-1f) * (float)candidates_total(c));
}

static tern_token draw(struct candidates *c, float u, double *p)
{
    double total = candidates_total(c), sum = 0.0;
    size_t i = 0;
    for (; i + 1 < c->n; i++) {
        sum += (double)candidates_weight(c, i);
        if (sum > (double)u * total)
            break;
    }
    *p = (double)candidates_weight(c, i) / total;
    return candidates_at(c, i).id;
}

/* The stages that change values; greedy and mirostat know no others. */
static bool changes(enum tern_stage stage)
{
    return stage == TERN_STAGE_PENALTIES || stage == TERN_STAGE_DRY;
}

static void apply(struct pick *g, enum tern_stage stage)
{
    const struct tern_sampler_params *p = g->p;
    struct candidates *c = &g->c;
    if (stage == TERN_STAGE_PENALTIES && ((p->repeat_penalty != 1 && p->repeat_penalty != 0) ||
                                          p->frequency_penalty != 0 || p->presence_penalty != 0))
        punish(g, penalties_repeat);
    if (stage == TERN_STAGE_DRY && p->dry_multiplier > 0)
        punish(g, penalties_dry);
    if (stage == TERN_STAGE_TEMPERATURE)
        c->t *= p->temperature;
    if (p->mirostat || c->n == 1)
        return;
    if (stage == TERN_STAGE_TOP_N_SIGMA && p->top_n_sigma > 0)
        cut_top_n_sigma(c, p->top_n_sigma);
    if (stage == TERN_STAGE_TOP_K && p->top_k && p->top_k < c->n)
        c->n = p->top_k;
    if (stage == TERN_STAGE_TYPICAL && p->typical_p > 0 && p->typical_p < 1)
        candidates_keep_typical(c, p->typical_p);
    if (stage == TERN_STAGE_TOP_P && p->top_p < 1)
        cut_top_p(c, p->top_p);
    if (stage == TERN_STAGE_MIN_P && p->min_p > 0)
        cut_min_p(c, p->min_p);
    if (stage == TERN_STAGE_XTC && sampler_uniform(p->seed, g->index, 1) < p->xtc_probability)
        cut_xtc(c, p->xtc_threshold);
}

static bool is_empty(const uint32_t *mask, size_t vocab)
{
    size_t i = 0, n = vocab / 32;
    while (i < n && !mask[i])
        i++;
    return i == n && !(vocab % 32 && mask[n] << (32 - vocab % 32));
}

tern_token sampler_pick(const struct sampler *s, const struct tern_sampler_params *params,
                        const float *logits, const tern_token *history, size_t n_history,
                        uint64_t index, const uint32_t *mask)
{
    struct pick g = {params, history, n_history, index, mask, {0}};
    struct candidates *c = &g.c;
    float mu = params->mu ? *params->mu : 2 * params->mirostat_tau;
    bool greedy = params->temperature == 0.0f;
    double p;
    candidates_init(c, s, logits);
    if (params->n_bias) {
        tern_token always = add_bias(&g);
        if (always >= 0)
            return always;
    }
    if (mask && is_empty(mask, s->vocab))
        return -1;
    if (mask)
        candidates_allow(c, mask);
    for (unsigned i = 0; i < TERN_N_STAGES - 1; i++) {
        enum tern_stage stage = params->order[0] ? params->order[i] : i + 1;
        if (!greedy || changes(stage))
            apply(&g, stage);
    }
    if (greedy)
        return candidates_largest(c);
    if (!isfinite(candidates_at(c, 0).value))
        return candidates_at(c, 0).id;
    if (params->mirostat)
        cut_surprise(c, mu);
    tern_token token = draw(c, sampler_uniform(params->seed, index, 0), &p);
    if (params->mirostat && params->mu)
        *params->mu = mu - params->mirostat_eta *
                               (-math_log((float)p) * 0x1.715476p0f - params->mirostat_tau);
    return token;
}

#ifdef TERN_MPI

/* Whether a stage does anything to the values of a whole vocabulary, or reads them all */
static bool reads_all(const struct tern_sampler_params *p, enum tern_stage stage)
{
    switch (stage) {
    case TERN_STAGE_PENALTIES:
        return (p->repeat_penalty != 1 && p->repeat_penalty != 0) || p->frequency_penalty != 0 ||
               p->presence_penalty != 0;
    case TERN_STAGE_DRY: return p->dry_multiplier > 0;
    case TERN_STAGE_TOP_N_SIGMA: return p->top_n_sigma > 0;
    case TERN_STAGE_TYPICAL: return p->typical_p > 0 && p->typical_p < 1;
    case TERN_STAGE_TOP_P: return p->top_p < 1;
    case TERN_STAGE_XTC: return p->xtc_probability > 0;
    case TERN_STAGE_MIN_P: return p->min_p > 0;
    default: return false;
    }
}

size_t sampler_reads(const struct tern_sampler_params *p)
{
    bool greedy = p->temperature == 0, all = p->n_bias || (p->mirostat && !greedy);
    for (unsigned i = 0; i < TERN_N_STAGES - 1 && !all; i++) {
        enum tern_stage stage = p->order[0] ? p->order[i] : i + 1;
        if (stage == TERN_STAGE_TOP_K && p->top_k && !greedy)
            return p->top_k;
        all = reads_all(p, stage) && (!greedy || changes(stage));
    }
    return greedy && !all ? 1 : 0;
}

#endif
