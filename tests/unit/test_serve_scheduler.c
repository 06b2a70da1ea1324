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

/* ---- together ------------------------------------------------------------------------------ */

static const char *const prompts[] = {"The cat sat", "Once upon a time", "A dog", "The cat was"};

static void fill(struct asked *a, size_t n)
{
    memset(a, 0, n * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        strcpy(a[i].prompt, prompts[i % 4]);
        a[i].n_predict = (int64_t)(1 + i * 7 % 60);
        a[i].seed = i;
    }
}

static struct asked asked[MAX_JOBS];

static void check_all(size_t n)
{
    take_all(asked, n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(asked[i].last.kind, JOB_DONE);
        check_alone(&asked[i]);
        job_close(asked[i].job);
    }
}

START_TEST(answers_are_those_of_jobs_alone)
{
    options.value[SERVE_CACHE_RAM].given = _i > 0;
    options.value[SERVE_LOOKUP].given = _i > 1;
    start(_i > 2 ? 32 : 6, 64);
    fill(asked, 36);
    for (size_t i = 0; i < 36; i++)
        ask(&asked[i], i % 5);
    check_all(36);
    stop();
}
END_TEST

/* A third leaves while it waits, reads or answers; the others do not notice. */
START_TEST(jobs_that_leave_change_no_other)
{
    struct job_event event;
    start(4, 64);
    fill(asked, 30);
    for (size_t i = 0; i < 30; i++)
        ask(&asked[i], i);
    for (size_t i = 0, n = 30; i < n; i++)
        if (i % 3 == 0) {
            while (i < 12 && asked[i].n_predict > 20 && !job_next(asked[i].job, &event))
                ;
            job_close(asked[i].job);
        }
    for (size_t i = 0; i < 20; i++)
        asked[i] = asked[i / 2 * 3 + 1 + i % 2];
    check_all(20);
    ck_assert_uint_eq(scheduler_n_jobs(server.scheduler), 0);
    stop();
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct fault f;
    start(1, 2);
    fill(asked, 8);
    for (size_t i = 0; i < 8; i++)
        asked[i].n_predict = 400;
    ask(&asked[0], 1);
    while (!scheduler_n_jobs(server.scheduler) || !job_next(asked[0].job, &asked[0].last))
        ; /* it runs */
    ask(&asked[1], 1);
    ask(&asked[2], 1);
    struct job_request r = request(&asked[3]);
    ck_assert(!job_submit(server.scheduler, &r, wake, NULL, &f));
    ck_assert(f.status == 503 && f.retry_after > 0);
    job_close(asked[1].job); /* makes room */
    ask(&asked[3], 1);
    scheduler_stop(server.scheduler, false);
    r = request(&asked[4]);
    ck_assert(!job_submit(server.scheduler, &r, wake, NULL, &f));
    ck_assert_int_eq(f.status, 503);
    scheduler_stop(server.scheduler, true);
    take_all(&asked[2], 2);
    ck_assert(asked[2].last.kind == JOB_FAILED && asked[3].last.kind == JOB_FAILED);
    ck_assert_int_eq(asked[3].last.fault.status, 503);
    for (size_t i = 0; i < 4; i++)
        if (i != 1)
            job_close(asked[i].job);
    stop();
}
END_TEST

START_TEST(a_prompt_that_is_too_long_is_refused_with_both_numbers)
{
    struct fault f;
    start(2, 4);
    struct job_request r = {.kind = JOB_TEXT, .n_prompt = 513};
    r.prompt = calloc(513, sizeof *r.prompt);
    ck_assert(!job_submit(server.scheduler, &r, wake, NULL, &f));
    ck_assert(f.status == 400 && !strcmp(f.code, "context_length_exceeded"));
    ck_assert(strstr(f.message, "513") && strstr(f.message, "512"));
    ck_assert(!r.prompt);
    stop();
}
END_TEST

