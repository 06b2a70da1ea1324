/* Requests to /v1/responses: see responses_request.h. */
#include "app/serve/api/responses_request.h"

#include "app/serve/api/responses_input.h"
#include "app/serve/api/responses_tools.h"
#include "app/serve/serve_options.h"
#include "app/serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields that only inform */
static const char informs[] =
    "user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options "
    "service_tier store metadata client_metadata model";

static bool refuse(struct fields *f, const char *name, const char *why)
{
    return !fields_has(f, name) || fields_fault(f, name, "unsupported_parameter", "%s", why);
}

static bool refuse_what_needs_a_store(struct fields *f)
{
    bool background = false;
    static const char send[] =
        "is not supported: this server stores no responses; send the whole conversation as input";
    if (!refuse(f, "previous_response_id", send) || !refuse(f, "conversation", send) ||
        !refuse(f, "prompt", "is not supported: this server stores no prompts") ||
        !fields_bool(f, "background", &background))
        return false;
    return !background || fields_fault(f, "background", "unsupported_parameter",
                                       "is not supported: this server stores no responses");
}

/* `include`: what else the response shall have */
static bool read_include(struct responses_request *r, struct fields *f)
{
    json_t *include = NULL, *name;
    size_t i;
    if (!fields_array(f, "include", 32, &include))
        return false;
    json_array_foreach(include, i, name)
    {
        const char *text = json_string_value(name);
        if (!text)
            return fields_fault(f, "include", "invalid_type", "must be an array of strings");
        if (!strcmp(text, "reasoning.encrypted_content"))
            r->carry = true;
        else if (!strcmp(text, "message.output_text.logprobs"))
            r->turn.params.logprobs = true;
        else
            turn_ignore(&r->turn, "include (%.60s)", text);
    }
    int64_t n_top = 0;
    if (!fields_integer(f, "top_logprobs", 0, REQUEST_TOP_MAX, &n_top))
        return false;
    r->turn.params.n_top = r->turn.params.logprobs ? (unsigned)n_top : 0;
    return !json_object_set_new(r->echo, "top_logprobs", json_integer(n_top));
}

static bool read_reasoning(struct responses_request *r, const struct server *s, struct fields *f)
{
    static const char efforts[] = TURN_EFFORT_OFF "|" TURN_EFFORT_ON;
    enum { NONE, MINIMAL, UNSAID = 99 };
    struct fields in;
    bool present;
    size_t effort = UNSAID, kind = 0;
    if (!fields_inside(f, "reasoning", &in, &present) ||
        !fields_choice(&in, "effort", efforts, &effort))
        return false;
    const char *name = fields_has(&in, "summary") ? "summary" : "generate_summary";
    r->summary = fields_has(&in, name);
    fields_ignore(&in, "generate_summary");
    if (!fields_choice(&in, name, "auto|concise|detailed", &kind))
        return false;
    if (effort != UNSAID)
        turn_think(&r->turn, s, &in, "effort", effort > MINIMAL);
    turn_unknown(&r->turn, &in);
    json_t *said_effort = fields_any(&in, "effort"), *said_summary = fields_any(&in, name);
    return !json_object_set_new(
        r->echo, "reasoning",
        json_pack("{s:O?, s:O?}", "effort", said_effort, "summary", said_summary));
}

static bool read_schema(struct responses_request *r, const struct server *s, struct fields *in)
{
    const char *name = NULL;
    bool strict = false;
    fields_ignore(in, "description");
    return fields_text(in, "name", &name, NULL) && fields_bool(in, "strict", &strict) &&
           turn_read_schema(&r->turn, s, in, "schema");
}

static bool read_text(struct responses_request *r, const struct server *s, struct fields *f)
{
    enum { FREE, OBJECT, SCHEMA };
    struct fields text, format;
    bool present, formatted;
    size_t kind = FREE;
    if (!fields_inside(f, "text", &text, &present) ||
        !fields_inside(&text, "format", &format, &formatted) ||
        (formatted && !fields_need(&format, "type")) ||
        !fields_choice(&format, "type", "text|json_object|json_schema", &kind))
        return false;
    if (kind == OBJECT)
        r->turn.rules.format = FORMAT_JSON;
    if (kind == SCHEMA && !read_schema(r, s, &format))
        return false;
    turn_unknown(&r->turn, &text);
    turn_unknown(&r->turn, &format);
    json_t *echo = formatted ? json_copy(format.object) : json_pack("{s:s}", "type", "text");
    if (kind == SCHEMA) {
        static const char *const names[] = {"name", "description", "schema", "strict"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!json_object_get(echo, names[i]))
                json_object_set_new(echo, names[i], i == 3 ? json_false() : json_null());
    }
    return !json_object_set_new(r->echo, "text", json_pack("{s:o}", "format", echo));
}

