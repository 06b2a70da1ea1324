/* POST /v1/chat/completions: OpenAI's chat API. */
#include <stdlib.h>
#include <string.h>

#include "app/serve/api/chat_request.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/api/envelope.h"
#include "app/serve/api/logprobs.h"
#include "app/serve/handlers.h"

/* One choice. In a stream, what is there since the last piece; else all of it. */
struct chat_choice {
    struct reply_choice said;
    struct growing_text thought;
    json_t *calls; /* NULL: none yet */
};

struct chat_completion {
    struct envelope envelope;
    bool ended, functions;       /* of the request */
    struct chat_choice *choices; /* [envelope.n] */
};

static void clear_choice(struct chat_choice *c)
{
    reply_choice_clear(&c->said);
    growing_text_close(&c->thought);
    json_decref(c->calls);
    c->calls = NULL;
}

static void close_chat(void *arg)
{
    struct chat_completion *c = arg;
    if (!c)
        return;
    for (size_t i = 0; c->choices && i < c->envelope.n; i++)
        clear_choice(&c->choices[i]);
    free(c->choices);
    envelope_close(&c->envelope);
    free(c);
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* A whole call; in a stream its beginning, and then its arguments piece by piece. */
static void take_call(struct chat_choice *c, const struct answer_part *p, bool stream)
{
    bool whole = p->kind == PART_CALL;
    const char *text = whole ? p->call.arguments : p->text;
    json_t *arguments = dialog_json_text(text, whole ? strlen(text) : p->bytes);
    json_t *call = p->kind == PART_ARGUMENTS
                       ? json_pack("{s:{s:o}}", "function", "arguments", arguments)
                       : json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", p->call.id, "type", "function",
                                   "function", "name", p->call.name, "arguments", arguments);
    if (stream)
        json_object_set_new(call, "index", json_integer((json_int_t)p->index));
    if (!c->calls)
        c->calls = json_array();
    json_array_append_new(c->calls, call);
}

/* OpenAI lists the tokens of the visible text; with return_tokens all are listed. */
static void take_logprobs(const struct envelope *e, struct reply_choice *said,
                          const struct answer_part *p)
{
    bool all = e->return_tokens;
    if (!said->logprobs)
        said->logprobs = json_array();
    if (!all && p->kind != PART_TEXT)
        return;
    for (size_t i = 0, n; i < p->n_tokens; i += n) {
        n = 0;
        while (i + n < p->n_tokens &&
               (all || !tern_token_is_special(e->server->model, p->tokens[i + n].token)))
            n++;
        logprobs_add(said->logprobs, e->server, p->tokens + i, n);
        n += n == 0;
    }
}

static const char *finish_of(const struct chat_completion *c, const struct answer_part *p)
{
    const char *finish = c->ended ? "stop" : answers_finish(p);
    return c->functions && !strcmp(finish, "tool_calls") ? "function_call" : finish;
}

static void take(struct chat_completion *c, struct exchange *x, const struct answer_part *p)
{
    struct envelope *e = &c->envelope;
    struct chat_choice *choice = &c->choices[p->choice];
    struct reply_choice *said = &choice->said;
    if (p->kind == PART_TEXT)
        growing_text_add(&said->text, p->text, p->bytes);
    else if (p->kind == PART_THOUGHT) {
        growing_text_add(&choice->thought, p->text, p->bytes);
        e->usage.reasoning += p->n_tokens;
    } else if (e->stream ? p->kind == PART_BEGIN || p->kind == PART_ARGUMENTS
                         : p->kind == PART_CALL)
        take_call(choice, p, e->stream);
    if (e->logprobs)
        take_logprobs(e, said, p);
    if (e->return_tokens)
        reply_choice_take_tokens(said, p);
    if (p->kind == PART_DONE)
        envelope_take_end(e, x, said, p, e->n_over == 0, finish_of(c, p));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* What message and delta share */
static void put_parts(json_t *out, const struct chat_choice *c, bool functions)
{
    if (c->thought.n) {
        json_object_set_new(out, "reasoning_content", dialog_json_grown(&c->thought));
        json_object_set_new(out, "reasoning", dialog_json_grown(&c->thought));
    }
    if (c->calls && functions) /* one call at most */
        json_object_set(out, "function_call",
                        json_object_get(json_array_get(c->calls, 0), "function"));
    else if (c->calls)
        json_object_set(out, "tool_calls", c->calls);
}

/* The choice: with its message, or with a delta */
static json_t *choice_json(const struct chat_completion *c, size_t i, const char *name,
                           json_t *message)
{
    const struct reply_choice *said = &c->choices[i].said;
    put_parts(message, &c->choices[i], c->functions);
    json_t *choice = json_pack("{s:i, s:o}", "index", (int)i, name, message);
    json_object_set_new(choice, "logprobs",
                        said->logprobs
                            ? json_pack("{s:O, s:n}", "content", said->logprobs, "refusal")
                            : json_null());
    reply_choice_put_end(said, choice);
    return choice;
}

static json_t *message_choice(const struct chat_completion *c, size_t i)
{
    const struct chat_choice *choice = &c->choices[i];
    const struct growing_text *text = &choice->said.text;
    return choice_json(c, i, "message",
                       json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                 text->n || !choice->calls ? dialog_json_grown(text) : json_null(),
                                 "refusal"));
}