/* The second client's job begins before the other's second, though it was submitted last. */
START_TEST(clients_take_turns)
{
    start(1, 64);
    fill(asked, 9);
    for (size_t i = 0; i < 9; i++)
        asked[i].n_predict = 8;
    asked[0].n_predict = 300; /* all others arrive meanwhile */
    ask(&asked[0], 1);
    for (size_t i = 1; i < 8; i++)
        ask(&asked[i], 1);
    ask(&asked[8], 2);
    for (unsigned seen = 0; !take(&asked[8]); seen = await(seen))
        ;
    for (size_t i = 2; i < 8; i++)
        ck_assert_msg(!take(&asked[i]), "job %zu of the first client was before", i);
    take_all(asked, 9);
    for (size_t i = 0; i < 9; i++)
        job_close(asked[i].job);
    stop();
}
END_TEST

/* ---- prefixes ------------------------------------------------------------------------------ */

static void long_request(struct asked *a, struct job_request *r, size_t n)
{
    *r = request(a);
    for (size_t i = 0; i < n; i++)
        r->prompt[i] = (tern_token)(1 + (i * i + 7 * i) % 4000);
    r->n_prompt = n;
}

/* One reads, the others wait for that and share it: with a store of kept beginnings, and without. */
START_TEST(choices_of_one_prompt_read_it_once)
{
    struct fault f;
    options.value[SERVE_CACHE_RAM].given = true;
    options.value[SERVE_CACHE_RAM].integer = _i ? 64 : 0;
    start(8, 64);
    fill(asked, 8);
    for (size_t i = 0; i < 8; i++) {
        struct job_request r;
        asked[i].n_predict = 4;
        long_request(&asked[i], &r, 400);
        asked[i].job = job_submit(server.scheduler, &r, wake, NULL, &f);
    }
    take_all(asked, 8);
    size_t cached = 0;
    for (size_t i = 0; i < 8; i++) {
        ck_assert_int_eq(asked[i].last.kind, JOB_DONE);
        cached += asked[i].last.n_cached;
        job_close(asked[i].job);
    }
    ck_assert_uint_ge(cached, 7 * (399 - 32)); /* what is not worth waiting for */
    stop();
}
END_TEST

/* ---- embeddings ---------------------------------------------------------------------------- */

START_TEST(embeddings_do_not_depend_on_company)
{
    enum { N = 12 };
    static float alone[N][4096];
    struct fault f;
    struct job_event event;
    size_t dim = 0;
    start(4, 64);
    fill(asked, N);
    for (int together = 0; together < 2; together++) {
        for (size_t i = 0; i < N; i++) {
            struct job_request r;
            asked[i].over = false;
            long_request(&asked[i], &r, 3 + 41 * i);
            r.kind = i % 2 ? JOB_EMBED_MEAN : JOB_EMBED_LAST;
            asked[i].job = job_submit(server.scheduler, &r, wake, NULL, &f);
            ck_assert_ptr_nonnull(asked[i].job);
            if (!together)
                take_all(&asked[i], 1);
        }
        take_all(asked, N);
        for (size_t i = 0; i < N; i++) {
            event = asked[i].last;
            ck_assert_int_eq(event.kind, JOB_DONE);
            dim = event.dim;
            if (together)
                ck_assert(!memcmp(alone[i], event.embedding, dim * sizeof(float)));
            memcpy(alone[i], event.embedding, dim * sizeof(float));
            double squares = 0;
            for (size_t k = 0; k < dim; k++)
                squares += (double)alone[i][k] * (double)alone[i][k];
            ck_assert(squares > 0.9999 && squares < 1.0001);
            job_close(asked[i].job);
        }
    }
    ck_assert_uint_eq(dim, 256);
    stop();
}
END_TEST

SUITE("serve_scheduler", LOOP(answers_are_those_of_jobs_alone, 0, 4),
      TEST(jobs_that_leave_change_no_other), TEST(a_full_queue_refuses),
      TEST(a_prompt_that_is_too_long_is_refused_with_both_numbers), TEST(clients_take_turns),
      LOOP(choices_of_one_prompt_read_it_once, 0, 2), TEST(embeddings_do_not_depend_on_company))
