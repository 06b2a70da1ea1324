/* Answers of /v1/messages: see messages_answer.h.
 *
 * A message is a list of blocks: thinking, text, tool_use, in the order in which the model wrote them. One
 * block is open at a time. */
#include "app/serve/api/messages_answer.h"

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_id.h"
#include "app/serve/api/carried_thought.h"
#include "app/serve/api/event_writer.h"
#include "app/serve/api/partial_json.h"
#include "app/serve/http/event_stream.h"
#include "app/serve/http/json_wide.h"

#include <stdlib.h>
#include <string.h>

enum block { NO_BLOCK, TEXT_BLOCK, THINKING };

struct messages_answer {
    json_t *model, *stops; /* of the request */
    const char **stop;     /* of stops; owned */
    json_t *content;       /* the blocks that are over */
    struct event_writer events;
    bool hidden;
    char id[ANSWER_ID_BYTES];
    enum block open;
    struct growing_text text; /* of the open block */
    size_t n_prompt, n_thought;
};

struct messages_answer *messages_answer_open(struct messages_request *r)
{
    struct messages_answer *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct messages_answer){.model = json_incref(r->model),
                                  .stops = json_incref(r->stops),
                                  .stop = r->stop,
                                  .content = json_array(),
                                  .events = {.streams = r->stream},
                                  .hidden = r->hidden,
                                  .n_prompt = r->turn.prompt.n};
    r->stop = NULL;
    answer_id(a->id, "msg_");
    if (a->content)
        return a;
    messages_answer_close(a);
    return NULL;
}

void messages_answer_close(struct messages_answer *a)
{
    if (!a)
        return;
    json_decref(a->model);
    json_decref(a->stops);
    free(a->stop);
    json_decref(a->content);
    growing_text_close(&a->text);
    free(a);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* end: of an answer that is over, else NULL. What was found evaluated counts apart. */
static json_t *usage_json(const struct messages_answer *a, const struct job_event *end)
{
    size_t cached = end ? end->n_cached : 0, out = end ? end->result.n_generated : 0;
    return json_pack("{s:I, s:I, s:I, s:n, s:n, s:n, s:s, s:I, s:{s:I}}", "input_tokens",
                     (json_int_t)(a->n_prompt - cached), "cache_creation_input_tokens",
                     (json_int_t)0, "cache_read_input_tokens", (json_int_t)cached, "cache_creation",
                     "inference_geo", "server_tool_use", "service_tier", "standard",
                     "output_tokens", (json_int_t)out, "output_tokens_details", "thinking_tokens",
                     (json_int_t)a->n_thought);
}

static json_t *message_json(const struct messages_answer *a, json_t *end /* stolen */,
                            const struct job_event *done)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:O, s:O, s:o}", "id", a->id, "type", "message", "role",
                          "assistant", "model", a->model, "content", a->content, "usage",
                          usage_json(a, done));
    if (m && json_object_update(m, end)) {
        json_decref(m);
        m = NULL;
    }
    json_decref(end);
    return m;
}

/* Why an answer ended; reason NULL: it has not. */
static json_t *end_json(const char *reason, const char *stop)
{
    return json_pack("{s:s?, s:s?, s:n, s:n}", "stop_reason", reason, "stop_sequence", stop,
                     "stop_details", "container");
}

static json_t *end_of(const struct answer_part *p)
{
    if (p->reason == TERN_STOP_LENGTH)
        return end_json("max_tokens", NULL);
    if (p->reason == TERN_STOP_CONTEXT)
        return end_json("model_context_window_exceeded", NULL);
    if (p->called) /* whole: a stop sequence behind it changes nothing */
        return end_json("tool_use", NULL);
    return p->stop ? end_json("stop_sequence", p->stop) : end_json("end_turn", NULL);
}

/* The open block; whole: with its text. */
static json_t *block_json(const struct messages_answer *a, bool whole)
{
    json_t *text = json_stringn(whole && a->text.n ? a->text.p : "", whole ? a->text.n : 0);
    if (a->open == TEXT_BLOCK)
        return json_pack("{s:s, s:o, s:n}", "type", "text", "text", text, "citations");
    struct growing_text carried = {0};
    if (whole)
        carried_thought_write(&carried, a->text.p, a->text.n);
    if (a->hidden)
        json_string_set(text, "");
    json_t *block = json_pack("{s:s, s:o, s:o}", "type", "thinking", "thinking", text, "signature",
                              json_stringn(carried.n ? carried.p : "", carried.n));
    growing_text_close(&carried);
    return block;
}

/* ---- events ---------------------------------------------------------------------------------- */

void messages_answer_begin(struct messages_answer *a, struct exchange *x)
{
    if (!a->events.streams)
        return;
    exchange_begin(x, EVENT_STREAM);
    json_t *message = message_json(a, end_json(NULL, NULL), NULL);
    event_writer_emit(&a->events, x, "message_start", "{s:O}", "message", message);
    event_writer_emit(&a->events, x, "ping", "{}");
    json_decref(message);
}

static json_int_t index_of_open(const struct messages_answer *a)
{
    return (json_int_t)json_array_size(a->content);
}

static void emit_start(struct messages_answer *a, struct exchange *x, json_t *block)
{
    event_writer_emit(&a->events, x, "content_block_start", "{s:I, s:O}", "index", index_of_open(a),
                      "content_block", block);
}

