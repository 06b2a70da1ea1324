/* The model thread of serve: jobs that run together get the answers that each would get alone. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/job.h"
#include "app/serve/scheduler.h"
#include "app/serve/serve_options.h"
#include "suite.h"

enum { MAX_JOBS = 64, MAX_ANSWER = 512 };

static struct serve_options options;
static struct server server;
static struct tern_error e;

/* ---- waiting for events -------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned wakes;

static void wake(void *arg)
{
    pthread_mutex_lock(&lock);
    wakes++;
    if (arg)
        ++*(unsigned *)arg;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* Until more than `seen` wakes came; returns how many. */
static unsigned await(unsigned seen)
{
    pthread_mutex_lock(&lock);
    while (wakes == seen)
        pthread_cond_wait(&changed, &lock);
    unsigned now = wakes;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ---- a scheduler --------------------------------------------------------------------------- */

static void start(uint32_t n_parallel, int64_t queue)
{
    wakes = 0;
    options.model = "models/fable.bin";
    options.value[SERVE_PARALLEL].integer = n_parallel;
    options.value[SERVE_QUEUE].integer = queue;
    options.value[SERVE_THREADS].integer = 2;
    options.value[SERVE_QUIET].given = true;
    server = (struct server){.options = &options};
    ck_assert_msg(!scheduler_open(&server.scheduler, &server, wake, NULL, &e), "%s", e.text);
    (void)await(0);
    ck_assert_msg(server.loaded && !scheduler_status(server.scheduler, &e), "%s", e.text);
}

static void stop(void)
{
    scheduler_close(server.scheduler);
    memset(&options, 0, sizeof options);
}

struct asked {
    struct job *job;
    char prompt[64];
    int64_t n_predict;
    uint64_t seed;
    tern_token tokens[MAX_ANSWER];
    size_t n;
    char text[8 * MAX_ANSWER];
    size_t bytes;
    bool over;
    struct job_event last;
};

static struct job_request request(const struct asked *a)
{
    struct job_request r = {.kind = JOB_TEXT, .n_predict = a->n_predict, .cache_prompt = true};
    r.prompt = malloc(MAX_ANSWER * sizeof *r.prompt);
    r.sampler = tern_sampler_defaults(server.model);
    r.sampler.seed = a->seed;
    ck_assert_int_eq(tern_tokenize(server.model, a->prompt, strlen(a->prompt), TERN_ADD_SPECIAL,
                                   r.prompt, MAX_ANSWER, &r.n_prompt, &e),
                     TERN_OK);
    return r;
}

static void ask(struct asked *a, uint64_t client)
{
    struct fault f;
    struct job_request r = request(a);
    r.client = client;
    a->job = job_submit(server.scheduler, &r, wake, NULL, &f);
    ck_assert_msg(a->job, "%s", f.message);
}

static bool take(struct asked *a)
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

static void take_all(struct asked *a, size_t n)
{
    for (unsigned seen = 0;; seen = await(seen)) {
        size_t over = 0;
        for (size_t i = 0; i < n; i++)
            over += take(&a[i]);
        if (over == n)
            return;
    }
}

/* ---- alone --------------------------------------------------------------------------------- */

struct alone {
    tern_token tokens[MAX_ANSWER];
    size_t n, bytes;
    char text[8 * MAX_ANSWER];
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

static void check_alone(const struct asked *a)
{
    static struct alone alone;
    tern_context *ctx;
    struct tern_generate_params p = tern_generate_defaults();
    struct job_request r = request(a);
    alone = (struct alone){0};
    p.tokens = r.prompt, p.n_tokens = r.n_prompt, p.sampler = &r.sampler, p.n_predict = r.n_predict;
    p.on_token = keep_token, p.on_text = keep_text, p.arg = &alone;
    ck_assert_int_eq(tern_context_open(&ctx, server.model, NULL, &e), TERN_OK);
    ck_assert_msg(!tern_generate(ctx, &p, NULL, &e), "%s", e.text);
    tern_context_close(ctx);
    job_request_free(&r);
    ck_assert_uint_eq(a->n, alone.n);
    ck_assert(!memcmp(a->tokens, alone.tokens, alone.n * sizeof *alone.tokens));
    ck_assert_uint_eq(a->bytes, alone.bytes);
    ck_assert(!memcmp(a->text, alone.text, alone.bytes));
}

START_TEST(answers_are_those_of_jobs_alone)
{
    static struct asked a[24];
    static const char *const prompts[] = {"The cat sat", "Once upon a time", "A dog", "The cat was"};
    memset(a, 0, sizeof a);
    start(6, 64);
    for (size_t i = 0; i < 24; i++) {
        strcpy(a[i].prompt, prompts[i % 4]);
        a[i].n_predict = (int64_t)(1 + i * 7 % 60);
        a[i].seed = i;
        ask(&a[i], i % 5);
    }
    take_all(a, 24);
    for (size_t i = 0; i < 24; i++) {
        ck_assert_int_eq(a[i].last.kind, JOB_DONE);
        check_alone(&a[i]);
        job_close(a[i].job);
    }
    stop();
}
END_TEST

SUITE("serve_scheduler", TEST(answers_are_those_of_jobs_alone))
