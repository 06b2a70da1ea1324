/* Answers of /v1/responses: see responses_answer.h.
 *
 * A response is a list of items: reasoning, message, function_call, in the order in which the model wrote
 * them. One item is open at a time. */
#include "app/serve/api/responses_answer.h"

#include "app/cli/growing_text.h"
#include "app/serve/api/answer_id.h"
#include "app/serve/api/carried_thought.h"
#include "app/serve/api/custom_input.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/api/event_writer.h"
#include "app/serve/api/logprobs.h"
#include "app/serve/http/event_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum item { NO_ITEM, REASONING, MESSAGE, CALL };

/* A call: item, the field that its events tell, and the names of these */
struct call_form {
    const char *type, *prefix, *field, *delta, *done;
};
static const struct call_form function_form = {"function_call", "fc_", "arguments",
                                               "response.function_call_arguments.delta",
                                               "response.function_call_arguments.done"};
static const struct call_form custom_form = {"custom_tool_call", "ctc_", "input",
                                             "response.custom_tool_call_input.delta",
                                             "response.custom_tool_call_input.done"};

struct responses_answer {
    const struct server *server;
    json_t *echo;    /* what the response repeats of the request */
    json_t *special; /* how calls of some tools look (responses_tools.h) */
    json_t *output;  /* the items that are over */
    struct event_writer events;
    bool summary, carry, logprobs;
    char id[ANSWER_ID_BYTES];
    int64_t created;
    enum item open;
    char item_id[ANSWER_ID_BYTES + 8]; /* of the open item */
    struct growing_text text;          /* of the open item; of a call its arguments */
    const struct call_form *form;      /* of the open call */
    json_t *call;                      /* the same as an item, without arguments */
    struct custom_input input;         /* the same of a custom tool */
    json_t *chances;                   /* array: log probabilities of the open message's tokens */
    size_t n_thought;                  /* tokens of thoughts */
};

struct responses_answer *responses_answer_open(const struct server *s, struct responses_request *r)
{
    struct responses_answer *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct responses_answer){.server = s,
                                   .output = json_array(),
                                   .events = {.streams = r->stream, .numbered = true},
                                   .summary = r->summary,
                                   .carry = r->carry,
                                   .logprobs = r->turn.params.logprobs,
                                   .created = time(NULL)};
    answer_id(a->id, "resp_");
    if (!a->output) {
        responses_answer_close(a);
        return NULL;
    }
    a->echo = r->echo, a->special = r->special;
    r->echo = r->special = NULL;
    return a;
}

void responses_answer_close(struct responses_answer *a)
{
    if (!a)
        return;
    json_decref(a->echo);
    json_decref(a->special);
    json_decref(a->output);
    json_decref(a->chances);
    json_decref(a->call);
    growing_text_close(&a->text);
    custom_input_close(&a->input);
    free(a);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* {"type": type, "text": the text of the open item} */
static json_t *part_json(const struct responses_answer *a, const char *type, bool whole)
{
    json_t *part = json_pack("{s:s, s:o}", "type", type, "text",
                             whole ? dialog_json_grown(&a->text) : json_string(""));
    if (part && !strcmp(type, "output_text")) {
        json_object_set_new(part, "annotations", json_array());
        json_object_set_new(part, "logprobs", whole ? json_incref(a->chances) : json_array());
    }
    return part;
}

static const char *part_type(const struct responses_answer *a)
{
    return a->open == MESSAGE ? "output_text" : a->summary ? "summary_text" : "reasoning_text";
}

/* The open item, with its text if whole */
static json_t *item_json(const struct responses_answer *a, bool whole, const char *status)
{
    json_t *parts = json_array();
    if (whole)
        json_array_append_new(parts, part_json(a, part_type(a), true));
    if (a->open == MESSAGE)
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", a->item_id, "status",
                         status, "role", "assistant", "content", parts);
    json_t *item = json_pack("{s:s, s:s, s:s, s:o, s:o}", "type", "reasoning", "id", a->item_id,
                             "status", status, "summary", a->summary ? parts : json_array(),
                             "content", a->summary ? json_array() : parts);
    if (whole && a->carry) {
        struct growing_text carried = {0};
        carried_thought_write(&carried, a->text.p, a->text.n);
        json_object_set_new(item, "encrypted_content", dialog_json_grown(&carried));
        growing_text_close(&carried);
    }
    return item;
}

static json_t *usage_json(const struct responses_answer *a, const struct job_event *end)
{
    json_int_t in = (json_int_t)end->n_prompt, out = (json_int_t)end->result.n_generated;
    return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", in,
                     "input_tokens_details", "cached_tokens", (json_int_t)end->n_cached,
                     "cache_write_tokens", (json_int_t)0, "output_tokens", out,
                     "output_tokens_details", "reasoning_tokens", (json_int_t)a->n_thought,
                     "total_tokens", in + out);
}

