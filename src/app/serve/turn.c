/* One answer to a conversation: see turn.h. */
#include "app/serve/turn.h"

#include "app/serve/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void turn_ignore(struct turn *t, const char *format, ...)
{
    size_t n = strlen(t->ignored), comma = n ? 2 : 0;
    char name[160];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (bytes > 0 && (size_t)bytes < sizeof name && n + comma + (size_t)bytes < sizeof t->ignored)
        (void)snprintf(t->ignored + n, sizeof t->ignored - n, "%s%s", n ? ", " : "", name);
}

void turn_unknown(struct turn *t, const struct fields *f)
{
    fields_unknown(f, t->ignored);
}

void turn_close(struct turn *t)
{
    dialog_close(t->dialog);
    request_params_close(&t->params);
    json_decref(t->callable);
    free(t->choice);
    free(t->format);
    free(t->prompt.tokens);
    *t = (struct turn){0};
}

bool turn_prepare(struct turn *t, const struct server *s, struct fault *f)
{
    return dialog_tokens(t->dialog, s->model, t->chat_flags, t->prefill, &t->prompt, f);
}

/* ---- a turn on its way ---------------------------------------------------------------------- */

struct running {
    const struct turn_writer *writer;
    void *arg;
    struct answer_stream *parts;
    struct job *job;
};

static void advance(void *arg, struct exchange *x)
{
    struct running *r = arg;
    struct answer_part part;
    while (answer_stream_next(r->parts, r->job, &part))
        r->writer->part(r->arg, x, &part);
}

static void ping(void *arg, struct exchange *x)
{
    struct running *r = arg;
    r->writer->ping(r->arg, x);
}

static void closed(void *arg)
{
    struct running *r = arg;
    job_close(r->job);
    answer_stream_close(r->parts);
    r->writer->close(r->arg);
    free(r);
}

static const struct exchange_waiter waiter = {advance, ping, closed};

static bool out_of_memory(struct fault *f)
{
    fault_set(f, 503, NULL, NULL, NULL, "the server is out of memory");
    return false;
}

/* The tools that may be called, as text, into the rules. *owned: to be freed. */
static void set_tools(struct turn *t, const struct server *s, char **owned)
{
    t->rules.tools = dialog_tools_text(t->dialog, s->model, &t->rules.n_tools);
    if (t->rules.tools && t->callable) {
        *owned = json_dumps(t->callable, JSON_COMPACT);
        t->rules.tools = *owned;
        t->rules.n_tools = *owned ? strlen(*owned) : 0;
    }
}

/* The job of the turn, which takes over the prompt. */
static struct job *submit(struct turn *t, struct server *s, struct exchange *x, struct fault *f)
{
    struct job_request request = {0};
    char *owned = NULL;
    set_tools(t, s, &owned);
    t->rules.chat_flags = t->prompt.chat_flags;
    t->rules.goes_on = t->prompt.n_said > 0;
    bool ok =
        answer_rules_find(s, &t->rules, &request.constraint, t->ignored, sizeof t->ignored, f);
    free(owned);
    struct compiled *constraint = request.constraint;
    if (ok)
        ok = request_params_job(&t->params, 0, exchange_client(x), &request, f);
    request.constraint = constraint;
    if (!ok) {
        compiled_release(constraint);
        return NULL;
    }
    request.kind = JOB_TEXT;
    request.prompt = t->prompt.tokens, request.n_prompt = t->prompt.n;
    t->prompt.tokens = NULL;
    return job_submit(s->scheduler, &request, exchange_wake, x, f);
}

static struct answer_stream *open_parts(const struct turn *t, const struct server *s,
                                        struct fault *f)
{
    struct answer_stream_params p = {.prompt = t->prompt.tokens,
                                     .n_prompt = t->prompt.n,
                                     .n_said = t->prompt.n_said,
                                     .chat_flags = t->prompt.chat_flags,
                                     .first_call = dialog_n_calls(t->dialog),
                                     .ignore_end = t->params.ignore_end};
    p.tools = dialog_tools_text(t->dialog, s->model, &p.n_tools);
    return answer_stream_open(s->model, &p, f);
}

bool turn_begin(struct turn *t, struct server *s, struct exchange *x, const struct turn_writer *w,
                void *arg, struct fault *f)
{
    struct running *r = calloc(1, sizeof *r);
    if (!r)
        return out_of_memory(f);
    r->writer = w, r->arg = arg;
    if (!(r->parts = open_parts(t, s, f)) || !(r->job = submit(t, s, x, f))) {
        answer_stream_close(r->parts);
        free(r);
        return false;
    }
    if (t->ignored[0]) {
        exchange_add_header(x, "x-tern-ignored", t->ignored);
        exchange_log(x, " ignored=\"%s\"", t->ignored);
    }
    exchange_wait(x, &waiter, r);
    return true;
}
