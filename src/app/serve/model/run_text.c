/* A job of a text: see run_text.h. */
#include "app/serve/model/run_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/late.h"

/* ---- tokens, as tern_step chooses them ---------------------------------------------------- */

static void release_token(struct job *j)
{
    if (j->token.kind == JOB_NOTHING)
        return;
    j->token.text = j->token_text.p ? j->token_text.p : "";
    j->token.bytes = j->token_text.n;
    if (j->token_text.failed || !events_add(&j->made, &j->token))
        j->no_memory = true;
    j->token_text.n = 0;
    j->token.kind = JOB_NOTHING;
}

static void measure(struct job *j, struct job_event *e, const float *logits)
{
    struct scheduler *s = j->scheduler;
    e->logprob = tern_logprob(s->server->model, logits, e->token);
    e->n_top = tern_top(s->ctx, logits, j->top, j->request.n_top);
    e->top = j->top;
}

/* Rows of the prompt were evaluated: the logits of each are those of the token behind it. */
static int on_prompt(void *arg, size_t done, size_t total)
{
    struct job *j = arg;
    const struct scheduler *s = j->scheduler;
    size_t n = tern_n_logits(s->ctx), from = done - n;
    struct job_event e = {.kind = JOB_PROMPT, .token = j->request.prompt[0], .text = ""};
    e.logprob = (double)NAN;
    if (from == 0 && !events_add(&j->made, &e))
        j->no_memory = true;
    for (size_t i = 0; i < n && from + i + 1 < total && !j->no_memory; i++) {
        e.token = j->request.prompt[from + i + 1];
        measure(j, &e, tern_logits(s->ctx, i));
        j->no_memory = !events_add(&j->made, &e);
    }
    return j->no_memory;
}

static int on_token(void *arg, tern_token token, const float *logits)
{
    struct job *j = arg;
    release_token(j);
    j->token = (struct job_event){.kind = JOB_TOKEN, .token = token, .forced = !logits};
    if (logits && j->request.logprobs)
        measure(j, &j->token, logits);
    if (j->request.receipt)
        growing_text_add(&j->answer, (const char *)&token, sizeof token);
    return j->no_memory || j->answer.failed;
}

static int on_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct job *j = arg;
    growing_text_add(token < 0 ? &j->tail : &j->token_text, text, n);
    return j->no_memory;
}

/* ---- begin -------------------------------------------------------------------------------- */

void run_text_fail(struct job *j, int status, const char *format, ...)
{
    char text[sizeof j->last.fault.message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    j->last = (struct job_event){.kind = JOB_FAILED};
    fault_set(&j->last.fault, status, NULL, NULL, NULL, "%s", text);
    if (status == 503)
        j->last.fault.retry_after = 1;
}

static void fail_with(struct job *j, const struct tern_error *e)
{
    bool limited = e->code == TERN_LIMIT && j->request.constraint;
    int status = e->code == TERN_NO_MEMORY ? 503 : e->code == TERN_USAGE || limited ? 400 : 500;
    run_text_fail(j, status, "%s", e->text);
}

static struct tern_generate_params params_of(struct scheduler *s, struct job *j)
{
    const struct job_request *r = &j->request;
    struct tern_generate_params p = tern_generate_defaults();
    p.seq = p.draft_seq = j->seq;
    p.tokens = r->prompt + j->n_cached;
    p.n_tokens = r->n_prompt - j->n_cached;
    p.n_predict = r->n_predict;
    p.ignore_end = r->ignore_end;
    p.no_force = r->no_force;
    p.sampler = &r->sampler;
    if (r->constraint && !r->sampler.constraint)
        p.constraint = compiled_get(r->constraint);
    p.constraint_steps = LATE_STEPS;
    p.lookup = s->lookup;
    p.mtp = s->mtp;
    p.draft = s->draft;
    p.draft_max = s->draft_max;
    p.fingerprint = r->receipt;
#ifdef TERN_MPI
    p.best_only = !r->logprobs;
#endif
    p.stop = (const char *const *)r->stop;
    p.n_stop = r->n_stop;
    p.logits_all = r->prompt_logprobs;
    p.on_prompt = r->prompt_logprobs ? on_prompt : NULL;
    p.on_token = on_token;
    p.on_text = on_text;
    p.arg = j;
    return p;
}

bool run_text_begin(struct scheduler *s, struct job *j)
{
    struct tern_error e = {0};
    struct tern_generate_params p = params_of(s, j);
    if (!tern_text_open(&j->text, s->ctx, &p, &e))
        return true;
    fail_with(j, &e);
    return false;
}

/* ---- step --------------------------------------------------------------------------------- */

void run_text_stepped(struct scheduler *s, struct job *j, double now)
{
    struct tern_generate_result r = {0};
    struct tern_error e;
    (void)s;
    release_token(j);
    (void)tern_text_result(j->text, &r, &e);
    if (r.n_generated && !(j->first > 0))
        j->first = now;
    j->n_new = r.n_generated - j->n_stepped;
    j->n_stepped = r.n_generated;
}

/* ---- end ---------------------------------------------------------------------------------- */

/* The receipt of an answer that is whole; TERN_USAGE where there can be none is no fault of the answer. */
static enum tern_status take_receipt(struct scheduler *s, struct job *j, struct tern_error *e)
{
    const struct job_request *r = &j->request;
    struct tern_generate_params generate = params_of(s, j);
    struct tern_receipt_params p = {
        .prompt = r->prompt,
        .n_prompt = r->n_prompt,
        .answer = (const tern_token *)(const void *)j->answer.p,
        .n_answer = j->answer.n / sizeof *p.answer,
        .generate = &generate,
        .constraint = r->constraint ? compiled_params(r->constraint) : NULL,
        .result = &j->last.result,
        .cache_type = s->server->plan.cache_type,
    };
    size_t n;
    enum tern_status status = tern_receipt_write(s->server->model, &p, NULL, 0, &n, e);
    if (status)
        return status == TERN_USAGE ? TERN_OK : status;
    if (!(j->receipt = malloc(n + 1)))
        return e->code = TERN_NO_MEMORY;
    status = tern_receipt_write(s->server->model, &p, j->receipt, n, &n, e);
    j->receipt[n] = 0;
    j->last.receipt = status ? NULL : j->receipt;
    return status;
}

void run_text_end(struct scheduler *s, struct job *j)
{
    struct tern_error e = {0};
    struct job_event last = {
        .kind = JOB_DONE, .n_prompt = j->request.n_prompt, .n_cached = j->n_cached};
    double now = stopwatch_now(), first = j->first > 0 ? j->first : now;
    enum tern_status status = tern_text_result(j->text, &last.result, &e);
    bool is_over = tern_text_is_over(j->text);
    tern_text_close(j->text);
    j->text = NULL;
    last.text = j->tail.p ? j->tail.p : "";
    last.bytes = j->tail.n;
    last.queue_seconds = j->started - j->submitted;
    last.prompt_seconds = first - j->started;
    last.generate_seconds = now - first;
    j->last = last;
    if (j->no_memory || j->token_text.failed || j->tail.failed || j->answer.failed)
        run_text_fail(j, 503, "no memory for the answer");
    else if (status || (is_over && j->request.receipt && take_receipt(s, j, &e)))
        fail_with(j, &e);
}