/* The response. end: of an answer that is over, else NULL. */
static json_t *response_json(const struct responses_answer *a, const char *status,
                             const struct job_event *end)
{
    bool complete = !strcmp(status, "completed");
    json_t *r = json_pack("{s:s, s:s, s:I, s:o, s:s, s:n, s:n, s:O, s:o}", "id", a->id, "object",
                          "response", "created_at", (json_int_t)a->created, "completed_at",
                          complete ? json_integer(time(NULL)) : json_null(), "status", status,
                          "error", "incomplete_details", "output", a->output, "usage",
                          end ? usage_json(a, end) : json_null());
    if (r && json_object_update(r, a->echo)) {
        json_decref(r);
        return NULL;
    }
    if (!strcmp(status, "incomplete"))
        json_object_set_new(r, "incomplete_details",
                            json_pack("{s:s}", "reason", "max_output_tokens"));
    if (end)
        answers_add_receipt(r, end);
    return r;
}

/* ---- events ---------------------------------------------------------------------------------- */

static json_int_t index_of_open(const struct responses_answer *a)
{
    return (json_int_t)json_array_size(a->output);
}

static void emit_response(struct responses_answer *a, struct exchange *x, const char *type,
                          const char *status)
{
    json_t *response = response_json(a, status, NULL);
    event_writer_emit(&a->events, x, type, "{s:O}", "response", response);
    json_decref(response);
}

void responses_answer_begin(struct responses_answer *a, struct exchange *x)
{
    if (!a->events.streams)
        return;
    exchange_begin(x, EVENT_STREAM);
    emit_response(a, x, "response.created", "in_progress");
    emit_response(a, x, "response.in_progress", "in_progress");
}

/* output_item.added or .done, with the item */
static void emit_item(struct responses_answer *a, struct exchange *x, const char *type,
                      json_t *item)
{
    event_writer_emit(&a->events, x, type, "{s:I, s:O}", "output_index", index_of_open(a), "item",
                      item);
}

/* Events of the open item's only part: added, done */
static void emit_part(struct responses_answer *a, struct exchange *x, bool whole)
{
    bool summary = a->open == REASONING && a->summary;
    json_t *part = part_json(a, part_type(a), whole);
    const char *type = summary ? whole ? "response.reasoning_summary_part.done"
                                       : "response.reasoning_summary_part.added"
                       : whole ? "response.content_part.done"
                               : "response.content_part.added";
    event_writer_emit(&a->events, x, type, "{s:s, s:I, s:i, s:O}", "item_id", a->item_id,
                      "output_index", index_of_open(a), summary ? "summary_index" : "content_index",
                      0, "part", part);
    json_decref(part);
}

/* More text of the open item, or all of it: .delta, .done */
static void emit_text(struct responses_answer *a, struct exchange *x, const char *text, size_t n,
                      json_t *chances, bool whole)
{
    static const char *const types[3][2] = {
        {"response.output_text.delta", "response.output_text.done"},
        {"response.reasoning_text.delta", "response.reasoning_text.done"},
        {"response.reasoning_summary_text.delta", "response.reasoning_summary_text.done"}};
    bool summary = a->open == REASONING && a->summary;
    const char *type = types[a->open == MESSAGE ? 0 : summary ? 2 : 1][whole];
    json_t *string = json_stringn(n ? text : "", n);
    event_writer_emit(&a->events, x, type, "{s:s, s:I, s:i, s:O, s:O*}", "item_id", a->item_id,
                      "output_index", index_of_open(a), summary ? "summary_index" : "content_index",
                      0, whole ? "text" : "delta", string, "logprobs",
                      a->open == MESSAGE ? chances : NULL);
    json_decref(string);
}

/* ---- items ----------------------------------------------------------------------------------- */

/* More of what the open call gets, or all of it: .delta, .done; `text` is stolen. */
static void emit_call(struct responses_answer *a, struct exchange *x, const char *type,
                      const char *field, json_t *text)
{
    event_writer_emit(&a->events, x, type, "{s:s, s:I, s:O}", "item_id", a->item_id, "output_index",
                      index_of_open(a), field, text);
    json_decref(text);
}

/* More arguments of the open call */
static void add_arguments(struct responses_answer *a, struct exchange *x, const char *text,
                          size_t n)
{
    const struct growing_text *input = &a->input.text;
    size_t before = input->n;
    growing_text_add(&a->text, text, n);
    if (a->form == &custom_form) {
        custom_input_read(&a->input, a->text.p, a->text.n);
        n = input->n - before;
        text = n ? input->p + before : "";
    }
    if (n)
        emit_call(a, x, a->form->delta, "delta", json_stringn(text, n));
}

/* The open call is over: the rest of what it gets, and all of it. */
static json_t *end_call(struct responses_answer *a, struct exchange *x, const char *status)
{
    size_t told = a->input.text.n;
    growing_text_add(&a->text, "", 1);
    json_t *value = NULL; /* there is not enough memory */
    if (!a->text.failed && a->form == &function_form)
        value = json_string(a->text.p);
    else if (!a->text.failed)
        value = custom_input_end(&a->input, a->text.p, strcmp(status, "completed") != 0);
    if (a->form == &custom_form && json_string_length(value) > told)
        emit_call(a, x, a->form->delta, "delta",
                  json_stringn(json_string_value(value) + told, json_string_length(value) - told));
    emit_call(a, x, a->form->done, a->form->field, json_incref(value));
    json_t *item = a->call;
    json_object_set_new(item, a->form->field, value);
    json_object_set_new(item, "status", json_string(status));
    custom_input_close(&a->input);
    a->call = NULL;
    return item;
}

