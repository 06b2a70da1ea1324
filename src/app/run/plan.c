/* Contexts: see plan.h. */
#include "app/run/plan.h"

#include "app/cli/number.h"
#include "app/cli/signals.h"
#include "app/cli/team.h"

#include <stdio.h>
#include <string.h>

static struct tern_context_params params_of(const struct run_options *o, uint32_t n_ctx)
{
    const struct option_value *v = o->value;
    struct tern_context_params p = {0};
    p.n_ctx = v[OPT_CTX_SIZE].given ? (uint32_t)v[OPT_CTX_SIZE].integer : n_ctx;
    p.n_batch = (uint32_t)v[OPT_BATCH_SIZE].integer;
    p.cache_type = TERN_CACHE_F16;
    for (enum tern_cache_type t = 0; v[OPT_CACHE_TYPE].given && tern_cache_type_name(t); t++)
        if (!strcmp(v[OPT_CACHE_TYPE].text, tern_cache_type_name(t)))
            p.cache_type = t;
    p.fingerprint = v[OPT_FINGERPRINT].given;
    return p;
}

static void say(tern_model *model, const struct run_options *o, const struct tern_memory *plan,
                bool draft)
{
    char a[32], b[32], c[32], d[32];
    struct tern_model_info info;
    tern_model_info(model, &info);
    number_bytes(plan->available, d, sizeof d);
    if (o->value[OPT_VERBOSE].given) {
        if (!draft)
            fprintf(stderr, "machine: %s, %s\n", info.cpu, info.threads_why);
        fprintf(stderr, "%s: weights %s, cache %s for %u positions, batch %s (%u rows, %u with "
                "logits); available %s\n",
                draft ? "draft" : "memory", number_bytes(plan->weights, a, sizeof a),
                number_bytes(plan->cache, b, sizeof b), plan->n_ctx,
                number_bytes(plan->batch, c, sizeof c), plan->n_batch, plan->n_logits, d);
        char line[256];
        for (uint32_t i = 0; !draft && team_line(model, i, line, sizeof line); i++)
            fprintf(stderr, "memory: %s", line);
        if (plan->states)
            fprintf(stderr, "states: %s of the cache, %u snapshots\n",
                    number_bytes(plan->states, a, sizeof a), plan->n_snapshots);
        if (plan->prefix)
            fprintf(stderr, "prefixes: %s of the cache\n",
                    number_bytes(plan->prefix, a, sizeof a));
    }
    if (o->value[OPT_QUIET].given || draft)
        return;
    team_advise(model);
    if (!(plan_load(o) & (TERN_LOAD_COPY | TERN_LOAD_LOCK)))
        team_warn(model);
    if (plan->n_ctx > info.max_seq)
        fprintf(stderr, "context: %u positions, but the model was made for %llu\n", plan->n_ctx,
                (unsigned long long)info.max_seq);
    if (plan->reduced)
        fprintf(stderr,
                "context: %u positions instead of the model's %llu, to stay within half of the "
                "available memory (%s); -c sets it\n",
                plan->n_ctx, (unsigned long long)info.max_seq, d);
}

unsigned plan_load(const struct run_options *o)
{
    const struct option_value *load = &o->value[OPT_LOAD];
    return (load->given && !strcmp(load->text, "copy") ? TERN_LOAD_COPY : 0) |
           (o->value[OPT_MLOCK].given ? TERN_LOAD_LOCK : 0) |
           (o->value[OPT_MTP].given ? TERN_LOAD_MTP : 0);
}

/* What does not fit is said, too. */
static enum tern_status make(tern_model *model, const struct run_options *o,
                             const struct tern_context_params *p, bool draft,
                             struct tern_memory *plan, struct tern_error *e)
{
    enum tern_status s = tern_context_plan(model, p, plan, e);
    if (!s || plan->cache)
        say(model, o, plan, draft);
    return s;
}

enum tern_status plan_make(tern_model *model, const struct run_options *o, uint32_t n_ctx,
                           struct tern_memory *plan, struct tern_error *e)
{
    struct tern_context_params p = params_of(o, n_ctx);
    return make(model, o, &p, false, plan, e);
}

enum tern_status plan_open(tern_context **out, tern_model *model, const struct tern_memory *plan,
                           struct tern_error *e)
{
    enum tern_status s = tern_context_open_plan(out, model, plan, e);
    if (!s)
        signals_watch(*out);
    return s;
}

enum tern_status plan_draft(tern_context **out, tern_model *model, const struct run_options *o,
                            uint32_t n_ctx, struct tern_error *e)
{
    struct tern_context_params p = params_of(o, n_ctx);
    struct tern_memory plan;
    p.n_ctx = n_ctx;
    p.fingerprint = 0;
    enum tern_status s = make(model, o, &p, true, &plan, e);
    return s ? s : tern_context_open_plan(out, model, &plan, e);
}

void plan_close(tern_context *ctx)
{
    signals_watch(NULL);
    tern_context_close(ctx);
}
