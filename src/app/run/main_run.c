/* run: the program that continues texts. Options in, one job done, an exit code out; the jobs are
 * in the other files of this folder. It is a client of tern.h like any other. */
#include "app/cli/files.h"
#include "app/cli/finish.h"
#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/cli/team.h"
#include "app/cli/visible.h"
#include "app/run/chat_loop.h"
#include "app/run/complete.h"
#include "app/run/hints.h"
#include "app/run/info.h"
#include "app/cli/perplexity.h"
#include "app/run/plan.h"
#include "app/run/receipt_file.h"
#include "app/run/run_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW_DEFAULT = 2048, WINDOW_LLAMACPP = 512, WINDOW_MIN = 4 };

/* ---- perplexity --------------------------------------------------------------------------- */

static void show_progress(const struct perplexity *p)
{
    fprintf(stderr, "\r%3.0f %%, perplexity %.4f ", 100.0 * (double)p->done / (double)p->total,
            exp(p->tokens ? p->nll / (double)p->tokens : 0));
}

static enum tern_status measure(struct perplexity_job *job, const struct run_options *o,
                                struct perplexity *p, struct tern_error *e)
{
    switch (o->job) {
    case OPT_PERPLEXITY:
        return perplexity_windows(job, p, e);
    case OPT_PERPLEXITY_LINES:
        return perplexity_lines(job, p, e);
    default:
        return perplexity_llamacpp(job, p, e);
    }
}

static enum tern_status run_perplexity(tern_context *ctx, const struct run_options *o,
                                       const char *text, size_t n, struct tern_error *e)
{
    struct tern_memory plan;
    struct perplexity p = {0};
    bool quiet = o->value[OPT_QUIET].given;
    tern_context_memory(ctx, &plan);
    struct perplexity_job job = {.ctx = ctx, .text = text, .n = n, .window = plan.n_ctx};
    const struct option_value *stride = &o->value[OPT_STRIDE];
    job.stride = stride->given ? (uint32_t)stride->integer : plan.n_ctx / 2;
    if (job.window < WINDOW_MIN || job.stride >= job.window) {
        snprintf(e->text, sizeof e->text,
                 "perplexity needs a context of at least %d tokens and a smaller --stride; here "
                 "they are %u and %u",
                 WINDOW_MIN, job.window, job.stride);
        return e->code = TERN_USAGE;
    }
    if (!quiet && isatty(STDERR_FILENO))
        job.progress = show_progress;
    enum tern_status s = measure(&job, o, &p, e);
    if (job.progress)
        fprintf(stderr, "\r%40s\r", "");
    if (p.tokens && (!s || s == TERN_CANCELLED)) {
        out_print("window      %u", job.window);
        out_print(o->job == OPT_PERPLEXITY ? ", stride %u\n" : "\n", job.stride);
        perplexity_print(&p, !s);
    }
    return s;
}

static enum tern_status perplexity(tern_model *model, const struct run_options *o,
                                   struct tern_error *e)
{
    struct tern_model_info info;
    char *text = NULL;
    size_t n = 0;
    tern_context *ctx = NULL;
    struct tern_memory plan;
    uint64_t window = o->job == OPT_PERPLEXITY_LLAMACPP ? WINDOW_LLAMACPP : WINDOW_DEFAULT;
    tern_model_info(model, &info);
    if (window > info.max_seq)
        window = info.max_seq;
    enum tern_status s = files_take(o->value[o->job].text, &text, &n, e);
    if (!s)
        s = plan_make(model, o, (uint32_t)window, &plan, e);
    if (!s)
        s = plan_open(&ctx, model, &plan, e);
    if (!s)
        s = run_perplexity(ctx, o, text, n, e);
    plan_close(ctx);
    free(text);
    return s;
}

/* ---- jobs --------------------------------------------------------------------------------- */

static enum tern_status do_job(tern_model *model, struct run_options *o, double load_seconds,
                               struct tern_error *e)
{
    switch (o->job) {
    case OPT_PERPLEXITY:
    case OPT_PERPLEXITY_LINES:
    case OPT_PERPLEXITY_LLAMACPP:
        return perplexity(model, o, e);
    case OPT_TOKENIZE:
        return complete_tokenize(model, o, e);
    case OPT_INFO:
        return info_describe(model, o->model, o->value[OPT_VERBOSE].given, e);
    case OPT_CHECK:
        return info_check(model, e);
    case OPT_SELFTEST:
        return info_selftest(model, e);
    case OPT_SEAL_VALUE:
        return info_seal(model, e);
    case OPT_VERIFY_RECEIPT:
        return receipt_file_verify(model, o, e);
    default:
        return (chat_loop_wanted(model, o) ? chat_loop_run : complete_prompt)(model, o,
                                                                              load_seconds, e);
    }
}

