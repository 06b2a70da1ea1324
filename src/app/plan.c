/* Contexts: see plan.h. */
#include "app/plan.h"

#include "app/number.h"
#include "app/signals.h"

#include <stdio.h>
#include <string.h>

static struct tern_context_params params_of(const struct options *o, uint32_t n_ctx)
{
    const struct option_value *v = o->value;
    struct tern_context_params p = {0};
    p.n_ctx = v[OPT_CTX_SIZE].given ? (uint32_t)v[OPT_CTX_SIZE].integer : n_ctx;
    p.n_batch = (uint32_t)v[OPT_BATCH_SIZE].integer;
    if (v[OPT_CACHE_TYPE].given && !strcmp(v[OPT_CACHE_TYPE].text, "f32"))
        p.cache_type = TERN_CACHE_F32;
    p.fingerprint = v[OPT_FINGERPRINT].given;
    return p;
}

void plan_make(const tern_model *model, const struct options *o, uint32_t n_ctx,
               struct tern_memory *plan)
{
    struct tern_context_params p = params_of(o, n_ctx);
    tern_context_plan(model, &p, plan);
}

static void say(const tern_model *model, const struct options *o, const struct tern_memory *plan)
{
    char a[32], b[32], c[32], d[32];
    struct tern_model_info info;
    tern_model_info(model, &info);
    number_bytes(plan->available, d, sizeof d);
    if (o->value[OPT_VERBOSE].given) {
        fprintf(stderr, "machine: %s, %s\n", info.cpu, info.threads_why);
        fprintf(stderr, "memory: weights %s, cache %s for %u positions, batch %s; available %s\n",
                number_bytes(plan->weights, a, sizeof a), number_bytes(plan->cache, b, sizeof b),
                plan->n_ctx, number_bytes(plan->batch, c, sizeof c), d);
    }
    if (o->value[OPT_QUIET].given)
        return;
    if (plan->n_ctx > info.max_seq)
        fprintf(stderr, "context: %u positions, but the model was made for %llu\n", plan->n_ctx,
                (unsigned long long)info.max_seq);
    if (plan->reduced)
        fprintf(stderr,
                "context: %u positions instead of the model's %llu, to stay within half of the "
                "available memory (%s); -c sets it\n",
                plan->n_ctx, (unsigned long long)info.max_seq, d);
}

enum tern_status plan_open(tern_context **out, tern_model *model, const struct options *o,
                           uint32_t n_ctx, struct tern_error *e)
{
    struct tern_context_params p = params_of(o, n_ctx);
    struct tern_memory plan;
    tern_context_plan(model, &p, &plan);
    say(model, o, &plan);
    enum tern_status s = tern_context_open(out, model, &p, e);
    if (!s)
        signals_watch(*out);
    return s;
}

void plan_close(tern_context *ctx)
{
    signals_watch(NULL);
    tern_context_close(ctx);
}
