/* The model thread of serve: jobs that run together get the answers that each would get alone. */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "serve_jobs.h"
#include "suite.h"

#define MODEL "models/fable.bin"

enum { MAX_JOBS = 64 };

/* ---- together ------------------------------------------------------------------------------ */

static const char *const prompts[] = {"The cat sat", "Once upon a time", "A dog", "The cat was"};

static void fill(struct asked *a, size_t n)
{
    memset(a, 0, n * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        strcpy(a[i].prompt, prompts[i % 4]);
        a[i].n_predict = (int64_t)(1 + i * 7 % (golden_is_quick() ? 9 : 60));
        a[i].seed = i;
    }
}

static struct asked asked[MAX_JOBS];

static void ask(size_t i, uint64_t client)
{
    asked[i].client = client;
    jobs_ask(&asked[i]);
}

/* Alone it meets no other, which is all that counts under the thread sanitizer. */
static void check_alone(struct asked *a)
{
    if (!golden_is_threaded())
        jobs_check_alone(a);
}

static void check_all(size_t n)
{
    jobs_take_all(asked, n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(asked[i].last.kind, JOB_DONE);
        check_alone(&asked[i]);
        job_close(asked[i].job);
    }
}

START_TEST(answers_are_those_of_jobs_alone)
{
    jobs_options.value[SERVE_CACHE_RAM].given = _i > 0;
    jobs_options.value[SERVE_LOOKUP].given = _i > 1;
    jobs_options.value[SERVE_DRAFT].text = _i > 3 ? MODEL : NULL;
    jobs_start(MODEL, _i > 2 ? 32 : 6, 64);
    size_t n = golden_is_quick() ? 10 : 36;
    fill(asked, n);
    for (size_t i = 0; i < n; i++)
        ask(i, i % 5);
    check_all(n);
    jobs_stop();
}
END_TEST

/* A third leaves while it waits, reads or answers; the others do not notice. */
START_TEST(jobs_that_leave_change_no_other)
{
    struct job_event event;
    jobs_start(MODEL, 4, 64);
    fill(asked, 30);
    for (size_t i = 0; i < 30; i++)
        ask(i, i);
    for (size_t i = 0, n = 30; i < n; i++)
        if (i % 3 == 0) {
            while (i < 12 && asked[i].n_predict > 20 && !job_next(asked[i].job, &event))
                ;
            job_close(asked[i].job);
        }
    for (size_t i = 0; i < 20; i++)
        asked[i] = asked[i / 2 * 3 + 1 + i % 2];
    check_all(20);
    ck_assert_uint_eq(scheduler_n_jobs(jobs_server.scheduler), 0);
    jobs_stop();
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct fault f;
    jobs_start(MODEL, 1, 2);
    fill(asked, 8);
    for (size_t i = 0; i < 8; i++)
        asked[i].n_predict = 400;
    ask(0, 1);
    while (!scheduler_n_jobs(jobs_server.scheduler) || !job_next(asked[0].job, &asked[0].last))
        ; /* it runs */
    ask(1, 1);
    ask(2, 1);
    struct job_request r = jobs_request(&asked[3]);
    ck_assert(!job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f));
    ck_assert(f.status == 503 && f.retry_after > 0);
    job_close(asked[1].job); /* makes room */
    ask(3, 1);
    scheduler_stop(jobs_server.scheduler, false);
    r = jobs_request(&asked[4]);
    ck_assert(!job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f));
    ck_assert_int_eq(f.status, 503);
    scheduler_stop(jobs_server.scheduler, true);
    jobs_take_all(&asked[2], 2);
    ck_assert(asked[2].last.kind == JOB_FAILED && asked[3].last.kind == JOB_FAILED);
    ck_assert_int_eq(asked[3].last.fault.status, 503);
    for (size_t i = 0; i < 4; i++)
        if (i != 1)
            job_close(asked[i].job);
    jobs_stop();
}
END_TEST

START_TEST(without_a_queue_free_sequences_are_used)
{
    struct fault f;
    jobs_start(MODEL, 2, 0);
    fill(asked, 3);
    asked[0].n_predict = asked[1].n_predict = 400;
    ask(0, 1);
    ask(1, 1);
    struct job_request r = jobs_request(&asked[2]);
    ck_assert(!job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f));
    ck_assert_int_eq(f.status, 503);
    job_close(asked[0].job);
    job_close(asked[1].job);
    jobs_stop();
}
END_TEST

