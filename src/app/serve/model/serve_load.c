/* Models and contexts: see serve_load.h. */
#include "app/serve/model/serve_load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/number.h"
#include "app/cli/team.h"
#include "app/serve/api/fill_in.h"
#include "app/serve/http/lanes.h"
#include "app/serve/model/late.h"
#include "app/serve/model/compiled.h"
#include "app/serve/model/model_files.h"
#include "app/serve/model/saved_prefixes.h"
#include "app/serve/serve_options.h"

enum {
    PREFIX_SHARE = 4, /* kept beginnings take a quarter of the memory that is left */
    GUESSES = 16,     /* of --lookup and --mtp without a number */
    MAX_COMPILED = 16 << 20,
    MAX_STEPS = 10000000,
};

/* For the threads that load and catch up, and for those of the lanes. */
static int wants_stop(void *arg)
{
    struct scheduler *s = arg;
    if (lanes_is_given_up() || compiled_takes_long())
        return true;
    pthread_mutex_lock(&s->lock);
    int ending = s->ending || late_is_given_up(s);
    pthread_mutex_unlock(&s->lock);
    return ending;
}

static int make_room(void *arg)
{
    const struct scheduler *s = arg;
    return compiled_make_room(s->compiled);
}

static unsigned load_flags(const struct serve_options *o)
{
    const struct option_value *load = &o->value[SERVE_LOAD];
    return (load->given && !strcmp(load->text, "copy") ? TERN_LOAD_COPY : 0) |
           (o->value[SERVE_MLOCK].given ? TERN_LOAD_LOCK : 0) |
           (o->value[SERVE_MTP].given ? TERN_LOAD_MTP : 0);
}

static enum tern_status open_model(struct scheduler *s, tern_model **out, const char *path,
                                   unsigned flags, struct tern_error *e)
{
    const struct serve_options *o = s->server->options;
    struct tern_model_params p = {.n_threads = (int)serve_number(o, SERVE_THREADS),
                                  .cpu = o->value[SERVE_CPU].text,
#ifdef TERN_MPI
                                  .share = o->value[SERVE_SHARE].text,
#endif
                                  .load = flags,
                                  .stop = wants_stop,
                                  .arg = s,
                                  .constraint_bytes = (size_t)serve_number(o, SERVE_MAX_CONSTRAINTS),
                                  .make_room = make_room};
    struct tern_error unwatched = {0};
    bool is_part = !team_is_alone() && access(path, F_OK);
    enum tern_status watched =
        flags & TERN_LOAD_COPY || is_part ? TERN_OK : model_files_watch(s, path, &unwatched);
    enum tern_status status = tern_model_open(out, path, &p, e);
    if (status || !watched)
        return status;
    *e = unwatched;
    return watched;
}

#ifdef TERN_MPI

enum tern_status load_follow(const struct serve_options *o, struct tern_error *e)
{
    struct tern_model_params p = {.n_threads = (int)serve_number(o, SERVE_THREADS),
                                  .cpu = o->value[SERVE_CPU].text,
                                  .share = o->value[SERVE_SHARE].text,
                                  .load = load_flags(o)};
    tern_model *model = NULL;
    enum tern_status s = tern_model_open(&model, o->model, &p, e);
    if (!s)
        s = tern_follow(model, e);
    tern_model_close(model);
    return s;
}

#endif

/* Of --lookup and --mtp, whose number may be left out; 0: off. */
static uint32_t guesses(const struct option_value *v)
{
    return !v->given ? 0 : v->text ? (uint32_t)v->integer : GUESSES;
}

static size_t find_longest_token(const struct server *s)
{
    size_t longest = 0, n;
    for (uint64_t i = 0; i < s->info.vocab; i++) {
        (void)tern_token_text(s->model, (tern_token)i, &n);
        longest = n > longest ? n : longest;
    }
    return longest;
}

static enum tern_status open_models(struct scheduler *s, struct tern_error *e)
{
    const struct serve_options *o = s->server->options;
    struct server *server = s->server;
    const char *draft = o->value[SERVE_DRAFT].text, *template = o->value[SERVE_TEMPLATE].text;
    enum tern_status status = open_model(s, &server->model, o->model, load_flags(o), e);
    if (status)
        return status;
    tern_model_info(server->model, &server->info);
    server->fill_in = fill_in_find(server->model);
    server->longest_token = find_longest_token(server);
    if (template && (status = tern_chat_use(server->model, template, e)))
        return status;
    if (!draft)
        return TERN_OK;
    status = open_model(s, &s->draft_model, draft, load_flags(o) & ~(unsigned)TERN_LOAD_MTP, e);
    return status ? status : tern_draft_check(server->model, s->draft_model, e);
}

/* ---- contexts ----------------------------------------------------------------------------- */

static enum tern_cache_type cache_type(const struct serve_options *o)
{
    const struct option_value *v = &o->value[SERVE_CACHE_TYPE];
    for (enum tern_cache_type t = 0; v->given && tern_cache_type_name(t); t++)
        if (!strcmp(v->text, tern_cache_type_name(t)))
            return t;
    return TERN_CACHE_F16;
}