/* What the response repeats of options, and what it says of those without effect */
static bool echo_options(struct responses_request *r, const struct server *s, struct fields *f)
{
    const struct tern_sampler_params *p = &r->turn.params.sampler;
    bool store = false;
    json_t *metadata = NULL;
    if (fields_has(f, "max_tool_calls"))
        turn_ignore(&r->turn, "max_tool_calls");
    if (!fields_bool(f, "store", &store) || !fields_object(f, "metadata", &metadata))
        return false;
    json_t *model = fields_model(f, s->model_name);
    if (!model)
        return false;
    json_t *named[] = {fields_any(f, "instructions"), fields_any(f, "max_output_tokens"),
                       fields_any(f, "max_tool_calls"), fields_any(f, "safety_identifier"),
                       fields_any(f, "prompt_cache_key")};
    json_t *echo = json_pack(
        "{s:o, s:O?, s:O?, s:O?, s:O?, s:O?, s:n, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:s}", "model",
        model, "instructions", named[0], "max_output_tokens", named[1], "max_tool_calls", named[2],
        "safety_identifier", named[3], "prompt_cache_key", named[4], "previous_response_id",
        "truncation", "disabled", "temperature", request_params_real(p->temperature), "top_p",
        request_params_real(p->top_p), "presence_penalty", request_params_real(p->presence_penalty),
        "frequency_penalty", request_params_real(p->frequency_penalty), "store", store,
        "background", 0, "service_tier", "default");
    json_t *given = metadata ? json_incref(metadata) : json_object();
    bool ok =
        echo && !json_object_set_new(echo, "metadata", given) && !json_object_update(r->echo, echo);
    json_decref(echo);
    return ok;
}

static bool read_stream(struct responses_request *r, struct fields *f)
{
    struct fields options;
    bool present;
    if (!fields_bool(f, "stream", &r->stream) ||
        !fields_inside(f, "stream_options", &options, &present))
        return false;
    turn_unknown(&r->turn, &options);
    return true;
}

static bool read_truncation(struct responses_request *r, struct fields *f)
{
    size_t kind = 0;
    if (!fields_choice(f, "truncation", "disabled|auto", &kind))
        return false;
    if (kind) /* nothing is ever cut silently: a prompt that does not fit is refused */
        turn_ignore(&r->turn, "truncation (auto)");
    return true;
}

static bool read_conversation(struct responses_request *r, const struct server *s, struct fields *f)
{
    const char *instructions = NULL;
    size_t n = 0;
    json_t *input = fields_any(f, "input");
    if (!fields_text(f, "instructions", &instructions, &n) || !fields_need(f, "input"))
        return false;
    int64_t max = serve_number(s->options, SERVE_MAX_MESSAGES);
    if (json_array_size(input) > (size_t)max)
        return fields_fault(f, "input", "limit_exceeded", "has %zu items; at most %lld are allowed",
                            json_array_size(input), (long long)max);
    size_t skip = instructions ? turn_skip_billing(&r->turn, "instructions", instructions, n) : 0;
    if (instructions)
        dialog_system(r->turn.dialog, instructions + skip, n - skip);
    return responses_input_read(&r->turn, input, f->fault);
}

static bool read_body(struct responses_request *r, struct server *s, struct exchange *x,
                      bool counts, struct fields *f)
{
    if (!request_params_read(&r->turn.params, s, x, f) || !refuse_what_needs_a_store(f) ||
        !fields_integer(f, "max_output_tokens", 1, INT32_MAX, &r->turn.params.n_predict) ||
        !request_params_chat_stop(&r->turn.params, s->model) || !read_stream(r, f) ||
        !read_include(r, f) || !echo_options(r, s, f))
        return false;
    if (counts)
        fields_forget(f);
    fields_ignore(f, informs);
    return read_reasoning(r, s, f) && read_text(r, s, f) && read_truncation(r, f) &&
           responses_tools_read(&r->turn, s, f, r->echo, r->special) && read_conversation(r, s, f);
}

bool responses_request_read(struct responses_request *r, struct server *s, struct exchange *x,
                            bool counts, struct fault *fault)
{
    struct fields f;
    *r = (struct responses_request){
        .echo = json_object(),
        .special = json_object(),
        .turn = {.dialog = dialog_open(),
                 .field = "input",
                 .rules = {.choice_field = "tool_choice", .format_field = "text.format"}}};
    if (!r->echo || !r->special || !r->turn.dialog)
        return fault_no_memory(fault, "the request");
    if (fields_open(&f, exchange_json(x), "", fault) && read_body(r, s, x, counts, &f)) {
        turn_unknown(&r->turn, &f);
        return true;
    }
    return fault_no_memory(fault, "the request"); /* if nothing else is wrong */
}

void responses_request_close(struct responses_request *r)
{
    turn_close(&r->turn);
    json_decref(r->echo);
    json_decref(r->special);
    *r = (struct responses_request){0};
}