START_TEST(a_prompt_that_is_too_long_is_refused_with_both_numbers)
{
    struct fault f;
    jobs_start(MODEL, 2, 4);
    struct job_request r = {.kind = JOB_TEXT, .n_prompt = 513};
    r.prompt = calloc(513, sizeof *r.prompt);
    ck_assert(!job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f));
    ck_assert(f.status == 400 && !strcmp(f.code, "context_length_exceeded"));
    ck_assert(strstr(f.message, "513") && strstr(f.message, "512"));
    ck_assert(!r.prompt);
    jobs_stop();
}
END_TEST

/* The second client's job begins before the other's second, though it was submitted last. */
START_TEST(clients_take_turns)
{
    jobs_start(MODEL, 1, 64);
    fill(asked, 9);
    for (size_t i = 0; i < 9; i++)
        asked[i].n_predict = 8;
    asked[0].n_predict = golden_is_quick() ? 40 : 300; /* all others arrive meanwhile */
    ask(0, 1);
    for (size_t i = 1; i < 8; i++)
        ask(i, 1);
    ask(8, 2);
    for (unsigned seen = 0; !jobs_take(&asked[8]); seen = jobs_await(seen))
        ;
    for (size_t i = 2; i < 8; i++)
        ck_assert_msg(!jobs_take(&asked[i]), "job %zu of the first client was before", i);
    jobs_take_all(asked, 9);
    for (size_t i = 0; i < 9; i++)
        job_close(asked[i].job);
    jobs_stop();
}
END_TEST

/* How many of 12 long texts of the client find room, behind `at` others */
static size_t flood(size_t at, uint64_t client)
{
    size_t n = 0;
    for (size_t i = 0; i < 12; i++) {
        struct fault f;
        struct asked *a = &asked[at + n];
        a->client = client, a->n_predict = 8000; /* seconds, so that none ends meanwhile */
        struct job_request r = jobs_request(a);
        r.ignore_end = true;
        a->job = job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f);
        n += a->job != NULL;
        ck_assert(a->job || f.status == 503);
    }
    return n;
}

/* Until it has a sequence: its first event came. */
static void await_begin(struct asked *a)
{
    for (unsigned seen = 0; !job_next(a->job, &a->last);)
        seen = jobs_await(seen);
}

/* A client that asks for more than there is room for leaves a sequence, and its part of the queue. */
START_TEST(a_flood_leaves_room_for_others)
{
    static const struct {
        uint32_t parallel;
        int64_t queue;
        size_t first, second, third; /* answers that each client gets room for, in turn */
    } rows[] = {{2, 4, 1 + 3, 1 + 1, 0}, {3, 8, 2 + 6, 1 + 1, 1}, {4, 1, 3 + 1, 1, 0},
                {4, 0, 3, 1, 0},         {1, 8, 1 + 6, 1, 1},     {2, 64, 12, 12, 12},
                {1, 2, 1 + 1, 1, 0},     {1, 3, 1 + 2, 1, 0},     {1, 1, 1 + 1, 0, 0},
                {2, 2, 1 + 1, 1 + 1, 0}, {1, 5, 1 + 3, 1, 1}};
    jobs_options.value[SERVE_CTX_SIZE].integer = 8192;
    jobs_start(MODEL, rows[_i].parallel, rows[_i].queue);
    jobs_server.is_shared = true;
    fill(asked, MAX_JOBS);
    size_t first = flood(0, 1);
    for (size_t i = 0; i == 0 || i + 1 < rows[_i].parallel; i++)
        await_begin(&asked[i]); /* else the next client's may begin before them */
    size_t second = flood(first, 2), third = flood(first + second, 3);
    ck_assert_uint_eq(first, rows[_i].first);
    ck_assert_uint_eq(second, rows[_i].second);
    ck_assert_uint_eq(third, rows[_i].third);
    if (rows[_i].parallel > 1) /* the second client has the sequence that the first one left */
        await_begin(&asked[first]);
    ck_assert_uint_eq(scheduler_n_jobs(jobs_server.scheduler), first + second + third);
    for (size_t i = 0; i < first + second + third; i++)
        job_close(asked[i].job);
    jobs_stop();
}
END_TEST

