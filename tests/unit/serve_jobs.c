/* Jobs for tests: see serve_jobs.h. */
#include "serve_jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/model/compiled.h"
#include "suite.h"

struct serve_options jobs_options;
struct server jobs_server;
static struct tern_error e;

/* ---- waiting for events -------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned wakes;

void jobs_wake(void *arg)
{
    pthread_mutex_lock(&lock);
    wakes++;
    if (arg)
        ++*(unsigned *)arg;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* Until more than `seen` wakes came; returns how many. */
unsigned jobs_await(unsigned seen)
{
    pthread_mutex_lock(&lock);
    while (wakes == seen)
        pthread_cond_wait(&changed, &lock);
    unsigned now = wakes;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ---- a scheduler --------------------------------------------------------------------------- */

void jobs_start(const char *model, uint32_t n_parallel, int64_t queue)
{
    wakes = 0;
    jobs_options.model = model;
    jobs_options.value[SERVE_PARALLEL].integer = n_parallel;
    jobs_options.value[SERVE_QUEUE].integer = queue;
    jobs_options.value[SERVE_THREADS].integer = 2;
    jobs_options.value[SERVE_QUIET].given = true;
    jobs_server = (struct server){.options = &jobs_options};
    ck_assert_msg(!scheduler_open(&jobs_server.scheduler, &jobs_server, jobs_wake, NULL, &e), "%s",
                  e.text);
    (void)jobs_await(0);
    ck_assert_msg(jobs_server.loaded && !scheduler_status(jobs_server.scheduler, &e), "%s", e.text);
}

void jobs_stop(void)
{
    scheduler_close(jobs_server.scheduler);
    memset(&jobs_options, 0, sizeof jobs_options);
}

struct job_request jobs_request(const struct asked *a)
{
    struct job_request r = {
        .kind = JOB_TEXT, .n_predict = a->n_predict, .cache_prompt = true, .client = a->client};
    r.prompt = malloc(ANSWER_MAX * sizeof *r.prompt);
    r.sampler = tern_sampler_defaults(jobs_server.model);
    r.sampler.seed = a->seed;
    ck_assert_int_eq(tern_tokenize(jobs_server.model, a->prompt, strlen(a->prompt),
                                   TERN_ADD_SPECIAL, r.prompt, ANSWER_MAX, &r.n_prompt, &e),
                     TERN_OK);
    struct fault f = {0};
    struct tern_constraint_params p = {.kind = TERN_CONSTRAINT_GRAMMAR, .text = a->grammar};
    if (a->grammar) {
        p.bytes = strlen(a->grammar);
        r.constraint = compiled_find(&jobs_server, &p, &f);
        ck_assert_msg(r.constraint, "%s", f.message);
    }
    return r;
}

void jobs_ask(struct asked *a)
{
    struct fault f;
    struct job_request r = jobs_request(a);
    a->job = job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f);
    ck_assert_msg(a->job, "%s", f.message);
}

bool jobs_take(struct asked *a)
{
    struct job_event event;
    while (!a->over && job_next(a->job, &event)) {
        memcpy(a->text + a->bytes, event.text ? event.text : "", event.bytes);
        a->bytes += event.bytes;
        if (event.kind == JOB_TOKEN)
            a->tokens[a->n++] = event.token;
        else
            a->over = true, a->last = event;
    }
    return a->over;
}

void jobs_take_all(struct asked *a, size_t n)
{
    for (unsigned seen = 0;; seen = jobs_await(seen)) {
        size_t over = 0;
        for (size_t i = 0; i < n; i++)
            over += jobs_take(&a[i]);
        if (over == n)
            return;
    }
}

/* ---- alone --------------------------------------------------------------------------------- */

struct alone {
    tern_token tokens[ANSWER_MAX];
    size_t n, bytes;
    char text[8 * ANSWER_MAX];
};

static int keep_token(void *arg, tern_token token, const float *logits)
{
    struct alone *a = arg;
    (void)logits;
    a->tokens[a->n++] = token;
    return 0;
}

static int keep_text(void *arg, tern_token token, const char *text, size_t n)
{
    struct alone *a = arg;
    (void)token;
    memcpy(a->text + a->bytes, text, n);
    a->bytes += n;
    return 0;
}

void jobs_check_alone(const struct asked *a)
{
    static struct alone alone;
    tern_context *ctx;
    struct tern_generate_params p = tern_generate_defaults();
    struct job_request r = jobs_request(a);
    alone = (struct alone){0};
    p.tokens = r.prompt, p.n_tokens = r.n_prompt, p.sampler = &r.sampler, p.n_predict = r.n_predict;
    p.constraint = r.constraint ? compiled_get(r.constraint) : NULL;
    p.on_token = keep_token, p.on_text = keep_text, p.arg = &alone;
    ck_assert_int_eq(tern_context_open(&ctx, jobs_server.model, NULL, &e), TERN_OK);
    ck_assert_msg(!tern_generate(ctx, &p, NULL, &e), "%s", e.text);
    tern_context_close(ctx);
    job_request_free(&r);
    ck_assert_uint_eq(a->n, alone.n);
    ck_assert(!memcmp(a->tokens, alone.tokens, alone.n * sizeof *alone.tokens));
    ck_assert_uint_eq(a->bytes, alone.bytes);
    ck_assert(!memcmp(a->text, alone.text, alone.bytes));
}