/* Jobs that need no model; false when there is none of them. */
static bool do_help(const struct run_options *o, enum tern_status *s, struct tern_error *e)
{
    *s = TERN_OK;
    if (o->job == OPT_DOCTOR)
        *s = info_doctor(e);
    else if (o->job == OPT_HELP)
        run_options_help();
    else if (o->job == OPT_HELP_LLAMA2C)
        hints_help_llama2c();
    else if (o->job == OPT_VERSION)
        out_print("run (tern) %s\n%s\n", tern_version(), tern_build_info());
    else
        return false;
    return true;
}

/* The weights files that may change while they are used: the model's, and that of --draft. */
static void name_files(const struct run_options *o, char *text, size_t n)
{
    const char *draft = o->value[OPT_DRAFT].text;
    snprintf(text, n, "%.2000s%s%.2000s", o->model, draft ? " or " : "", draft ? draft : "");
}

/* --template: for every job; a chat with a model that states none of its own is a gamble. */
static enum tern_status use_template(tern_model *model, const struct run_options *o,
                                     struct tern_error *e)
{
    struct tern_chat_info own;
    bool states_one = tern_chat_info(model, &own);
    const struct option_value *name = &o->value[OPT_TEMPLATE];
    enum tern_status s = name->given ? tern_chat_use(model, name->text, e) : TERN_OK;
    if (!s && name->given && !states_one && o->job == N_RUN_OPTIONS && !o->value[OPT_QUIET].given)
        fputs("template: the model's file states none, so the model may never have learned to "
              "chat\n",
              stderr);
    return s;
}

static enum tern_status run(struct run_options *o, struct tern_error *e)
{
    char files[4096];
    struct tern_model_params params = {.n_threads = (int)o->value[OPT_THREADS].integer,
                                       .cpu = o->value[OPT_CPU].text,
#ifdef TERN_MPI
                                       .share = o->value[OPT_SHARE].text,
#endif
                                       .load = plan_load(o)};
    tern_model *model = NULL;
    enum tern_status s;
    if (do_help(o, &s, e))
        return s;
    if (!o->model || !*o->model) {
        snprintf(e->text, sizeof e->text,
                 "no weights file was given; usage: run MODEL [PROMPT] [options] (--help shows "
                 "examples)");
        return e->code = TERN_USAGE;
    }
    double start = stopwatch_now();
    name_files(o, files, sizeof files);
    signals_init("run", files);
    s = tern_model_open(&model, o->model, &params, e);
    if (!s && team_followed(model, &s, e)) {
        tern_model_close(model);
        return s;
    }
    if (!s)
        s = use_template(model, o, e);
    if (!s)
        s = do_job(model, o, stopwatch_now() - start, e);
    tern_model_close(model);
    return s;
}

/* At its begin, or behind the name of a machine */
static bool is_named(const char *model, const char *sentence)
{
    const char *at = strstr(sentence, model);
    return at && (at == sentence || (at[-1] == ' ' && at[strlen(model)] == ':'));
}

/* A sentence about the weights file names it. */
static void name_model(enum tern_status s, const char *model, struct tern_error *e)
{
    struct tern_error cause = *e;
    if (model && *model && s == TERN_BAD_FILE && !is_named(model, e->text) &&
        strncmp(e->text, "--", 2))
        snprintf(e->text, sizeof e->text, "%.200s: %.300s", model, cause.text);
}

int main(int argc, char **argv)
{
    struct run_options o;
    struct tern_error e = {0};
    out_init();
    if (team_start("run", &e))
        return finish_program("run", e.code, &e);
    enum tern_status s = run_options_open(&o, argc, argv, &e);
    if (o.value[OPT_RAW].given)
        visible_switch_off();
    if (!s)
        s = run(&o, &e);
    name_model(s, o.model, &e);
    run_options_close(&o);
    return finish_program("run", s, &e);
}