static void reply(struct chat_completion *c, struct exchange *x)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < c->envelope.n; i++)
        json_array_append_new(choices, message_choice(c, i));
    envelope_reply(&c->envelope, x, choices, &c->choices[0].said);
}

/* The first piece of a choice has the role alone, as OpenAI's has. It comes with the next one, so that what
 * fails before has a status of HTTP, which clients try again, unless the stream began with a ping. */
static void write_first(struct chat_completion *c, struct exchange *x, size_t i)
{
    struct chat_choice none = {0};
    json_t *delta = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    json_t *logprobs = c->envelope.logprobs ? json_pack("{s:[], s:n}", "content", "refusal") : NULL;
    json_t *choice = json_pack("{s:i, s:o, s:o?, s:n}", "index", (int)i, "delta", delta, "logprobs",
                               logprobs, "finish_reason");
    envelope_write(&c->envelope, x, choice, &none.said);
    c->choices[i].said.began = true;
}

/* A piece of a choice: what was collected since the last one. */
static void write_piece(struct chat_completion *c, struct exchange *x, size_t i)
{
    struct chat_choice *choice = &c->choices[i];
    struct reply_choice *said = &choice->said;
    json_t *delta = json_object();
    if (!said->began)
        write_first(c, x, i);
    if (said->text.n)
        json_object_set_new(delta, "content", dialog_json_grown(&said->text));
    envelope_write(&c->envelope, x, choice_json(c, i, "delta", delta), said);
    clear_choice(choice);
}

static void part(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct chat_completion *c = arg;
    struct chat_choice *choice = &c->choices[p->choice];
    struct envelope *e = &c->envelope;
    struct fault f = {0};
    if (p->kind == PART_FAILED)
        f = *p->fault;
    else
        take(c, x, p);
    if (choice->said.text.failed || choice->thought.failed)
        fault_no_memory(&f, "the request");
    if (!envelope_goes_on(e, x, &f))
        return;
    if (e->stream && p->kind != PART_CALL)
        write_piece(c, x, p->choice);
    if (envelope_is_over(e) && e->stream)
        envelope_end_stream(e, x);
    else if (envelope_is_over(e))
        reply(c, x);
}

static void ping(void *arg, struct exchange *x)
{
    struct chat_completion *c = arg;
    envelope_ping(&c->envelope, x);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct chat_completion *open_chat(struct server *s, const struct chat_request *r)
{
    static const struct envelope_kind kind = {"chatcmpl-", "chat.completion",
                                              "chat.completion.chunk"};
    struct chat_completion *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->ended = r->ended, c->functions = r->functions;
    c->choices = calloc(r->turn.n, sizeof *c->choices);
    if (envelope_open(&c->envelope, &kind, s, &r->envelope, &r->turn.params, r->turn.n) &&
        c->choices)
        return c;
    close_chat(c);
    return NULL;
}

static bool begin(struct chat_request *r, struct server *s, struct exchange *x, struct fault *f)
{
    static const struct answers_writer writer = {part, part, part, part, ping, close_chat};
    struct chat_completion *c = open_chat(s, r);
    if (!c)
        return fault_no_memory(f, "the request");
    bool ok = turn_begin(&r->turn, s, x, &writer, c, f);
    if (!ok)
        close_chat(c);
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
