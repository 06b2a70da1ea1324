/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc */
/* The model thread of serve without memory: the job that lacks it fails, and no other. Parts of it that
 * need no model. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/serve/model/chunks.h"
#include "app/serve/model/events.h"
#include "serve_jobs.h"
#include "suite.h"
#include "toy.h"

/* ---- allocations of other threads than the test's fail ------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static pthread_t test_thread;
static atomic_size_t n_allocations, fail_at; /* 0: none */
static atomic_bool fails_rest;

static bool fails(void)
{
    if (!fail_at || pthread_equal(pthread_self(), test_thread))
        return false;
    size_t i = ++n_allocations;
    return fails_rest ? i >= fail_at : i == fail_at;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

static struct asked asked[4];

static void submit(size_t i, struct job_request *r)
{
    struct fault f;
    asked[i].job = job_submit(jobs_server.scheduler, r, jobs_wake, NULL, &f);
    ck_assert_msg(asked[i].job, "%s", f.message);
}

/* A text with all that needs memory, one under a constraint, and an embedding. */
static void submit_three(void)
{
    struct fault f = {0};
    struct job_request r;
    memset(asked, 0, sizeof asked);
    for (size_t i = 0; i < 4; i++) {
        strcpy(asked[i].prompt, "The cat");
        asked[i].n_predict = 6;
    }
    r = jobs_request(&asked[0]);
    r.receipt = r.logprobs = true;
    r.n_top = JOB_TOP_MAX;
    submit(0, &r);
    r = jobs_request(&asked[1]);
    r.constraint = compiled_find(&jobs_server,
                                 &(struct tern_constraint_params){
                                     .kind = TERN_CONSTRAINT_CHOICE, .text = "yes|no", .bytes = 6},
                                 &f);
    ck_assert_msg(r.constraint, "%s", f.message);
    submit(1, &r);
    r = jobs_request(&asked[2]);
    r.kind = JOB_EMBED_MEAN;
    submit(2, &r);
}

START_TEST(a_job_without_memory_fails_alone)
{
    size_t n_failed = 0, at = 0;
    test_thread = pthread_self();
    jobs_options.value[SERVE_CACHE_RAM].integer = 16;
    jobs_options.value[SERVE_CACHE_RAM].given = true;
    jobs_start("models/fable.bin", 2, 16);
    do {
        fails_rest = at % 2;
        n_allocations = 0;
        fail_at = 1 + at++ / 2;
        submit_three();
        jobs_take_all(asked, 3);
        for (size_t i = 0; i < 3; i++) {
            const struct job_event *last = &asked[i].last;
            bool failed = last->kind == JOB_FAILED;
            ck_assert_msg(!failed || last->fault.status == 503, "%s", last->fault.message);
            n_failed += failed;
            job_close(asked[i].job);
        }
    } while (n_allocations >= fail_at && at < (getenv("QUICK") ? 30 : SIZE_MAX));
    ck_assert_uint_ge(at, 30);
    ck_assert_uint_ge(n_failed, 30);
    fail_at = 0;
    jobs_ask(&asked[3]);
    jobs_take_all(&asked[3], 1);
    ck_assert_int_eq(asked[3].last.kind, JOB_DONE);
    jobs_check_alone(&asked[3]);
    job_close(asked[3].job);
    jobs_stop();
}
END_TEST

/* ---- a reader that is slow ----------------------------------------------------------------- */

START_TEST(a_job_whose_events_wait_pauses)
{
    char path[256];
    struct tern_error e;
    struct toy toy = toy_default();
    toy.max_seq = 2048;
    toy_path(path, sizeof path, "serve_pause");
    ck_assert_msg(!toy_write(path, &toy, &e), "%s", e.text);
    jobs_start(path, 1, 4);
    memset(asked, 0, sizeof asked);
    struct job_request r = {.kind = JOB_TEXT, .n_predict = 1500, .ignore_end = true, .n_prompt = 1};
    r.sampler = tern_sampler_defaults(jobs_server.model);
    r.prompt = calloc(1, sizeof *r.prompt);
    r.logprobs = true, r.n_top = JOB_TOP_MAX;
    submit(0, &r);
    for (int i = 0, same = 0; same < 20; i++) { /* until its numbers stand still */
        static json_int_t n;
        json_t *slots = scheduler_slots(jobs_server.scheduler);
        json_int_t now =
            json_integer_value(json_object_get(json_array_get(slots, 0), "n_generated"));
        same = now && now == n ? same + 1 : 0;
        n = now;
        json_decref(slots);
        usleep(5000);
        ck_assert_int_lt(now, 1000);
        ck_assert_int_lt(i, 4000);
    }
    jobs_take_all(asked, 1);
    ck_assert_int_eq(asked[0].last.kind, JOB_DONE);
    ck_assert_uint_eq(asked[0].n, 1500);
    job_close(asked[0].job);
    jobs_stop();
    unlink(path);
}
END_TEST

/* ---- pace ---------------------------------------------------------------------------------- */

enum { BASE = 20 }; /* ms of a step of streams; a row of a prompt takes 3 */

/* Some steps of n streams beside a prompt; returns the sum of rows. Now and then one is slow. */
static size_t steps(struct chunks *c, size_t n, int count, double *longest)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        uint32_t rows = chunks_choose(c, n, 1);
        double ms = (n ? BASE : 0) + 3.0 * rows;
        if (ms > *longest)
            *longest = ms;
        chunks_learn(c, n, rows, (i % 50 == 49 ? 4 : 1) * ms * 1e-3);
        sum += rows;
    }
    return sum;
}

