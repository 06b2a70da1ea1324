/* Several answers to one request: see answers.h. */
#include "app/serve/api/answers.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/serve/http/event_stream.h"

struct one_answer {
    struct job *job;
    struct answer_stream *parts;
};

struct answers {
    const struct answers_writer *writer;
    void *arg;
    struct one_answer *list; /* [n] owned */
    size_t n;
    size_t turn; /* the one whose parts come first: of a slow client, all get their turns */
    bool failed;
};

struct answers *answers_open(const struct answers_writer *w, void *arg)
{
    struct answers *c = calloc(1, sizeof *c);
    if (c)
        c->writer = w, c->arg = arg;
    return c;
}

static void close_jobs(struct answers *c)
{
    for (size_t i = 0; i < c->n; i++) {
        job_close(c->list[i].job);
        answer_stream_close(c->list[i].parts);
    }
    c->n = 0;
}

void answers_close(struct answers *c)
{
    if (!c)
        return;
    close_jobs(c);
    free(c->list);
    free(c);
}

bool answers_add(struct answers *c, struct server *s, struct exchange *x,
                 const struct answer_stream_params *p, struct job_request *r, struct fault *f)
{
    struct one_answer *more = realloc(c->list, (c->n + 1) * sizeof *more), choice = {0};
    if (more)
        c->list = more;
    else
        fault_no_memory(f, "the answers");
    choice.parts = more ? answer_stream_open(s->model, p, f) : NULL;
    if (!choice.parts) {
        job_request_free(r);
        return false;
    }
    choice.job = job_submit(s->scheduler, r, exchange_wake, x, f);
    if (!choice.job) {
        answer_stream_close(choice.parts);
        return false;
    }
    c->list[c->n++] = choice;
    return true;
}

/* ---- on its way ------------------------------------------------------------------------------ */

static void write_part(const struct answers *c, struct exchange *x, const struct answer_part *p)
{
    const struct answers_writer *w = c->writer;
    bool call = p->kind == PART_BEGIN || p->kind == PART_ARGUMENTS || p->kind == PART_CALL;
    answers_part write = call                     ? w->call
                         : p->kind == PART_DONE   ? w->done
                         : p->kind == PART_FAILED ? w->failed
                                                  : w->said;
    write(c->arg, x, p);
}

static void advance(void *arg, struct exchange *x)
{
    struct answers *c = arg;
    bool full = false;
    for (size_t k = 0; k < c->n && !c->failed && !full; k++) {
        size_t i = (c->turn + k) % c->n;
        struct answer_part part;
        while (!c->failed && !(full = exchange_is_full(x)) &&
               answer_stream_next(c->list[i].parts, c->list[i].job, &part)) {
            c->failed = part.kind == PART_FAILED;
            part.choice = i;
            write_part(c, x, &part);
        }
        if (full)
            c->turn = (i + 1) % c->n;
    }
    if (c->failed)
        close_jobs(c);
}

static void ping(void *arg, struct exchange *x)
{
    struct answers *c = arg;
    c->writer->ping(c->arg, x);
}

static void closed(void *arg)
{
    struct answers *c = arg;
    const struct answers_writer *w = c->writer;
    void *its = c->arg;
    answers_close(c);
    w->close(its);
}

void answers_begin(struct answers *c, struct exchange *x)
{
    static const struct exchange_waiter waiter = {advance, ping, closed};
    exchange_wait(x, &waiter, c);
}

void answers_ignored(struct exchange *x, const char *ignored)
{
    if (!*ignored)
        return;
    exchange_add_header(x, "x-tern-ignored", ignored);
    exchange_log(x, " ignored=\"%s\"", ignored);
}

void answers_fail(struct exchange *x, const struct fault *f, bool begun)
{
    if (!begun) {
        exchange_fault(x, f);
        return;
    }
    exchange_log_fault(x, f);
    event_stream_write(x, NULL,
                       json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", f->message,
                                 "type", fault_type(f, false), "param", *f->param ? f->param : NULL,
                                 "code", f->code));
    exchange_end(x);
}

void answers_fingerprint(char *text, size_t size, const struct server *s)
{
    snprintf(text, size, "tern-%s-%016llx", tern_version(), (unsigned long long)s->info.content_id);
}

/* ---- what answers have in common --------------------------------------------------------------- */

static double per(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static json_t *timings(const struct job_event *e)
{
    double prompt_n = (double)(e->n_prompt - e->n_cached), n = (double)e->result.n_generated;
    json_t *t = json_pack(
        "{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f}", "cache_n", (json_int_t)e->n_cached,
        "prompt_n", (json_int_t)(e->n_prompt - e->n_cached), "prompt_ms", 1e3 * e->prompt_seconds,
        "prompt_per_token_ms", per(1e3 * e->prompt_seconds, prompt_n), "prompt_per_second",
        per(prompt_n, e->prompt_seconds), "predicted_n", (json_int_t)e->result.n_generated,
        "predicted_ms", 1e3 * e->generate_seconds, "predicted_per_token_ms",
        per(1e3 * e->generate_seconds, n), "predicted_per_second", per(n, e->generate_seconds),
        "queue_ms", 1e3 * e->queue_seconds);
    if (e->result.n_drafted) { /* as llama-server's: absent where nothing was guessed */
        json_object_set_new(t, "draft_n", json_integer((json_int_t)e->result.n_drafted));
        json_object_set_new(t, "draft_n_accepted", json_integer((json_int_t)e->result.n_accepted));
    }
    return t;
}

void answers_add_end(json_t *object, const struct answer_part *done)
{
    json_object_set_new(object, "timings", timings(done->end));
    answers_add_receipt(object, done->end);
}

void answers_add_receipt(json_t *object, const struct job_event *end)
{
    if (!end->receipt)
        return;
    json_t *v = json_loads(end->receipt, JSON_ALLOW_NUL, NULL);
    json_object_set_new(object, "receipt", v ? v : json_string(end->receipt));
}

json_t *answers_usage_json(const struct answers_usage *u)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt,
                     "completion_tokens", (json_int_t)u->completion, "total_tokens",
                     (json_int_t)(u->prompt + u->completion), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)u->cached, "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)u->reasoning);
}

void answers_log(struct exchange *x, const struct answers_usage *u, const char *finish)
{
    exchange_log(x, " prompt=%zu cached=%zu answer=%zu finish=%s", u->prompt, u->cached,
                 u->completion, finish);
}

void answers_log_one(struct exchange *x, const struct answer_part *done)
{
    const struct answers_usage u = {.prompt = done->end->n_prompt,
                                    .cached = done->end->n_cached,
                                    .completion = done->end->result.n_generated};
    answers_log(x, &u, answers_finish(done));
}

const char *answers_finish(const struct answer_part *done)
{
    if (done->reason == TERN_STOP_LENGTH || done->reason == TERN_STOP_CONTEXT)
        return "length";
    return done->called ? "tool_calls" : "stop";
}
