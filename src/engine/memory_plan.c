/* tern_context_plan: what a context will take. See memory_plan.h. */
#include "engine/memory_plan.h"

#include "base/bytes.h"
#include "base/machines.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "engine/lead.h"
#include "model/cache.h"
#include "model/split.h"
#include "model/state.h"

enum { DEFAULT_BATCH = 512, MAX_BATCH = 1 << 16, MAX_SEQS = 4096, MAX_CTX = 1 << 24 };

struct cache_request memory_plan_cache(const struct tern_memory *p)
{
    return (struct cache_request){p->cache_type, p->n_ctx, p->n_batch, p->n_seqs, p->prefix};
}

/* What this machine holds of it */
static uint64_t cache_here(const struct cache_memory *taken)
{
#ifdef TERN_MPI
    return taken->bytes - taken->elsewhere;
#else
    return taken->bytes;
#endif
}

/* Fills cache and batch; *sum is what is here of both, or UINT64_MAX when that does not fit. */
static enum tern_status measure(const struct tern_model *m, struct tern_memory *p, uint64_t *sum,
                                struct tern_error *e)
{
    struct cache_request request = memory_plan_cache(p);
    struct cache_memory taken = {0};
    enum tern_status s = cache_bytes(m->model, &request, &taken, e);
    p->cache = taken.bytes, p->states = taken.states, p->prefix = taken.prefix;
    p->n_snapshots = (uint32_t)taken.n_snapshots;
    p->batch = state_bytes(m->model, p->n_ctx, p->n_batch, p->n_logits, pool_threads(m->pool));
    if (!size_add(cache_here(&taken), p->batch, sum))
        *sum = UINT64_MAX;
    return s;
}

/* The largest context, in whole pages but at most the model's, that half the free memory holds. */
static enum tern_status reduce_context(const struct tern_model *m, struct tern_memory *p,
                                       uint64_t *sum, struct tern_error *e)
{
    uint32_t full = p->n_ctx, low = 1, high = (full + BLOCK - 1) / BLOCK;
    enum tern_status s = TERN_OK;
    while (low < high && !s) {
        uint32_t middle = low + (high - low + 1) / 2;
        p->n_ctx = middle * BLOCK;
        s = measure(m, p, sum, e);
        if (*sum <= p->available / 2 / machines_beside())
            low = middle;
        else
            high = middle - 1;
    }
    p->n_ctx = low * BLOCK < full ? low * BLOCK : full;
    p->reduced = p->n_ctx < full;
    return s ? s : measure(m, p, sum, e);
}

enum tern_status memory_plan_check(const struct model *m, const struct tern_memory *p,
                                   struct tern_error *e)
{
    if (!tern_cache_type_name(p->cache_type))
        return error_set(e, TERN_USAGE, "cache type %d is unknown", (int)p->cache_type);
    if (m->positions && p->n_ctx > m->max_seq)
        return error_set(e, TERN_USAGE,
                         "a context of %u positions was asked for, but the model has learned %zu",
                         p->n_ctx, m->max_seq);
    if (p->n_ctx > MAX_CTX || p->n_batch > MAX_BATCH || p->n_seqs > MAX_SEQS)
        return error_set(e, TERN_USAGE,
                         "a context of %u positions, batch %u and %u sequences was asked for, at "
                         "most %d, %d and %d are possible",
                         p->n_ctx, p->n_batch, p->n_seqs, MAX_CTX, MAX_BATCH, MAX_SEQS);
    if (!p->n_ctx || !p->n_batch || !p->n_seqs || !p->n_logits || p->n_logits > p->n_batch)
        return error_set(e, TERN_USAGE, "the plan of the context was not made");
#ifdef TERN_MPI
    if (split_bytes(m, p->n_batch, p->n_logits) > MOST_GATHERED)
        return error_set(e, TERN_USAGE,
                         "a batch of %u rows, %u with logits, is too large to travel between "
                         "machines: ask for a smaller one",
                         p->n_batch, p->n_logits);
#endif
    return TERN_OK;
}