START_TEST(streams_keep_their_pace)
{
    struct chunks c = {.max = 512};
    double longest = 0;
    for (int i = 0; i < 20; i++)
        chunks_learn(&c, 4, 0, BASE * 1e-3);
    size_t rows = steps(&c, 4, 1000, &longest);
    ck_assert_double_le(longest, 2 * BASE);
    /* alone, a row takes 3 ms: the prompt took at most 3 times as long */
    ck_assert_double_le((1000.0 * BASE + 3.0 * (double)rows) / (3.0 * (double)rows), 3);
    longest = 0;
    (void)steps(&c, 0, 100, &longest);
    ck_assert_double_ge(longest, 200);
    ck_assert_double_le(longest, 300);
}
END_TEST

/* ---- events -------------------------------------------------------------------------------- */

START_TEST(events_come_as_they_went)
{
    struct events a = {0}, b = {0};
    struct tern_choice top[3] = {{1, -1}, {2, -2}, {3, -3}};
    struct job_event e;
    for (int i = 0; i < 100; i++) {
        e = (struct job_event){.kind = JOB_TOKEN, .token = i, .logprob = -i, .forced = i % 2};
        e.text = "abcdefgh", e.bytes = (size_t)i % 9, e.top = top, e.n_top = (size_t)i % 4;
        ck_assert(events_add(&a, &e));
        if (i % 7 == 0)
            ck_assert(events_move(&b, &a));
    }
    ck_assert(events_move(&b, &a) && !events_next(&a, &e));
    for (int i = 0; i < 100; i++) {
        ck_assert(events_next(&b, &e));
        ck_assert(e.token == i && e.forced == i % 2 && e.bytes == (size_t)i % 9);
        ck_assert(!memcmp(e.text, "abcdefgh", e.bytes) && e.n_top == (size_t)i % 4);
        ck_assert(!e.n_top || e.top[e.n_top - 1].token == (tern_token)e.n_top);
    }
    ck_assert(!events_next(&b, &e));
    events_close(&a);
    events_close(&b);
}
END_TEST

/* ---- constraints that are shared ----------------------------------------------------------- */

START_TEST(constraints_are_found_again)
{
    struct compiled *c[20];
    struct fault f = {0};
    jobs_start("models/fable.bin", 1, 4);
    for (int i = 0; i < 20; i++) {
        char text[16];
        struct tern_constraint_params p = {.kind = TERN_CONSTRAINT_REGEX, .text = text};
        p.bytes = (size_t)snprintf(text, sizeof text, "a{%d}", i % 10 + 1);
        c[i] = compiled_find(&jobs_server, &p, &f);
        ck_assert_msg(c[i], "%s", f.message);
        ck_assert(i < 10 || c[i] == c[i - 10]);
        ck_assert(!memcmp(compiled_params(c[i])->text, text, p.bytes));
    }
    struct tern_constraint_params bad = {.kind = TERN_CONSTRAINT_REGEX, .text = "a(", .bytes = 2};
    ck_assert(!compiled_find(&jobs_server, &bad, &f));
    ck_assert_int_eq(f.status, 400);
    for (int i = 0; i < 20; i++)
        compiled_release(c[i]);
    jobs_stop();
}
END_TEST

SUITE("serve_faults", TEST(a_job_without_memory_fails_alone), TEST(a_job_whose_events_wait_pauses),
      TEST(streams_keep_their_pace), TEST(events_come_as_they_went),
      TEST(constraints_are_found_again))
