/* ldflags: -Wl,@tests/support/allocs.ld */
/* Bombs: short texts whose constraints would be large or slow. Each is answered or refused within 10 ms of one processor and
 * 4 MiB beyond the text, on a stack of 256 KiB, with a first mask. The lists say with which budget. */
#include "allocs.h"
#include "suite.h"
#include "tern.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACK = 256 << 10, BYTES = 4 << 20, TRIES = 3, STEPS = 50000 };
static const double SECONDS = 0.03; /* 10 ms here; slower machines may take three times that */

enum {
    SCHEMA = TERN_CONSTRAINT_SCHEMA,
    REGEX = TERN_CONSTRAINT_REGEX,
    GRAMMAR = TERN_CONSTRAINT_GRAMMAR,
    CHOICE = TERN_CONSTRAINT_CHOICE
};
enum answer { OPENS, REFUSED, EITHER };

/* head, then n pieces, in which %d is the number of the piece, then n closings, then the tail */
struct bomb {
    int kind;
    const char *head, *piece, *middle;
    int n;
    const char *closing, *tail;
    enum answer answer;
};

/* ---- with the budget that is the default ---- */
static const struct bomb bombs[] = {
    {REGEX, "", "(", "", 60000, "", "", REFUSED},
    {REGEX, "", "(", "", 60000, ")", "", OPENS},
    {REGEX, "", "[", "", 1000000, "", "", REFUSED},
    {REGEX, "a{0,1000000000}", "", "", 0, "", "", OPENS},
    {REGEX, "((a{0,1000000000}){0,1000000000}b){0,1000000000}", "", "", 0, "", "", OPENS},
    {REGEX, "(a?){1000}a{1000}", "", "", 0, "", "", OPENS},
    {REGEX, "", "(a*)*", "", 200, "", "b", OPENS},
    {REGEX, ".*a.{1000}", "", "", 0, "", "", OPENS},
    {GRAMMAR, "root ::= ", "(", "", 60000, "", "", REFUSED},
    {GRAMMAR, "root ::= ", "(", "\"a\"", 60000, ")", "", OPENS},
    {GRAMMAR, "root ::= ", "[", "", 1000000, "", "", REFUSED},
    {GRAMMAR, "root ::= r0\n", "r%d ::= r%d\n", "", 10000, "", "r10000 ::= \"a\"\n", OPENS},
    {GRAMMAR, "root ::= root \"a\" | \"b\"\n", "", "", 0, "", "", OPENS},
    {GRAMMAR, "root ::= root\n", "", "", 0, "", "", REFUSED},
    {GRAMMAR, "root ::= a root \"x\" | \"b\"\na ::= \"\"\n", "", "", 0, "", "", OPENS},
    {GRAMMAR, "root ::= root root | \"a\" | \"\"\n", "", "", 0, "", "", OPENS},
    {GRAMMAR, "root ::= ((\"a\"{0,1000} \"b\"){0,1000} \"c\"){0,1000000000}\n", "", "", 0, "", "",
     OPENS},
    {SCHEMA, "", "[", "", 1000000, "", "", REFUSED},
    {SCHEMA, "", "{\"allOf\":[", "", 200000, "", "", REFUSED},
    {SCHEMA, "{\"type\":\"array\",\"maxItems\":1000000000}", "", "", 0, "", "", OPENS},
    {SCHEMA, "{\"type\":\"array\",\"minItems\":1000000000}", "", "", 0, "", "", OPENS},
    {SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1000000000}", "", "", 0, "", "",
     OPENS},
    {SCHEMA, "{\"type\":\"string\",\"minLength\":1000000}", "", "", 0, "", "", OPENS},
    {SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(a?){1000}a{1000}$\",\"maxLength\":1000000}", "",
     "", 0, "", "", OPENS},
    {SCHEMA, "{\"oneOf\":[true", ",{\"required\":[\"a%d\"]}", "", 40, "", "]}", EITHER},
    {SCHEMA, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
     "\"d%1$d\":{\"oneOf\":[{\"$ref\":\"#/$defs/"
     "d%2$d\"},{\"required\":[\"x%1$d\"],\"properties\":{\"x%1$d\":"
     "{\"$ref\":\"#/$defs/d%2$d\"}}}]},",
     "", 40, "", "\"d40\":{\"type\":\"object\"}}}", REFUSED},
    {SCHEMA, "{\"contains\":true,\"minContains\":1000000000}", "", "", 0, "", "", REFUSED},
    {SCHEMA, "{\"minimum\":1e999999999}", "", "", 0, "", "", REFUSED},
    {SCHEMA, "{\"minimum\":1", "0", "", 100000, "", "}", REFUSED},
    {SCHEMA, "{\"$defs\":{\"d0\":true", ",\"x%d\":{\"$ref\":\"#/$defs/d0\"}", "", 1000, "", "}}",
     OPENS},
    {SCHEMA, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{", "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", "",
     3000, "", "\"d3000\":true}}", OPENS},
    {SCHEMA, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{",
     "\"d%1$d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%2$d\"},{\"$ref\":\"#/$defs/d%2$d\"}]},", "", 40,
     "", "\"d40\":true}}", OPENS},
    {SCHEMA,
     "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/"
     "b\"},\"b\":{\"not\":{\"$ref\":\"#/$defs/a\"}}}}",
     "", "", 0, "", "", REFUSED},
    {SCHEMA, "{\"enum\":[0", ",\"value %d\"", "", 2000, "", "]}", OPENS},
    {SCHEMA, "{\"type\":\"object\",\"required\":[\"k\"", ",\"k%d\"", "", 5000, "", "]}", OPENS},
    {SCHEMA, "", "{\"not\":", "{\"type\":\"string\"}", 60, "}", "", OPENS},
    {SCHEMA, "{\"unevaluatedProperties\":false,\"anyOf\":[true",
     ",{\"properties\":{\"a%d\":{\"type\":\"string\"}}}", "", 30, "", "]}", EITHER},
    {SCHEMA, "{\"oneOf\":[true", ",{\"properties\":{\"a%d\":{\"type\":\"string\"}}}", "", 100, "",
     "]}", OPENS},
    {SCHEMA, "{\"enum\":[0", ",%d", "", 5000, "", "]}", OPENS},
    {SCHEMA, "{\"anyOf\":[false", ",{\"const\":\"value %d\"}", "", 1000, "", "]}", OPENS},
    {CHOICE, "zero", "|value %d", "", 10000, "", "", OPENS},
    {SCHEMA, "{\"patternProperties\":{\"a\":true", ",\"^.*%da.*$\":{\"minLength\":%d}", "", 500, "",
     "}}", REFUSED},
    {SCHEMA, "{\"allOf\":[true", ",{\"pattern\":\"a.*%d.*b\"}", "", 20, "",
     "],\"type\":\"string\"}", OPENS},
    {GRAMMAR, "root ::= r0 r0\n", "r%1$d ::= r%2$d r%2$d\n", "", 60, "", "r60 ::= \"a\"\n", OPENS},
    {SCHEMA, "{\"dependentSchemas\":{\"a\":true", ",\"a%d\":{\"required\":[\"b%d\"]}", "", 30, "",
     "}}", EITHER},
};

/* ---- with a budget of 4 MiB and 50,000 steps ---- */
static const struct bomb others[] = {
    {SCHEMA, "{\"allOf\":[true", ",{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
     "", 1000, "", "]}", EITHER},
    {SCHEMA, "{\"allOf\":[true",
     ",{\"if\":{\"properties\":{\"a%d\":{\"const\":1}}},\"then\":{\"required\":[\"b%d\"]},\"else\":"
     "{\"required\":[\"c%d\"]}}",
     "", 30, "", "]}", EITHER},
    {SCHEMA, "{\"enum\":[0", ",%d", "", 20000, "", "]}", EITHER},
    {SCHEMA, "{\"dependentRequired\":{\"a\":[]", ",\"a%1$d\":[\"a%2$d\"]", "", 200, "", "}}", EITHER},
    {SCHEMA,
     "{\"type\":\"string\",\"minLength\":1000000,\"maxLength\":1000000,\"pattern\":\"^(ab)*$\"}",
     "", "", 0, "", "", EITHER},
    {SCHEMA,
     "{\"type\":\"string\",\"not\":{\"format\":\"uri\"},\"pattern\":\"^[a-z:/.]{0,100000}$\"}", "",
     "", 0, "", "", EITHER},
};

static tern_model *model;

static char *text_of(const struct bomb *b, size_t *n)
{
    size_t room = strlen(b->head) + strlen(b->middle) + strlen(b->tail) + 1 +
                  (size_t)b->n * (strlen(b->piece) + strlen(b->closing) + 32);
    char *text = malloc(room), *to = text;
    ck_assert_ptr_nonnull(text);
    to += sprintf(to, "%s", b->head);
    for (int i = 0; i < b->n; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        to += sprintf(to, b->piece, i, i + 1, i);
#pragma GCC diagnostic pop
    }
    to += sprintf(to, "%s", b->middle);
    for (int i = 0; i < b->n; i++)
        to += sprintf(to, "%s", b->closing);
    to += sprintf(to, "%s", b->tail);
    *n = (size_t)(to - text);
    return text;
}

struct work {
    struct tern_constraint_params params;
    enum tern_status status;
    struct tern_error error;
    double seconds; /* of the processor */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *work(void *arg)
{
    struct work *w = arg;
    double begin = now();
    tern_constraint *c;
    tern_constraint_state *s;
    const uint32_t *mask;
    w->status = tern_constraint_open(&c, model, &w->params, &w->error);
    if (!w->status) {
        w->status = tern_constraint_state_open(&s, c, &w->error);
        if (!w->status) {
            w->status = tern_constraint_mask(s, &mask, &w->error);
            tern_constraint_state_close(s);
        }
        tern_constraint_close(c);
    }
    w->seconds = now() - begin;
    return NULL;
}

/* On a stack of STACK bytes */
static void run(struct work *w)
{
    pthread_attr_t attributes;
    pthread_t thread;
    ck_assert(!pthread_attr_init(&attributes));
    ck_assert(!pthread_attr_setstacksize(&attributes, STACK));
    ck_assert(!pthread_create(&thread, &attributes, work, w));
    ck_assert(!pthread_join(thread, NULL));
    ck_assert(!pthread_attr_destroy(&attributes));
}

static void check(const struct bomb *b, size_t max_bytes, uint64_t max_steps)
{
    size_t n, peak;
    char *text = text_of(b, &n);
    struct work w = {.params = {.kind = (enum tern_constraint_kind)b->kind,
                                .text = text,
                                .bytes = n,
                                .max_bytes = max_bytes,
                                .max_steps = max_steps}};
    double best = 1e9;
    const bool slow = getenv("QUICK"); /* the time does not count */
    for (int i = 0; i < (slow ? 1 : TRIES) && best > SECONDS; i++) {
        allocs_start(0, 0);
        run(&w);
        peak = allocs_peak();
        allocs_stop();
        best = w.seconds < best ? w.seconds : best;
        ck_assert_msg(peak <= BYTES + n, "%.60s%.60s: %zu bytes", b->head, b->piece, peak);
    }
    free(text);
    ck_assert_msg(w.status == TERN_OK || w.status == TERN_USAGE || w.status == TERN_LIMIT,
                  "%.60s%.60s: %s", b->head, b->piece, w.error.text);
    ck_assert_msg(b->answer == EITHER || (b->answer == OPENS) == !w.status, "%.60s%.60s: %s",
                  b->head, b->piece, w.error.text);
    if (!slow)
        ck_assert_msg(best <= SECONDS, "%.60s%.60s: %.1f ms", b->head, b->piece, best * 1e3);
}

START_TEST(ends_with_the_default_budget)
{
    check(&bombs[_i], 0, 0);
}
END_TEST

START_TEST(ends_with_a_small_budget)
{
    check(&others[_i], BYTES, STEPS);
}
END_TEST

static void open_model(void)
{
    struct tern_error e;
    struct work w = {.params = {.kind = TERN_CONSTRAINT_JSON}};
    ck_assert_msg(!tern_model_open(&model, "models/fable.bin",
                                   &(struct tern_model_params){.n_threads = 1}, &e),
                  "%s", e.text);
    run(&w); /* what constraints of a model share */
    ck_assert(!w.status);
}

static void close_model(void)
{
    tern_model_close(model);
}

SUITE("bombs", AROUND_ALL(open_model, close_model),
      LOOP(ends_with_the_default_budget, 0, sizeof bombs / sizeof *bombs),
      LOOP(ends_with_a_small_budget, 0, sizeof others / sizeof *others))