/* ---- prefixes ------------------------------------------------------------------------------ */

static void long_request(struct asked *a, struct job_request *r, size_t n)
{
    *r = jobs_request(a);
    for (size_t i = 0; i < n; i++)
        r->prompt[i] = (tern_token)(1 + (i * i + 7 * i) % 4000);
    r->n_prompt = n;
}

static bool is_busy(void)
{
    json_t *slots = scheduler_slots(jobs_server.scheduler);
    bool busy = json_is_true(json_object_get(json_array_get(slots, 0), "is_processing"));
    json_decref(slots);
    return busy;
}

/* Of one that is in a step, which takes as long as it likes, and of one that waits */
START_TEST(what_is_cut_off_is_told_at_once)
{
    struct fault f;
    struct job_event event;
    unsigned wakes[2] = {0};
    jobs_options.value[SERVE_CTX_SIZE].integer = 2048;
    jobs_start(MODEL, 1, 4);
    fill(asked, 2);
    for (size_t i = 0; i < 2; i++) {
        struct job_request r;
        asked[i].n_predict = 1000;
        long_request(&asked[i], &r, 1000);
        r.ignore_end = true;
        asked[i].job = job_submit(jobs_server.scheduler, &r, jobs_wake, &wakes[i], &f);
    }
    ck_assert(!job_next(asked[1].job, &event));
    while (!is_busy())
        ;
    scheduler_stop(jobs_server.scheduler, true);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(jobs_take(&asked[i]));
        ck_assert_int_eq(asked[i].last.kind, JOB_FAILED);
        ck_assert_int_eq(asked[i].last.fault.status, 503);
        ck_assert_str_eq(asked[i].last.fault.code, "shutting_down");
        ck_assert(!job_next(asked[i].job, &event));
    }
    ck_assert_uint_eq(wakes[1], 1);
    job_close(asked[0].job);
    job_close(asked[1].job);
    jobs_stop();
}
END_TEST

/* One reads, the others wait for that and share it: with a store of kept beginnings, and without. */
START_TEST(choices_of_one_prompt_read_it_once)
{
    struct fault f;
    const size_t n_prompt = golden_is_quick() ? 150 : 400;
    jobs_options.value[SERVE_CACHE_RAM].given = true;
    jobs_options.value[SERVE_CACHE_RAM].integer = _i ? 64 : 0;
    jobs_start(MODEL, 8, 64);
    fill(asked, 8);
    for (size_t i = 0; i < 8; i++) {
        struct job_request r;
        asked[i].n_predict = 4;
        long_request(&asked[i], &r, n_prompt);
        asked[i].job = job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f);
    }
    jobs_take_all(asked, 8);
    size_t cached = 0;
    for (size_t i = 0; i < 8; i++) {
        ck_assert_int_eq(asked[i].last.kind, JOB_DONE);
        cached += asked[i].last.n_cached;
        job_close(asked[i].job);
    }
    ck_assert_uint_ge(cached, 7 * (n_prompt - 1 - 32)); /* what is not worth waiting for */
    jobs_stop();
}
END_TEST

/* ---- hard constraints ------------------------------------------------------------------------- */

/* A grammar of which each mask takes many steps: nothing tells where a rule ends but what stands behind it. */
static char *hard_grammar(void)
{
    enum { RULES = 4 };
    static char text[64 * RULES];
    size_t n = (size_t)sprintf(text, "root ::= (r0");
    for (int i = 1; i < RULES; i++)
        n += (size_t)sprintf(text + n, " | r%d", i);
    n += (size_t)sprintf(text + n, "){1,999}\n");
    for (int i = 0; i < RULES; i++)
        n += (size_t)sprintf(text + n, "r%d ::= [a-z ] | [a-z ] r%d \"%d\"\n", i, i, i);
    return text;
}

/* It sits out while its masks are made: others get more tokens meanwhile, and its answer is that of the text
 * alone. */
