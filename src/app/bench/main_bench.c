/* bench: tokens per second of models and machines. Options in; tests, one after the other; results
 * on standard output as each is done. A client of tern.h like any other. */
#include "app/bench/bench_attention.h"
#include "app/bench/bench_options.h"
#include "app/bench/bench_print.h"
#include "app/bench/bench_shape.h"
#include "app/bench/bench_test.h"
#include "app/cli/files.h"
#include "app/cli/finish.h"
#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/cli/team.h"
#include "app/cli/tokens.h"
#include "app/cli/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bench {
    const struct bench_options *o;
    struct bench_printer printers[2]; /* standard output, standard error */
    struct bench_result result;       /* of the test in work */
    tern_model *model;
    tern_context *ctx;
    tern_meter *meter;
    tern_token *text, first; /* [n_text] the tokens of --file, owned; what stands for no tokens */
    size_t n_text;
};

static void progress(const struct bench *b, const char *what, const char *which)
{
    if (b->o->value[BENCH_PROGRESS].given)
        visible_error_print("bench: %s: %s%s%s\n", b->result.model_type, what, *which ? " " : "",
                            which);
}

static enum tern_status stopped(struct tern_error *e)
{
    e->code = TERN_CANCELLED;
    return signals_caught() ? TERN_CANCELLED : TERN_OK;
}