static enum tern_status too_large(const struct tern_memory *p, struct tern_error *e)
{
    if (p->cache == UINT64_MAX || p->batch == UINT64_MAX)
        return error_set(e, TERN_NO_MEMORY,
                         "a context of %u positions for %u sequences is larger than any memory: "
                         "ask for a smaller context",
                         p->n_ctx, p->n_seqs);
    return error_set(e, TERN_NO_MEMORY,
                     "a context of %u positions needs %llu MiB of cache and %llu MiB for the "
                     "batch, %llu MiB are free: ask for a smaller context",
                     p->n_ctx, (unsigned long long)(p->cache >> 20),
                     (unsigned long long)(p->batch >> 20),
                     (unsigned long long)(p->available >> 20));
}

#ifdef TERN_MPI

enum tern_status memory_plan_again(const struct tern_model *m, struct tern_memory *plan,
                                   struct tern_error *e)
{
    uint64_t sum;
    plan->weights = weights_own_bytes(m->model->weights);
    plan->available = memory_available();
    enum tern_status s = measure(m, plan, &sum, e);
    return s || sum <= plan->available ? s : too_large(plan, e);
}

uint64_t memory_plan_elsewhere(const struct tern_model *m, const struct tern_memory *plan)
{
    struct cache_request request = memory_plan_cache(plan);
    struct cache_memory taken = {0};
    return cache_bytes(m->model, &request, &taken, NULL) ? 0 : taken.elsewhere;
}

uint64_t memory_plan_alone(const struct tern_model *m, const struct tern_memory *plan)
{
    struct model whole = *m->model;
    struct tern_model alone = *m;
    struct tern_memory there = *plan;
    uint64_t sum;
    there.prefix = 0; /* as much as is left */
    alone.model = &whole;
    whole.split = NULL;
    (void)measure(&alone, &there, &sum, NULL);
    return size_add(sum, weights_file_bytes(whole.weights), &sum) ? sum : UINT64_MAX;
}

#endif

static enum tern_status plan_here(const struct tern_model *m, const struct tern_context_params *p,
                                  struct tern_memory *plan, struct tern_error *e)
{
    uint64_t rows, sum;
    *plan = (struct tern_memory){
        .weights = weights_own_bytes(m->model->weights),
        .available = memory_available(),
        .n_ctx = p->n_ctx ? p->n_ctx : (uint32_t)m->model->max_seq,
        .n_seqs = p->n_seqs ? p->n_seqs : 1,
        .n_batch = p->n_batch ? p->n_batch : DEFAULT_BATCH,
        .cache_type = p->cache_type,
        .fingerprint = p->fingerprint,
        .prefix = p->prefix_bytes,
        .n_logits = p->n_logits ? p->n_logits : TERN_DEFAULT_LOGITS,
    };
    rows = (uint64_t)plan->n_ctx * plan->n_seqs;
    if (plan->n_batch > rows)
        plan->n_batch = (uint32_t)rows;
    if (plan->n_logits > plan->n_batch)
        plan->n_logits = plan->n_batch;
    enum tern_status s = memory_plan_check(m->model, plan, e);
    if (!s)
        s = measure(m, plan, &sum, e);
    if (!s && !p->n_ctx && sum > plan->available / 2 / machines_beside())
        s = reduce_context(m, plan, &sum, e);
    if (s) /* no number that was not found out */
        plan->cache = plan->batch = 0;
    return s || sum <= plan->available ? s : too_large(plan, e);
}

enum tern_status tern_context_plan(const tern_model *m, const struct tern_context_params *params,
                                   struct tern_memory *plan, struct tern_error *e)
{
    static const struct tern_context_params defaults = {0};
    params = params ? params : &defaults;
    return lead_plan(m, params, plan_here, plan, e);
}