/* --cache-ram, or a share of what the plan without kept beginnings leaves. */
static uint64_t prefix_bytes(const struct serve_options *o, const struct tern_memory *plan)
{
    const struct option_value *given = &o->value[SERVE_CACHE_RAM];
    uint64_t used = plan->weights + plan->cache + plan->batch;
    if (given->given)
        return (uint64_t)given->integer << 20;
    return plan->available > used ? (plan->available - used) / PREFIX_SHARE : 0;
}

static void show(const struct scheduler *s, const struct tern_memory *plan)
{
    char a[32], b[32], c[32], d[32], g[32], h[32];
    if (s->server->options->value[SERVE_QUIET].given)
        return;
    team_advise(s->server->model);
    if (!(load_flags(s->server->options) & (TERN_LOAD_COPY | TERN_LOAD_LOCK)))
        team_warn(s->server->model);
    fprintf(stderr,
            "serve: memory: weights %s, cache %s for %u sequences of %u positions, batch %s, kept "
            "prompts %s, constraints up to %s; available %s\n",
            number_bytes(plan->weights, a, sizeof a),
            number_bytes(plan->cache - plan->prefix, b, sizeof b), plan->n_seqs, plan->n_ctx,
            number_bytes(plan->batch, c, sizeof c), number_bytes(plan->prefix, d, sizeof d),
            number_bytes((uint64_t)serve_number(s->server->options, SERVE_MAX_CONSTRAINTS), h, sizeof h),
            number_bytes(plan->available, g, sizeof g));
    if (plan->reduced)
        fprintf(
            stderr,
            "serve: context: %u positions instead of the model's %llu, to stay within half of the "
            "available memory; -c sets it\n",
            plan->n_ctx, (unsigned long long)s->server->info.max_seq);
}

/* A row with logits for each text, and as many again for guesses. */
static struct tern_context_params context_params(const struct scheduler *s)
{
    const struct serve_options *o = s->server->options;
    struct tern_context_params p = {
        .n_ctx = (uint32_t)serve_number(o, SERVE_CTX_SIZE),
        .n_batch = (uint32_t)serve_number(o, SERVE_BATCH_SIZE),
        .n_seqs = s->n_parallel,
        .n_logits = s->n_parallel,
        .cache_type = cache_type(o),
    };
    if (s->lookup || s->mtp || s->draft_model)
        p.n_logits *= 2;
    if (p.n_logits < TERN_DEFAULT_LOGITS)
        p.n_logits = TERN_DEFAULT_LOGITS;
    if (p.n_batch < p.n_logits)
        p.n_batch = p.n_logits;
    return p;
}

static enum tern_status open_context(struct scheduler *s, struct tern_error *e)
{
    const struct serve_options *o = s->server->options;
    struct tern_memory *plan = &s->server->plan;
    struct tern_context_params p = context_params(s);
    enum tern_status status = tern_context_plan(s->server->model, &p, plan, e);
    if (status)
        return status;
    p.n_ctx = plan->n_ctx;
    bool reduced = plan->reduced;
    p.prefix_bytes = prefix_bytes(o, plan);
    if ((status = tern_context_plan(s->server->model, &p, plan, e)))
        return status;
    plan->reduced = reduced;
    show(s, plan);
    if ((status = tern_context_open_plan(&s->ctx, s->server->model, plan, e)) || !s->draft_model)
        return status;
    p.prefix_bytes = 0;
    return tern_context_open(&s->draft, s->draft_model, &p, e);
}

enum tern_status load_all(struct scheduler *s, struct tern_error *e)
{
    const struct serve_options *o = s->server->options;
    const char *folder = o->value[SERVE_CACHE_DIR].text;
    s->n_parallel = (uint32_t)serve_number(o, SERVE_PARALLEL);
    s->max_waiting = (size_t)serve_number(o, SERVE_QUEUE);
    s->lookup = guesses(&o->value[SERVE_LOOKUP]);
    s->mtp = guesses(&o->value[SERVE_MTP]);
    s->draft_max = (uint32_t)serve_number(o, SERVE_DRAFT_MAX);
    enum tern_status status = open_models(s, e);
    if (!status)
        status = open_context(s, e);
    if (!status && folder && !s->server->plan.prefix)
        fprintf(stderr, "serve: --cache-dir: no memory is left for kept prompts: nothing is loaded or saved\n");
    else if (!status && folder)
        status = saved_prefixes_open(s, folder, e);
    if (status)
        return status;
    model_files_outlive(s);
    s->n_ctx = s->server->plan.n_ctx;
    s->chunks.max = s->server->plan.n_batch;
    s->compiled = compiled_store_open(s->server->model, MAX_COMPILED, MAX_STEPS);
    return s->compiled ? TERN_OK : parser_no_memory(e);
}

void load_close(struct scheduler *s)
{
    model_files_close(s);
    saved_prefixes_close(s);
    compiled_store_close(s->compiled);
    tern_context_close(s->draft);
    tern_context_close(s->ctx);
    tern_model_close(s->draft_model);
    tern_model_close(s->server->model);
    s->server->model = NULL;
}