static json_t *end_text(struct responses_answer *a, struct exchange *x, const char *status)
{
    json_t *item = item_json(a, true, status);
    emit_text(a, x, a->text.p, a->text.n, a->chances, true);
    emit_part(a, x, true);
    json_decref(a->chances);
    a->chances = NULL;
    return item;
}

static void close_item(struct responses_answer *a, struct exchange *x, const char *status)
{
    if (a->open == NO_ITEM)
        return;
    json_t *item = a->open == CALL ? end_call(a, x, status) : end_text(a, x, status);
    emit_item(a, x, "response.output_item.done", item);
    json_array_append_new(a->output, item);
    a->text.n = 0;
    a->open = NO_ITEM;
}

static void name_item(struct responses_answer *a, const char *prefix)
{
    (void)snprintf(a->item_id, sizeof a->item_id, "%s%s_%zu", prefix, a->id + strlen("resp_"),
                   json_array_size(a->output));
}

static void open_item(struct responses_answer *a, struct exchange *x, enum item kind)
{
    if (a->open == kind)
        return;
    close_item(a, x, "completed");
    a->open = kind;
    a->chances = json_array();
    name_item(a, kind == MESSAGE ? "msg_" : "rs_");
    json_t *item = item_json(a, false, "in_progress");
    emit_item(a, x, "response.output_item.added", item);
    json_decref(item);
    emit_part(a, x, false);
}

static void add_text(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct responses_answer *a = arg;
    open_item(a, x, p->kind == PART_TEXT ? MESSAGE : REASONING);
    json_t *chances = json_array();
    if (a->logprobs && a->open == MESSAGE)
        logprobs_add(chances, a->server, p->tokens, p->n_tokens);
    if (a->open == REASONING)
        a->n_thought += p->n_tokens;
    growing_text_add(&a->text, p->text, p->bytes);
    json_array_extend(a->chances, chances);
    emit_text(a, x, p->text, p->bytes, chances, false);
    json_decref(chances);
}

static void open_call(struct responses_answer *a, struct exchange *x, const struct tern_call *c)
{
    json_t *special = json_object_get(a->special, c->name);
    close_item(a, x, "completed");
    a->open = CALL;
    a->form = json_object_get(special, "custom") ? &custom_form : &function_form;
    name_item(a, a->form->prefix);
    a->call = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:O*}", "type", a->form->type, "id",
                        a->item_id, "call_id", c->id, "name", c->name, a->form->field, "", "status",
                        "in_progress", "namespace", json_object_get(special, "namespace"));
    emit_item(a, x, "response.output_item.added", a->call);
}

static void add_call(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct responses_answer *a = arg;
    if (p->kind == PART_BEGIN)
        open_call(a, x, &p->call);
    else if (p->kind == PART_ARGUMENTS)
        add_arguments(a, x, p->text, p->bytes);
    else
        close_item(a, x, p->cut ? "incomplete" : "completed");
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finish(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct responses_answer *a = arg;
    bool cut = p->reason == TERN_STOP_LENGTH || p->reason == TERN_STOP_CONTEXT;
    const char *status = cut ? "incomplete" : "completed";
    answers_log_one(x, p);
    if (!json_array_size(a->output))
        open_item(a, x, a->open == NO_ITEM ? MESSAGE : a->open); /* an empty answer has a message */
    close_item(a, x, status);
    json_t *response = response_json(a, status, p->end);
    if (!a->events.streams) {
        exchange_reply_json(x, 200, response);
        return;
    }
    event_writer_emit(&a->events, x, cut ? "response.incomplete" : "response.completed", "{s:O}",
                      "response", response);
    json_decref(response);
    event_writer_end(&a->events, x);
}

static void fail(void *arg, struct exchange *x, const struct answer_part *p)
{
    struct responses_answer *a = arg;
    const struct fault *f = p->fault;
    if (event_writer_fail(&a->events, x, f))
        return;
    close_item(a, x, "incomplete");
    json_t *response = response_json(a, "failed", NULL);
    json_object_set_new(
        response, "error",
        json_pack("{s:s, s:s}", "code", f->code && f->status < 500 ? f->code : "server_error",
                  "message", f->message));
    event_writer_emit(&a->events, x, "response.failed", "{s:O}", "response", response);
    json_decref(response);
    event_writer_end(&a->events, x);
}

/* ---- what a turn calls ------------------------------------------------------------------------ */

/* What OpenAI's servers send, too. A comment would not do: Codex gives a stream up after five minutes without
 * an event, and a long prompt may take longer. */
static void write_ping(void *arg, struct exchange *x)
{
    struct responses_answer *a = arg;
    event_writer_emit(&a->events, x, "keepalive", "{}");
}

static void close_answer(void *arg)
{
    responses_answer_close(arg);
}

const struct answers_writer responses_answer_writer = {add_text, add_call,   finish,
                                                       fail,     write_ping, close_answer};
