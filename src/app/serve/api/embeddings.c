/* POST /v1/embeddings: a vector of length 1 for each text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/api/base64.h"
#include "app/serve/api/answers.h"
#include "app/serve/http/exchange.h"
#include "app/serve/handlers.h"
#include "app/serve/model/job.h"
#include "app/serve/api/prompts.h"
#include "app/serve/serve_options.h"

enum {
    AT_ONCE = 8
}; /* jobs of one request that wait or run: others want a place in the queue, too */

struct embeddings {
    struct server *server;
    struct prompts prompts;
    struct job *jobs[AT_ONCE]; /* of the texts at[]; NULL: free */
    size_t at[AT_ONCE];
    size_t next, done; /* texts that were submitted; that are done */
    enum job_kind kind;
    size_t dimensions; /* 0: all */
    bool as_float;
    json_t *data; /* [n] */
    char *model;
    uint64_t client;
    size_t n_tokens;
    struct fault fault;
    bool over;
};

static void close_embeddings(void *arg)
{
    struct embeddings *e = arg;
    for (size_t i = 0; e && i < AT_ONCE; i++)
        job_close(e->jobs[i]);
    if (e) {
        prompts_close(&e->prompts);
        json_decref(e->data);
        free(e->model);
    }
    free(e);
}

/* ---- vectors -------------------------------------------------------------------------------- */

/* The first n values of v, scaled to length 1 */
static float *shorten(const float *v, size_t n)
{
    double sum = 0;
    float *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; out && i < n; i++)
        out[i] = (float)((double)v[i] * scale);
    return out;
}

static json_t *vector(const struct embeddings *e, const float *v, size_t dim)
{
    size_t n = e->dimensions ? e->dimensions : dim;
    float *cut = n < dim ? shorten(v, n) : NULL;
    json_t *out;
    v = cut ? cut : v;
    if (!e->as_float)
        out = base64_floats(v, n);
    else {
        out = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(out, json_real((double)v[i]));
    }
    free(cut);
    return out;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Submits the next text in a free place. */
static bool submit(struct embeddings *e, size_t place, struct exchange *x, struct fault *f)
{
    struct prompt *p = &e->prompts.list[e->next];
    struct job_request r = {.kind = e->kind, .client = e->client};
    if (!prompts_give(&r, p->tokens, p->n, f))
        return false;
    e->jobs[place] = job_submit(e->server->scheduler, &r, exchange_wake, x, f);
    if (!e->jobs[place])
        return false;
    e->at[place] = e->next++;
    return true;
}

/* Fills free places. A full queue is no fault while jobs of ours run: their end calls again. */
static bool submit_more(struct embeddings *e, struct exchange *x)
{
    bool runs = false, ok = true;
    struct fault f = {0};
    for (size_t i = 0; i < AT_ONCE && ok; i++) {
        if (!e->jobs[i] && e->next < e->prompts.n)
            ok = submit(e, i, x, &f);
        runs |= e->jobs[i] != NULL;
    }
    if (ok || (f.status == 503 && runs))
        return true;
    fault_blame(&f, "input");
    e->fault = f;
    return false;
}

static bool take_event(struct embeddings *e, size_t place)
{
    struct job_event event;
    if (!e->jobs[place] || !job_next(e->jobs[place], &event))
        return true;
    if (event.kind == JOB_FAILED) {
        e->fault = event.fault;
        return false;
    }
    if (event.kind != JOB_DONE)
        return true;
    json_t *v = vector(e, event.embedding, event.dim);
    json_t *item = v ? json_pack("{s:s, s:I, s:o}", "object", "embedding", "index",
                                 (json_int_t)e->at[place], "embedding", v)
                     : NULL;
    json_array_set_new(e->data, e->at[place], item);
    e->n_tokens += event.n_prompt;
    e->done++;
    job_close(e->jobs[place]);
    e->jobs[place] = NULL;
    return item || fault_no_memory(&e->fault, "the request");
}

static void reply(struct embeddings *e, struct exchange *x)
{
    exchange_log(x, " prompt=%zu texts=%zu", e->n_tokens, e->prompts.n);
    exchange_reply_json(x, 200,
                        json_pack("{s:s, s:O, s:s, s:{s:I, s:I}}", "object", "list", "data",
                                  e->data, "model", e->model, "usage", "prompt_tokens",
                                  (json_int_t)e->n_tokens, "total_tokens",
                                  (json_int_t)e->n_tokens));
}

static void advance(void *arg, struct exchange *x)
{
    struct embeddings *e = arg;
    bool ok = !e->over;
    for (size_t i = 0; i < AT_ONCE && ok; i++)
        ok = take_event(e, i);
    if (e->over || (ok && e->done < e->prompts.n && submit_more(e, x)))
        return;
    e->over = true;
    if (e->fault.status)
        exchange_fault(x, &e->fault);
    else
        reply(e, x);
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool read_request(struct embeddings *e, struct server *s, struct fields *f, char *ignored)
{
    int64_t dimensions = (int64_t)s->info.dim;
    size_t format = 0, pooling = 0;
    const char *model = s->model_name;
    size_t max = (size_t)serve_number(s->options, SERVE_MAX_EMBEDDINGS);
    if (!fields_text(f, "model", &model, NULL) || !prompts_read(&e->prompts, s, f, "input", max) ||
        !fields_choice(f, "encoding_format", "float|base64", &format) ||
        !fields_choice(f, "pooling", "mean|last", &pooling) ||
        !fields_integer(f, "dimensions", 1, dimensions, &dimensions))
        return false;
    e->kind = pooling ? JOB_EMBED_LAST : JOB_EMBED_MEAN;
    e->as_float = !format;
    e->dimensions = (size_t)dimensions;
    e->model = strdup(model);
    e->data = json_array();
    for (size_t i = 0; e->data && i < e->prompts.n; i++)
        json_array_append_new(e->data, json_null());
    fields_ignore(f, "user");
    fields_unknown(f, ignored);
    return (e->model && e->data) || fault_no_memory(f->fault, "the request");
}

void handle_embeddings(struct server *s, struct exchange *x)
{
    static const struct exchange_waiter waiter = {advance, NULL, close_embeddings};
    struct embeddings *e = calloc(1, sizeof *e);
    struct fault f = {0};
    struct fields fields;
    char ignored[FIELDS_TEXT_MAX] = "";
    bool ok = e || fault_no_memory(&f, "the request");
    if (ok)
        e->server = s, e->client = exchange_client(x);
    ok = ok && fields_open(&fields, exchange_json(x), "", &f) &&
         read_request(e, s, &fields, ignored);
    if (ok && !submit_more(e, x)) {
        f = e->fault;
        ok = false;
    }
    if (!ok) {
        close_embeddings(e);
        exchange_fault(x, &f);
        return;
    }
    answers_ignored(x, ignored);
    exchange_wait(x, &waiter, e);
}