/* {"type": type, field: text} */
static void emit_delta(struct messages_answer *a, struct exchange *x, const char *type,
                       const char *field, json_t *text)
{
    event_writer_emit(&a->events, x, "content_block_delta", "{s:I, s:{s:s, s:O}}", "index",
                      index_of_open(a), "delta", "type", type, field, text);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void close_block(struct messages_answer *a, struct exchange *x)
{
    if (a->open == NO_BLOCK)
        return;
    json_t *block = block_json(a, true);
    if (a->open == THINKING)
        emit_delta(a, x, "signature_delta", "signature", json_object_get(block, "signature"));
    event_writer_emit(&a->events, x, "content_block_stop", "{s:I}", "index", index_of_open(a));
    json_array_append_new(a->content, block);
    a->text.n = 0;
    a->open = NO_BLOCK;
}

static void open_block(struct messages_answer *a, struct exchange *x, enum block kind)
{
    if (a->open == kind)
        return;
    close_block(a, x);
    a->open = kind;
    json_t *block = block_json(a, false);
    emit_start(a, x, block);
    json_decref(block);
}

static void add_text(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct messages_answer *a = arg;
    bool thought = p->kind == PART_THOUGHT;
    open_block(a, x, thought ? THINKING : TEXT_BLOCK);
    growing_text_add(&a->text, p->text, p->bytes);
    a->n_thought += thought ? p->n_tokens : 0;
    if (thought && a->hidden)
        return;
    json_t *text = json_stringn(p->text, p->bytes);
    emit_delta(a, x, thought ? "thinking_delta" : "text_delta", thought ? "thinking" : "text",
               text);
    json_decref(text);
}

/* A call's arguments as an object; what is none is kept as the only member of one. */
static json_t *arguments_json(const char *text)
{
    json_t *arguments = json_wide_object(text, strlen(text));
    return arguments ? arguments : json_pack("{s:s}", "arguments", text);
}

static json_t *call_json(const struct tern_call *c, json_t *arguments /* stolen */)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:{s:s}}", "type", "tool_use", "id", c->id, "name",
                     c->name, "input", arguments, "caller", "type", "direct");
}

static void open_call(struct messages_answer *a, struct exchange *x, const struct tern_call *c)
{
    close_block(a, x);
    json_t *begun = call_json(c, json_object());
    emit_start(a, x, begun);
    json_decref(begun);
}

static void add_arguments(struct messages_answer *a, struct exchange *x, const char *text, size_t n)
{
    json_t *more = json_stringn(text, n);
    emit_delta(a, x, "input_json_delta", "partial_json", more);
    json_decref(more);
}

/* Of a call that was cut, its input has the members that Anthropic's client makes of the same text. */
static void close_call(struct messages_answer *a, struct exchange *x, const struct tern_call *c,
                       bool cut)
{
    json_t *arguments = cut ? partial_json_read(c->arguments, false) : arguments_json(c->arguments);
    event_writer_emit(&a->events, x, "content_block_stop", "{s:I}", "index", index_of_open(a));
    json_array_append_new(a->content, call_json(c, arguments));
}

static void add_call(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct messages_answer *a = arg;
    if (p->kind == PART_BEGIN)
        open_call(a, x, &p->call);
    else if (p->kind == PART_ARGUMENTS)
        add_arguments(a, x, p->text, p->bytes);
    else
        close_call(a, x, &p->call, p->cut);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finish(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct messages_answer *a = arg;
    answers_log_one(x, p);
    if (!json_array_size(a->content) && a->open == NO_BLOCK)
        open_block(a, x, TEXT_BLOCK); /* an empty answer has a text */
    close_block(a, x);
    json_t *end = end_of(p);
    if (!a->events.streams) {
        json_t *message = message_json(a, end, p->end);
        answers_add_receipt(message, p->end);
        exchange_reply_json(x, 200, message);
        return;
    }
    json_t *told = json_pack("{s:O, s:o}", "delta", end, "usage", usage_json(a, p->end));
    answers_add_receipt(told, p->end);
    event_writer_emit(&a->events, x, "message_delta", "{s:O, s:O, s:O*}", "delta", end, "usage",
                      json_object_get(told, "usage"), "receipt", json_object_get(told, "receipt"));
    event_writer_emit(&a->events, x, "message_stop", "{}");
    json_decref(told);
    json_decref(end);
    event_writer_end(&a->events, x);
}

static void fail(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct messages_answer *a = arg;
    const struct fault *f = p->fault;
    if (event_writer_fail(&a->events, x, f))
        return;
    event_writer_emit(&a->events, x, "error", "{s:{s:s, s:s}, s:n}", "error", "type",
                      fault_type(f, true), "message", f->message, "request_id");
    event_writer_end(&a->events, x);
}

/* ---- what a turn calls ------------------------------------------------------------------------ */

static void write_ping(void *arg, struct exchange *x)
{
    struct messages_answer *a = arg;
    event_writer_emit(&a->events, x, "ping", "{}");
}

static void close_answer(void *arg)
{
    messages_answer_close(arg);
}

const struct answers_writer messages_answer_writer = {add_text, add_call,   finish,
                                                      fail,     write_ping, close_answer};