START_TEST(a_hard_grammar_holds_up_nobody)
{
    jobs_start(MODEL, 4, 64);
    fill(asked, 4);
    for (size_t i = 0; i < 4; i++) {
        asked[i].grammar = i < 2 ? hard_grammar() : NULL;
        asked[i].n_predict = i < 2 ? 12 : 40;
        ask(i, i);
    }
    jobs_take_all(asked + 2, 2);
    for (size_t i = 0; i < 2; i++) {
        (void)jobs_take(&asked[i]);
        ck_assert_uint_lt(asked[i].n, 12);
    }
    asked[3].n_predict = 1, asked[3].n = asked[3].bytes = 0, asked[3].over = false;
    job_close(asked[1].job); /* perhaps while it catches up */
    job_close(asked[3].job);
    ask(3, 3);
    jobs_take_all(&asked[3], 1);
    scheduler_stop(jobs_server.scheduler, false);
    jobs_take_all(&asked[0], 1);
    for (size_t i = 0; i < 4; i += i ? 1 : 2) {
        ck_assert_int_eq(asked[i].last.kind, JOB_DONE);
        check_alone(&asked[i]);
        job_close(asked[i].job);
    }
    jobs_stop();
}
END_TEST

/* The end waits for the text that catches up; those that are late are not waited for. */
START_TEST(a_hard_grammar_is_given_up)
{
    struct fault f;
    jobs_start(MODEL, 4, 64);
    fill(asked, 4);
    for (size_t i = 0; i < 4; i++) {
        asked[i].grammar = hard_grammar();
        struct job_request r = jobs_request(&asked[i]);
        r.n_predict = 500, r.ignore_end = false;
        asked[i].job = job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f);
    }
    for (unsigned seen = 0; !asked[3].n; seen = jobs_await(seen))
        ck_assert(!jobs_take(&asked[3]));
    scheduler_stop(jobs_server.scheduler, true);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(jobs_take(&asked[i]));
        ck_assert_int_eq(asked[i].last.fault.status, 503);
        job_close(asked[i].job);
    }
    jobs_stop();
}
END_TEST

/* ---- embeddings ---------------------------------------------------------------------------- */

/* Of other embeddings and of texts, which do not depend on them */
START_TEST(embeddings_do_not_depend_on_company)
{
    enum { N = 12, TEXTS = 3 };
    static float alone[N][4096];
    const size_t n = golden_is_quick() ? N / 2 : N;
    struct fault f;
    struct job_event event;
    size_t dim = 0;
    jobs_start(MODEL, 7, 64);
    fill(asked, n + TEXTS);
    for (int together = 0; together < 2; together++) {
        for (size_t i = n; i < n + TEXTS && together; i++) {
            asked[i].n_predict = golden_is_quick() ? 20 : 200;
            ask(i, i);
        }
        for (size_t i = 0; i < n; i++) {
            struct job_request r;
            asked[i].over = false;
            long_request(&asked[i], &r, 3 + 41 * i);
            r.kind = i % 2 ? JOB_EMBED_MEAN : JOB_EMBED_LAST;
            asked[i].job = job_submit(jobs_server.scheduler, &r, jobs_wake, NULL, &f);
            ck_assert_ptr_nonnull(asked[i].job);
            if (!together)
                jobs_take_all(&asked[i], 1);
        }
        jobs_take_all(asked, n);
        for (size_t i = 0; i < n; i++) {
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
    jobs_take_all(&asked[n], TEXTS);
    for (size_t i = n; i < n + TEXTS; i++) {
        check_alone(&asked[i]);
        job_close(asked[i].job);
    }
    jobs_stop();
}
END_TEST

SUITE("serve_scheduler", LOOP(answers_are_those_of_jobs_alone, 0, 5),
      TEST(jobs_that_leave_change_no_other), TEST(a_full_queue_refuses),
      TEST(without_a_queue_free_sequences_are_used),
      TEST(a_prompt_that_is_too_long_is_refused_with_both_numbers), TEST(clients_take_turns),
      LOOP(a_flood_leaves_room_for_others, 0, 11), TEST(what_is_cut_off_is_told_at_once),
      LOOP(choices_of_one_prompt_read_it_once, 0, 2), TEST(a_hard_grammar_holds_up_nobody),
      TEST(a_hard_grammar_is_given_up), TEST(embeddings_do_not_depend_on_company))