static void read_cpu_info(char *text, size_t n)
{
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(text, n, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !value)
            continue;
        value += 1 + strspn(value + 1, " ");
        snprintf(text, n, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (f)
        fclose(f);
}

/* ---- one test ----------------------------------------------------------------------------- */

static void rest(const struct bench *b)
{
    struct timespec t = {.tv_sec = (time_t)b->o->value[BENCH_DELAY].integer};
    if (t.tv_sec)
        nanosleep(&t, NULL); /* a signal ends it */
}

/* Opens the meter, and reads memory for the first time, before the test. */
static enum tern_status begin_limits(struct bench *b, struct tern_error *e)
{
    b->result.read_gbs = b->result.peak_gmacs = 0;
    if (b->o->value[BENCH_NO_LIMITS].given || b->result.plan.mtp)
        return TERN_OK;
    enum tern_status s = b->meter ? TERN_OK : tern_meter_open(&b->meter, b->model, e);
    if (!s)
        b->result.read_gbs = tern_meter_read(b->meter);
    return s;
}

/* After the test: the larger of the two bandwidths counts. */
static void end_limits(struct bench *b)
{
    struct bench_result *r = &b->result;
    if (!b->meter || r->plan.mtp)
        return;
    double after = tern_meter_read(b->meter);
    r->read_gbs = after > r->read_gbs ? after : r->read_gbs;
    r->peak_gmacs = tern_meter_peak(b->meter, r->info.type, &r->peak_name);
}

static enum tern_status run_test(struct bench *b, uint32_t n_prompt, uint32_t n_gen,
                                 struct tern_error *e)
{
    struct bench_result *r = &b->result;
    char name[64];
    time_t now = time(NULL);
    struct tm utc;
    if (!(n_prompt + n_gen))
        return TERN_OK;
    r->plan.n_prompt = n_prompt, r->plan.n_gen = n_gen;
    bench_test_name(&r->plan, name, sizeof name);
    rest(b);
    progress(b, "test", name);
    if (gmtime_r(&now, &utc))
        strftime(r->time, sizeof r->time, "%Y-%m-%dT%H:%M:%SZ", &utc);
    enum tern_status s = stopped(e);
    if (!s)
        s = begin_limits(b, e);
    if (!s)
        s = stopped(e);
    if (!s)
        s = bench_run(b->ctx, r, e);
    if (!s)
        end_limits(b);
    for (size_t i = 0; !s && i < 2; i++)
        bench_print(&b->printers[i], r);
    return s;
}

/* ---- all tests of one context ------------------------------------------------------------- */

/* Tests of n_gen tokens: of every number of sequences, or with every number of guesses */
static enum tern_status run_gen(struct bench *b, uint32_t n_gen, struct tern_error *e)
{
    const struct bench_list *mtp = &b->o->mtp, *parallel = &b->o->parallel;
    enum tern_status s = TERN_OK;
    for (size_t i = 0; !s && !mtp->n && i < parallel->n; i++) {
        b->result.plan.n_parallel = parallel->value[i];
        s = run_test(b, 0, n_gen, e);
    }
    b->result.plan.n_parallel = 1;
    for (size_t i = 0; !s && i < mtp->n; i++) {
        b->result.plan.mtp = mtp->value[i];
        s = run_test(b, 0, n_gen, e);
    }
    b->result.plan.mtp = 0;
    return s;
}

static enum tern_status run_depth(struct bench *b, struct tern_error *e)
{
    const struct bench_options *o = b->o;
    enum tern_status s;
    if (b->result.plan.depth)
        progress(b, "filling the cache", "");
    s = bench_fill(b->ctx, &b->result.plan, e);
    for (size_t i = 0; !s && i < o->prompt.n; i++)
        s = run_test(b, o->prompt.value[i], 0, e);
    for (size_t i = 0; !s && i < o->gen.n; i++)
        s = run_gen(b, o->gen.value[i], e);
    for (size_t i = 0; !s && i < o->pg_prompt.n; i++)
        s = run_test(b, o->pg_prompt.value[i], o->pg_gen.value[i], e);
    return s;
}

static uint32_t most(const struct bench_list *list)
{
    uint32_t max = 0;
    for (size_t i = 0; i < list->n; i++)
        max = list->value[i] > max ? list->value[i] : max;
    return max;
}

/* Positions that the longest test needs. */
static uint32_t positions(const struct bench_options *o)
{
    uint32_t n = most(&o->prompt) > most(&o->gen) ? most(&o->prompt) : most(&o->gen);
    for (size_t i = 0; i < o->pg_prompt.n; i++)
        if (o->pg_prompt.value[i] + o->pg_gen.value[i] > n)
            n = o->pg_prompt.value[i] + o->pg_gen.value[i];
    return most(&o->depth) + (n ? n : 1);
}

static enum tern_status run_context(struct bench *b, struct tern_error *e)
{
    struct bench_plan *plan = &b->result.plan;
    uint32_t n_seqs = most(&b->o->parallel);
    struct tern_context_params p = {.n_ctx = positions(b->o) + (uint32_t)plan->n_text,
                                    .n_batch = plan->n_batch > n_seqs ? plan->n_batch : n_seqs,
                                    .n_seqs = n_seqs,
                                    .n_logits = n_seqs > TERN_DEFAULT_LOGITS ? n_seqs : 0,
                                    .cache_type = plan->cache};
    enum tern_status s = tern_context_open(&b->ctx, b->model, &p, e);
    if (!s)
        signals_watch(b->ctx);
    for (size_t i = 0; !s && i < b->o->depth.n; i++) {
        plan->depth = b->o->depth.value[i];
        s = run_depth(b, e);
    }
    signals_watch(NULL);
    tern_context_close(b->ctx);
    b->ctx = NULL;
    return s;
}

/* ---- all contexts of one model ------------------------------------------------------------ */

/* What tests of guesses continue: --file, or else the token that begins a text, or where the model has
 * none, the first one of the other tests */
static enum tern_status read_text(struct bench *b, struct tern_error *e)
{
    char *bytes = NULL;
    size_t n = 0;
    const char *path = b->o->value[BENCH_FILE].text;
    struct bench_result *r = &b->result;
    enum tern_status s = path ? files_take(path, &bytes, &n, e) : TERN_OK;
    if (!s && path)
        s = tokens_take(b->model, bytes, n, TERN_ADD_SPECIAL, 0, &b->text, &b->n_text, e);
    b->first = r->info.bos < 0 ? (tern_token)(13 % r->info.vocab) : r->info.bos;
    r->plan.text = b->n_text ? b->text : &b->first;
    r->plan.n_text = b->n_text ? b->n_text : 1;
    free(bytes);
    return s;
}

/* cpu: NULL is the best */
static enum tern_status run_model(struct bench *b, const char *path, int n_threads, const char *cpu,
                                  struct tern_error *e)
{
    const struct bench_options *o = b->o;
    const struct tern_model_params p = {.n_threads = n_threads,
                                        .cpu = cpu,
#ifdef TERN_MPI
                                        .share = o->value[BENCH_SHARE].text,
#endif
                                        .load = (b->result.plan.copy ? TERN_LOAD_COPY : 0) |
                                                (o->mtp.n ? TERN_LOAD_MTP : 0)};
    enum tern_status s = tern_model_open(&b->model, path, &p, e);
    if (s)
        return s;
    if (team_followed(b->model, &s, e)) {
        tern_model_close(b->model);
        b->model = NULL;
        return s;
    }
    tern_model_info(b->model, &b->result.info);
    if (o->mtp.n)
        s = read_text(b, e);
    for (size_t i = 0; !s && i < o->batch.n * o->caches.n; i++) {
        b->result.plan.n_batch = o->batch.value[i / o->caches.n];
        b->result.plan.cache = (enum tern_cache_type)o->caches.value[i % o->caches.n];
        s = run_context(b, e);
    }
    tern_meter_close(b->meter);
    tern_model_close(b->model);
    free(b->text);
    b->meter = NULL, b->model = NULL;
    b->text = NULL, b->n_text = 0;
    return s;
}

static enum tern_status run_threads(struct bench *b, const char *path, int n_threads,
                                    struct tern_error *e)
{
    const struct bench_list *cpus = &b->o->cpus;
    enum tern_status s = cpus->n ? TERN_OK : run_model(b, path, n_threads, NULL, e);
    for (size_t i = 0; !s && i < cpus->n; i++) {
        char cpu[32];
        const char *at = tern_cpu_names() + cpus->value[i];
        snprintf(cpu, sizeof cpu, "%.*s", (int)strcspn(at, "|"), at);
        s = run_model(b, path, n_threads, cpu, e);
    }
    return s;
}

static enum tern_status run_path(struct bench *b, const char *path, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (size_t i = 0; !s && i < b->o->threads.n; i++)
        s = run_threads(b, path, (int)b->o->threads.value[i], e);
    return s;
}

static enum tern_status run_shape(struct bench *b, const struct bench_shape *shape,
                                  enum tern_type type, const char *text, struct tern_error *e)
{
    struct bench_file file;
    struct bench_result *r = &b->result;
    snprintf(r->model_type, sizeof r->model_type, "%.80s %s", shape->name,
             tern_type_name(type));
    snprintf(r->model_file, sizeof r->model_file, "random %.200s", text);
    progress(b, "making random weights", "");
    enum tern_status s = stopped(e);
    if (!s)
        s = bench_file_open(&file, &shape->sizes, type, e);
    else
        file.fd = -1;
    if (!s)
        s = run_path(b, file.path, e);
    bench_file_close(&file);
    return s;
}

static enum tern_status run_shapes(struct bench *b, const char *text, struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    while (!s && *text) {
        struct bench_shape shape;
        char part[96] = {0};
        const char *begin = text;
        s = bench_shape_read(&shape, &text, e);
        if (s)
            break;
        size_t n = (size_t)(text - begin) - (text[-1] == ',');
        memcpy(part, begin, n < sizeof part ? n : sizeof part - 1);
        shape.sizes.max_seq = positions(b->o);
        for (size_t i = 0; !s && i < b->o->types.n; i++)
            s = run_shape(b, &shape, (enum tern_type)b->o->types.value[i], part, e);
    }
    return s;
}

static enum tern_status run_file(struct bench *b, const char *path, struct tern_error *e)
{
    const char *slash = strrchr(path, '/');
    struct bench_result *r = &b->result;
    struct tern_model_info info;
    tern_model *m;
    enum tern_status s = tern_model_open(&m, path, NULL, e);
    if (s)
        return s;
    (void)team_followed(m, &s, e);
    tern_model_info(m, &info);
    snprintf(r->model_type, sizeof r->model_type, "%.80s %s",
             *info.name ? info.name
             : slash    ? slash + 1
                        : path,
             info.type_name);
    snprintf(r->model_file, sizeof r->model_file, "%s", path);
    tern_model_close(m);
    return run_path(b, path, e);
}

/* ---- the program -------------------------------------------------------------------------- */

static enum tern_status run_all(struct bench *b, struct tern_error *e)
{
    const struct bench_options *o = b->o;
    const struct option_value *r = &o->value[BENCH_REPETITIONS], *load = &o->value[BENCH_LOAD];
    enum tern_status s = TERN_OK;
    read_cpu_info(b->result.cpu_info, sizeof b->result.cpu_info);
    b->result.plan.repetitions = r->given ? (size_t)r->integer : 5;
    b->result.plan.n_parallel = 1;
    b->result.plan.warmup = !o->value[BENCH_NO_WARMUP].given;
    b->result.plan.ops = o->value[BENCH_OPS].given;
    b->result.plan.copy = load->given && !strcmp(load->text, "copy");
    for (size_t i = 0; i < 2; i++)
        bench_print_begin(&b->printers[i]);
    for (size_t i = 0; !s && i < o->n_models; i++)
        s = run_file(b, o->models[i], e);
    for (size_t i = 0; !s && i < o->n_shapes; i++)
        s = run_shapes(b, o->shapes[i], e);
    for (size_t i = 0; i < 2; i++)
        bench_print_end(&b->printers[i]);
    return s;
}

static enum tern_status run(const struct bench_options *o, struct tern_error *e)
{
    if (o->job == BENCH_HELP) {
        bench_options_help();
    } else if (o->job == BENCH_VERSION) {
        out_print("bench (tern) %s\n%s\n", tern_version(), tern_build_info());
    } else {
        struct bench b = {.o = o};
        const struct option_value *out = &o->value[BENCH_OUTPUT];
        b.printers[0].form = out->given ? out->text : "md";
        b.printers[1].form = o->value[BENCH_OUTPUT_ERR].text;
        b.printers[1].to_stderr = true;
        signals_init("bench", o->n_models    ? o->models[0]
                              : o->attention ? "attention"
                                             : "random weights");
        signals_note();
        return o->attention ? bench_attention(o, b.printers, 2, e) : run_all(&b, e);
    }
    return TERN_OK;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    struct tern_error e = {0};
    out_init();
    if (team_start("bench", &e))
        return finish_program("bench", e.code, &e);
    enum tern_status s = bench_options_open(&o, argc, argv, &e);
    if (!s)
        s = run(&o, &e);
    bench_options_close(&o);
    return finish_program("bench", s, &e);
}
