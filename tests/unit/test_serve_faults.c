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

/* BASE: ms of a step of streams. Reading what rows attend to costs as much as READ rows. */
enum { BASE = 20, PROMPT = 4000, N_STREAMS = 4, READ = 2 };

struct cost {
    double row, quad, seen; /* ms of a row, of four, of a row for 1,000 positions before it */
    double growth;          /* of streams: ms more for each step */
};

static double ms_of(const struct cost *cost, size_t n_streams, size_t rows, size_t depth)
{
    size_t quads = (n_streams + rows + 3) / 4 - (n_streams + 3) / 4;
    return (n_streams ? BASE : 0) + cost->row * (double)rows + cost->quad * (double)quads +
           cost->seen * (double)(rows ? rows + READ : 0) * (double)depth / 1000;
}

static const struct prompt_readers nobody = {0, NULL},
                                   at_begin = {1, &(struct prompt_reader){PROMPT, 0}};

static int compare_ms(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reads a prompt beside n streams. Now and then something else holds a step up. Returns the time; *longest:
 * of all steps but one in a hundred. */
static double read_prompt(struct chunks *c, const struct cost *cost, size_t n, double *longest)
{
    static double ms[PROMPT + 1];
    double sum = 0;
    size_t i = 0;
    for (size_t depth = 0; depth < PROMPT; i++) {
        struct prompt_readers r = {1, &(struct prompt_reader){PROMPT - depth, depth}};
        size_t rows = chunks_choose(c, n, &r);
        if (rows > r.of->unread)
            rows = r.of->unread;
        ck_assert_uint_le(i, PROMPT);
        ms[i] = ms_of(cost, n, rows, depth) + (n ? cost->growth * (double)i : 0);
        sum += ms[i];
        chunks_learn(c, n, rows, &r, (i % 50 == 49 ? 4 : 1) * ms[i] * 1e-3);
        depth += rows;
    }
    qsort(ms, i, sizeof *ms, compare_ms);
    *longest = ms[i * 99 / 100];
    return sum;
}

START_TEST(streams_keep_their_pace)
{
    static const struct cost costs[] = {
        {3, 0, 0, 0}, {0, 6, 0, 0}, {0.1, 3, 0.3, 0}, {0.1, 6, 0.2, 0.005}};
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++) {
        struct chunks c = {.max = 512};
        double longest, alone = read_prompt(&c, &costs[k], 0, &longest), beside;
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < 60; i++) /* some of them something else holds up a little */
                chunks_learn(&c, N_STREAMS, 0, &nobody, (i % 4 == 3 ? 1.25 : 1) * BASE * 1e-3);
            beside = read_prompt(&c, &costs[k], N_STREAMS, &longest);
            ck_assert_msg(longest <= 2 * BASE && beside <= 3.3 * alone,
                          "costs %zu: %g ms at most, %g ms beside streams, %g alone", k, longest,
                          beside, alone);
        }
    }
}
END_TEST

/* The first prompt has two rows left at its begin, the second is deep. */
START_TEST(each_prompt_has_its_depth)
{
    static const struct cost cost = {0.1, 3, 0.5, 0};
    struct prompt_readers r = {2, (struct prompt_reader[]){{2, 0}, {PROMPT, PROMPT}}};
    struct chunks c = {.max = 512};
    double longest;
    for (int i = 0; i < 20; i++)
        chunks_learn(&c, N_STREAMS, 0, &nobody, BASE * 1e-3);
    (void)read_prompt(&c, &cost, N_STREAMS, &longest);
    for (int i = 0; i < 20; i++) {
        size_t rows = chunks_choose(&c, N_STREAMS, &r), deep = rows > 2 ? rows - 2 + READ : 0;
        double ms = ms_of(&cost, N_STREAMS, rows, 0) + cost.seen * (double)(deep * PROMPT) / 1000;
        ck_assert_msg(ms <= 2 * BASE, "%zu rows take %g ms", rows, ms);
        chunks_learn(&c, N_STREAMS, rows, &r, ms * 1e-3);
    }
}
END_TEST

/* Four rows cost as much as one: a step has as many as make its batch a multiple of four. */
START_TEST(rows_fill_quads)
{
    static const struct cost cost = {0, 6, 0, 0};
    for (size_t n = 1; n <= 5; n++) {
        struct chunks c = {.max = 512};
        chunks_learn(&c, n, 0, &nobody, BASE * 1e-3);
        for (int i = 0; i < 40; i++) {
            uint32_t rows = chunks_choose(&c, n, &at_begin);
            ck_assert_msg(i < 4 || (n + rows) % 4 == 0, "%zu streams, %u rows", n, rows);
            chunks_learn(&c, n, rows, &at_begin, ms_of(&cost, n, rows, 0) * 1e-3);
        }
    }
}
END_TEST

/* Much more text to read than streams: more rows, but no more than a quarter of a second. */
START_TEST(many_readers_get_more)
{
    static const struct cost cost = {0, 6, 0, 0};
    struct chunks c = {.max = 512};
    double ms = 0;
    struct prompt_reader of[31];
    struct prompt_readers many = {31, of};
    for (size_t i = 0; i < many.n; i++)
        of[i] = *at_begin.of;
    chunks_learn(&c, 1, 0, &nobody, BASE * 1e-3);
    for (int i = 0; i < 200; i++) {
        uint32_t rows = chunks_choose(&c, 1, &many);
        ms = ms_of(&cost, 1, rows, 0);
        ck_assert_double_le(ms, 275 + BASE); /* what is learned lags a little */
        chunks_learn(&c, 1, rows, &many, ms * 1e-3);
    }
    ck_assert_double_ge(ms, 200);
}
END_TEST

START_TEST(without_streams_a_step_takes_a_quarter_of_a_second)
{
    static const struct cost cost = {3, 0, 0, 0};
    struct chunks c = {.max = 512};
    double longest;
    (void)read_prompt(&c, &cost, 0, &longest);
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
      TEST(streams_keep_their_pace), TEST(each_prompt_has_its_depth), TEST(rows_fill_quads),
      TEST(many_readers_get_more), TEST(without_streams_a_step_takes_a_quarter_of_a_second),
      TEST(events_come_as_they_went), TEST(constraints_are_found_again))
