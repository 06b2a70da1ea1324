/* POST /v1/chat/completions: OpenAI's chat API. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_id.h"
#include "app/serve/api/chat_request.h"
#include "app/serve/api/answers.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/http/event_stream.h"
#include "app/serve/handlers.h"
#include "app/serve/api/logprobs.h"

/* One choice. In a stream, what is there since the last piece; else all of it. */
struct chat_choice {
    struct growing_text text, thought;
    json_t *calls, *logprobs, *tokens; /* arrays; NULL: none yet, or not wanted */
    json_t *end;                       /* timings and receipt */
    const char *finish;                /* NULL: it goes on */
    bool began;                        /* of a stream: the role was sent */
};

struct chat_completion {
    struct server *server;
    char id[ANSWER_ID_BYTES], fingerprint[48];
    char *model;
    int64_t created;
    uint64_t seed;
    bool stream, include_usage, logprobs, return_tokens, ended, begun, failed;
    struct chat_choice *said; /* [n] */
    size_t n, n_over;
    struct answers_usage usage;
};

static void close_said(struct chat_choice *c)
{
    growing_text_close(&c->text);
    growing_text_close(&c->thought);
    json_decref(c->calls);
    json_decref(c->logprobs);
    json_decref(c->tokens);
    json_decref(c->end);
    *c = (struct chat_choice){.began = c->began, .finish = c->finish};
}

static void close_chat(void *arg)
{
    struct chat_completion *c = arg;
    for (size_t i = 0; c && i < c->n; i++)
        close_said(&c->said[i]);
    if (c) {
        free(c->said);
        free(c->model);
    }
    free(c);
}

/* ---- collecting ------------------------------------------------------------------------------ */

static void append(json_t **array, json_t *item)
{
    if (!*array)
        *array = json_array();
    json_array_append_new(*array, item);
}

static void take_call(struct chat_choice *said, const struct answer_part *p, bool stream)
{
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", p->call.id, "type", "function",
                             "function", "name", p->call.name, "arguments",
                             dialog_json_text(p->call.arguments, strlen(p->call.arguments)));
    if (stream)
        json_object_set_new(call, "index", json_integer((json_int_t)p->index));
    append(&said->calls, call);
}

/* OpenAI lists the tokens of the visible text; with return_tokens all are listed. */
static void take_logprobs(struct chat_completion *c, struct chat_choice *said,
                          const struct answer_part *p)
{
    bool all = c->return_tokens;
    if (!said->logprobs)
        said->logprobs = json_array();
    if (!all && p->kind != PART_TEXT)
        return;
    for (size_t i = 0, n; i < p->n_tokens; i += n) {
        n = 0;
        while (i + n < p->n_tokens &&
               (all || !tern_token_is_special(c->server->model, p->tokens[i + n].token)))
            n++;
        logprobs_add(said->logprobs, c->server, p->tokens + i, n);
        n += n == 0;
    }
}

static void take_tokens(struct chat_completion *c, struct chat_choice *said,
                        const struct answer_part *p)
{
    if (c->logprobs)
        take_logprobs(c, said, p);
    if (!c->return_tokens)
        return;
    if (!said->tokens)
        said->tokens = json_array();
    for (size_t i = 0; i < p->n_tokens; i++)
        append(&said->tokens, json_integer(p->tokens[i].token));
}

static void take_end(struct chat_completion *c, struct exchange *x, struct chat_choice *said,
                     const struct answer_part *p)
{
    struct answers_usage *u = &c->usage;
    said->finish = c->ended ? "stop" : answers_finish(p);
    said->end = json_object();
    answers_add_end(said->end, p);
    if (c->n_over++ == 0)
        u->prompt = p->end->n_prompt, u->cached = p->end->n_cached;
    u->completion += p->end->result.n_generated;
    if (c->n_over == c->n)
        exchange_log(x, " prompt=%zu cached=%zu answer=%zu finish=%s", u->prompt, u->cached,
                     u->completion, said->finish);
}

static void take(struct chat_completion *c, struct exchange *x, struct chat_choice *said,
                 const struct answer_part *p)
{
    if (p->kind == PART_TEXT)
        growing_text_add(&said->text, p->text, p->bytes);
    else if (p->kind == PART_THOUGHT) {
        growing_text_add(&said->thought, p->text, p->bytes);
        c->usage.reasoning += p->n_tokens;
    } else if (p->kind == PART_CALL)
        take_call(said, p, c->stream);
    take_tokens(c, said, p);
    if (p->kind == PART_DONE)
        take_end(c, x, said, p);
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *text_json(const struct growing_text *t)
{
    return dialog_json_text(t->n ? t->p : "", t->n);
}

/* What message and delta share */
static void set_parts(json_t *out, struct chat_choice *said)
{
    if (said->thought.n) {
        json_object_set_new(out, "reasoning_content", text_json(&said->thought));
        json_object_set_new(out, "reasoning", text_json(&said->thought));
    }
    if (said->calls)
        json_object_set(out, "tool_calls", said->calls);
}

static void set_extras(const struct chat_completion *c, json_t *choice, struct chat_choice *said)
{
    if (c->logprobs && said->logprobs)
        json_object_set_new(choice, "logprobs",
                            json_pack("{s:O, s:n}", "content", said->logprobs, "refusal"));
    else
        json_object_set_new(choice, "logprobs", json_null());
    if (said->tokens)
        json_object_set(choice, "tokens", said->tokens);
    json_t *receipt = json_object_get(said->end, "receipt");
    if (receipt)
        json_object_set(choice, "receipt", receipt);
    json_object_set_new(choice, "finish_reason",
                        said->finish ? json_string(said->finish) : json_null());
}

static json_t *frame(const struct chat_completion *c, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", c->id, "object", object, "created",
                     (json_int_t)c->created, "model", c->model, "system_fingerprint",
                     c->fingerprint, "choices", choices);
}

