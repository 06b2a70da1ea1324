/* Messages in OpenAI's form: see chat_messages.h. */
#include "app/serve/api/chat_messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/growing_text.h"
#include "app/serve/http/json_wide.h"

enum role { SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL, FUNCTION };

struct message_reading {
    struct turn *turn;
    struct fields m; /* the message */
    enum role role;
};

/* ---- contents ------------------------------------------------------------------------------- */

static void add_text(struct message_reading *r, const char *place, const char *p, size_t n,
                     struct growing_text *text)
{
    bool of_system = r->role == SYSTEM || r->role == DEVELOPER;
    size_t skip = of_system ? turn_skip_billing(r->turn, place, p, n) : 0;
    if (n)
        growing_text_add(text, p + skip, n - skip);
}

static bool read_part(struct message_reading *r, json_t *part, const char *place,
                      struct growing_text *text)
{
    struct fields f;
    const char *type = "text", *p = NULL;
    size_t n = 0;
    if (json_is_string(part)) {
        add_text(r, place, json_string_value(part), json_string_length(part), text);
        return true;
    }
    if (!fields_open(&f, part, place, r->m.fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    bool refusal = !strcmp(type, "refusal");
    if (refusal || !strcmp(type, "text") || !strcmp(type, "input_text") ||
        !strcmp(type, "output_text")) {
        if (!fields_text(&f, refusal ? "refusal" : "text", &p, &n))
            return false;
        add_text(r, place, p, n, text);
        fields_ignore(&f, "annotations cache_control logprobs prompt_cache_breakpoint");
        turn_unknown(r->turn, &f);
        return true;
    }
    if (r->role == USER || r->role == SYSTEM || r->role == DEVELOPER)
        return fields_fault(&f, "type", "unsupported_value",
                            "is '%.60s'; this model reads parts of type 'text' only", type);
    growing_text_add(text, DIALOG_LEFT_OUT, strlen(DIALOG_LEFT_OUT));
    turn_ignore(r->turn, "%s (%.40s)", place, type);
    return true;
}

/* The text of field `name`: a text or parts, which join as they are. Absent: empty. */
static bool read_content(struct message_reading *r, const char *name, struct growing_text *text)
{
    struct fields_parts p;
    bool ok = fields_parts(&r->m, name, "parts", &p);
    while (ok && fields_next_part(&p))
        ok = read_part(r, p.part, p.place, text);
    return ok;
}

/* ---- the assistant's -------------------------------------------------------------------------- */

/* What a client calls arguments: mostly a text, sometimes the object itself. */
static void add_call(struct turn *t, const char *id, const char *name, const json_t *arguments)
{
    if (json_is_string(arguments)) {
        dialog_call(t->dialog, id, name, json_string_value(arguments),
                    json_string_length(arguments));
        return;
    }
    char *text = json_is_null(arguments) ? NULL : json_plain(arguments);
    dialog_call(t->dialog, id, name, text ? text : "", text ? strlen(text) : 0);
    free(text);
}

static bool read_call(struct message_reading *r, json_t *call, size_t i)
{
    struct fields f, function;
    char place[128];
    const char *id = NULL, *name = NULL, *type = NULL;
    int64_t index = 0; /* of the stream that the client had the call from */
    bool present;
    snprintf(place, sizeof place, "%.80s.tool_calls[%zu]", r->m.place, i);
    if (!fields_open(&f, call, place, r->m.fault) || !fields_text(&f, "id", &id, NULL) ||
        !fields_text(&f, "type", &type, NULL) ||
        !fields_integer(&f, "index", INT64_MIN, INT64_MAX, &index) ||
        !fields_inside(&f, fields_has(&f, "custom") ? "custom" : "function", &function, &present) ||
        !fields_text(&function, "name", &name, NULL))
        return false;
    json_t *arguments = fields_any(&function, "arguments");
    json_t *input = fields_any(&function, "input");
    add_call(r->turn, id, name, arguments ? arguments : input);
    turn_unknown(r->turn, &f);
    turn_unknown(r->turn, &function);
    return true;
}

static bool read_calls(struct message_reading *r)
{
    struct fields function;
    json_t *calls = NULL;
    const char *name = NULL;
    bool present, ok = fields_array(&r->m, "tool_calls", SIZE_MAX, &calls);
    for (size_t i = 0; i < json_array_size(calls) && ok; i++)
        ok = read_call(r, json_array_get(calls, i), i);
    if (!ok || !fields_inside(&r->m, "function_call", &function, &present) ||
        !fields_text(&function, "name", &name, NULL))
        return false;
    if (present) /* of OpenAI's older API */
        add_call(r->turn, NULL, name, fields_any(&function, "arguments"));
    turn_unknown(r->turn, &function);
    return true;
}

/* Thoughts, in the name that the client has for them */
static bool read_thought(struct message_reading *r, struct growing_text *thought)
{
    return read_content(r, "reasoning_content", thought) &&
           (thought->n || read_content(r, "reasoning", thought));
}

static bool read_assistant(struct message_reading *r, const struct growing_text *text)
{
    struct growing_text thought = {0}, refusal = {0};
    bool ok = read_thought(r, &thought) && read_content(r, "refusal", &refusal);
    const struct growing_text *said = text->n ? text : &refusal;
    if (ok)
        dialog_assistant(r->turn->dialog, said->p, said->n, thought.p, thought.n);
    growing_text_close(&thought);
    growing_text_close(&refusal);
    fields_ignore(&r->m, "annotations");
    return ok && read_calls(r);
}

/* ---- messages --------------------------------------------------------------------------------- */

static bool read_result(struct message_reading *r, const struct growing_text *text)
{
    const char *id = NULL, *name = NULL;
    if (!fields_text(&r->m, "tool_call_id", &id, NULL) || !fields_text(&r->m, "name", &name, NULL))
        return false;
    dialog_result(r->turn->dialog, id, name, text->p, text->n);
    return true;
}

static bool read_message(struct message_reading *r)
{
    struct growing_text text = {0};
    size_t role = USER;
    if (!fields_need(&r->m, "role") ||
        !fields_choice(&r->m, "role", "system|developer|user|assistant|tool|function", &role))
        return false;
    r->role = (enum role)role;
    bool ok = read_content(r, "content", &text);
    if (ok && text.failed)
        fault_no_memory(r->m.fault, "the message");
    ok = ok && !text.failed;
    if (ok && role == ASSISTANT)
        ok = read_assistant(r, &text);
    else if (ok && (role == TOOL || role == FUNCTION))
        ok = read_result(r, &text);
    else if (ok && role == USER)
        dialog_user(r->turn->dialog, text.p, text.n);
    else if (ok)
        dialog_system(r->turn->dialog, text.p, text.n);
    growing_text_close(&text);
    fields_ignore(&r->m, "id cache_control");
    if (ok)
        turn_unknown(r->turn, &r->m);
    return ok;
}

bool chat_messages_read(struct turn *t, struct fields *f, size_t max)
{
    json_t *messages = NULL;
    if (!fields_need(f, "messages") || !fields_array(f, "messages", max, &messages))
        return false;
    if (json_array_size(messages) == 0)
        return fields_fault(f, "messages", "empty_array", "must have at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        struct message_reading r = {.turn = t};
        char place[40];
        snprintf(place, sizeof place, "messages[%zu]", i);
        if (!fields_open(&r.m, json_array_get(messages, i), place, f->fault) || !read_message(&r))
            return false;
    }
    return true;
}