static json_t *message_choice(const struct chat_completion *c, size_t i)
{
    struct chat_choice *said = &c->said[i];
    json_t *message =
        json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                  said->text.n || !said->calls ? text_json(&said->text) : json_null(), "refusal");
    set_parts(message, said);
    json_t *choice = json_pack("{s:i, s:o}", "index", (int)i, "message", message);
    set_extras(c, choice, said);
    return choice;
}

static void set_end(const struct chat_completion *c, json_t *out, const struct chat_choice *said)
{
    json_object_set(out, "timings", json_object_get(said->end, "timings"));
    json_object_set_new(out, "seed", json_integer((json_int_t)c->seed));
}

static void reply(struct chat_completion *c, struct exchange *x)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < c->n; i++)
        json_array_append_new(choices, message_choice(c, i));
    json_t *out = frame(c, "chat.completion", choices);
    json_object_set_new(out, "usage", answers_usage_json(&c->usage));
    set_end(c, out, &c->said[0]);
    exchange_reply_json(x, 200, out);
}

static void begin_stream(struct chat_completion *c, struct exchange *x)
{
    if (!c->begun)
        exchange_begin(x, EVENT_STREAM);
    c->begun = true;
}

/* A piece of a choice: what was collected since the last one. */
static void write_piece(struct chat_completion *c, struct exchange *x, size_t i)
{
    struct chat_choice *said = &c->said[i];
    json_t *delta = json_object();
    if (!said->began) {
        json_object_set_new(delta, "role", json_string("assistant"));
        if (!said->text.n)
            json_object_set_new(delta, "content",
                                said->calls || said->thought.n ? json_null() : json_string(""));
    }
    said->began = true;
    if (said->text.n)
        json_object_set_new(delta, "content", text_json(&said->text));
    set_parts(delta, said);
    json_t *choice = json_pack("{s:i, s:o}", "index", (int)i, "delta", delta);
    set_extras(c, choice, said);
    json_t *out = frame(c, "chat.completion.chunk", json_pack("[o]", choice));
    if (said->finish)
        set_end(c, out, said);
    if (c->include_usage)
        json_object_set_new(out, "usage", json_null());
    event_stream_write(x, NULL, out);
    close_said(said);
}

static void end_stream(struct chat_completion *c, struct exchange *x)
{
    static const char done[] = "data: [DONE]\n\n";
    if (c->include_usage) {
        json_t *out = frame(c, "chat.completion.chunk", json_array());
        json_object_set_new(out, "usage", answers_usage_json(&c->usage));
        event_stream_write(x, NULL, out);
    }
    exchange_write(x, done, sizeof done - 1);
    exchange_end(x);
}

static void part(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct chat_completion *c = arg;
    struct chat_choice *said = &c->said[p->choice];
    struct fault f = {0};
    if (p->kind == PART_FAILED)
        f = *p->fault;
    else
        take(c, x, said, p);
    if (said->text.failed || said->thought.failed)
        fault_no_memory(&f, "the request");
    if (f.status && !c->failed)
        answers_fail(x, &f, c->begun);
    c->failed |= f.status != 0;
    if (c->failed)
        return;
    if (c->stream) {
        begin_stream(c, x);
        write_piece(c, x, p->choice);
        if (c->n_over == c->n)
            end_stream(c, x);
    } else if (c->n_over == c->n)
        reply(c, x);
}

static void ping(void *arg, struct exchange *x)
{
    static const char comment[] = ": ping\n\n";
    struct chat_completion *c = arg;
    if (!c->stream)
        return;
    begin_stream(c, x);
    exchange_write(x, comment, sizeof comment - 1);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct chat_completion *open_chat(struct server *s, const struct chat_request *r)
{
    struct chat_completion *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    *c = (struct chat_completion){.server = s,
                                  .created = (int64_t)time(NULL),
                                  .seed = r->turn.params.sampler.seed,
                                  .stream = r->stream,
                                  .include_usage = r->include_usage,
                                  .logprobs = r->turn.params.logprobs,
                                  .return_tokens = r->turn.params.return_tokens,
                                  .ended = r->ended,
                                  .n = r->turn.n};
    answer_id(c->id, "chatcmpl-");
    answers_fingerprint(c->fingerprint, sizeof c->fingerprint, s);
    c->model = strdup(r->model);
    c->said = calloc(c->n, sizeof *c->said);
    if (c->model && c->said)
        return c;
    c->n = c->said ? c->n : 0;
    close_chat(c);
    return NULL;
}

static bool begin(struct chat_request *r, struct server *s, struct exchange *x, struct fault *f)
{
    static const struct answers_writer writer = {part, ping, close_chat};
    struct chat_completion *c = open_chat(s, r);
    if (!c)
        return fault_no_memory(f, "the request");
    bool ok = turn_begin(&r->turn, s, x, &writer, c, f);
    if (!ok) {
        close_chat(c);
        fault_blame(f, "messages");
    }
    return ok;
}

void handle_chat(struct server *s, struct exchange *x)
{
    struct chat_request r;
    struct fault f = {0};
    if (!chat_request_read(&r, s, x, &f) || !begin(&r, s, x, &f))
        exchange_fault(x, &f);
    turn_close(&r.turn);
}
