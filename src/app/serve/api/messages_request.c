/* Requests to /v1/messages: see messages_request.h. */
#include "app/serve/api/messages_request.h"

#include "app/serve/api/messages_input.h"
#include "app/serve/api/messages_tools.h"
#include "app/serve/server.h"

#include <stdlib.h>

/* Fields that only inform */
static const char informs[] = "metadata service_tier cache_control betas user_profile_id model";

/* Without `thinking`, an answer has no thoughts: many clients take the first block for its text. */
static bool read_thinking(struct messages_request *r, const struct server *s, struct fields *f)
{
    enum { DISABLED };
    struct fields in;
    bool present;
    size_t kind = DISABLED, display = 0;
    int64_t budget = 0;
    if (!fields_inside(f, "thinking", &in, &present) || (present && !fields_need(&in, "type")) ||
        !fields_choice(&in, "type", "disabled|enabled|adaptive|between_tools", &kind) ||
        !fields_choice(&in, "display", "summarized|omitted|updates", &display) ||
        !fields_integer(&in, "budget_tokens", 0, INT64_MAX, &budget))
        return false;
    r->hidden = display == 1;
    if (present)
        turn_think(&r->turn, s, f, "thinking", kind != DISABLED);
    else
        r->turn.chat_flags = TERN_CHAT_NO_THINK;
    if (budget)
        turn_ignore(&r->turn, "thinking.budget_tokens");
    turn_unknown(&r->turn, &in);
    return true;
}

/* {"type": "json_schema", "schema": {...}} in field `name` of f */
static bool read_format(struct messages_request *r, const struct server *s, struct fields *f,
                        const char *name)
{
    struct fields in;
    size_t kind = 0;
    bool present;
    if (!fields_inside(f, name, &in, &present) || !present)
        return !f->fault->status;
    bool ok = fields_need(&in, "type") && fields_choice(&in, "type", "json_schema", &kind) &&
              turn_read_schema(&r->turn, s, &in, "schema");
    turn_unknown(&r->turn, &in);
    return ok;
}

static bool read_output_config(struct messages_request *r, const struct server *s, struct fields *f)
{
    struct fields in;
    bool present;
    if (!fields_inside(f, "output_config", &in, &present))
        return false;
    bool ok = read_format(r, s, &in, "format") && read_format(r, s, f, "output_format");
    turn_unknown(&r->turn, &in);
    return ok;
}

/* The stop sequences, a text or an array of texts, to be told which one came */
static bool list_stops(struct messages_request *r, json_t *stops)
{
    size_t n = json_is_array(stops) ? json_array_size(stops) : stops != NULL;
    r->stops = json_incref(stops);
    r->turn.stop = r->stop = calloc(n + 1, sizeof *r->stop);
    for (size_t i = 0; i < n && r->stop; i++) {
        const char *stop =
            json_string_value(json_is_array(stops) ? json_array_get(stops, i) : stops);
        if (*stop)
            r->stop[r->turn.n_stop++] = stop;
    }
    return r->stop != NULL;
}

static bool read_generation(struct messages_request *r, const struct server *s, struct fields *f)
{
    return fields_need(f, "max_tokens") &&
           fields_integer(f, "max_tokens", 0, INT32_MAX, &r->turn.params.n_predict) &&
           request_params_stop(&r->turn.params, f, "stop_sequences", REQUEST_STOPS_MAX) &&
           request_params_chat_stop(&r->turn.params, s->model) &&
           list_stops(r, fields_any(f, "stop_sequences")) && fields_bool(f, "stream", &r->stream);
}

static bool read_body(struct messages_request *r, struct server *s, struct exchange *x, bool counts,
                      struct fields *f)
{
    if (!(r->model = fields_model(f, s->model_name)) ||
        !request_params_read(&r->turn.params, s, x, f))
        return false;
    if (counts)
        fields_forget(f);
    fields_ignore(f, informs);
    return (counts || read_generation(r, s, f)) && read_thinking(r, s, f) &&
           read_output_config(r, s, f) && messages_tools_read(&r->turn, s, f) &&
           messages_input_read(&r->turn, s, f);
}

bool messages_request_read(struct messages_request *r, struct server *s, struct exchange *x,
                           bool counts, struct fault *fault)
{
    struct fields f;
    *r = (struct messages_request){
        .turn = {.dialog = dialog_open(),
                 .field = "messages",
                 .rules = {.choice_field = "tool_choice", .format_field = "output_config.format"}}};
    if (r->turn.dialog && fields_open(&f, exchange_json(x), "", fault) &&
        read_body(r, s, x, counts, &f)) {
        turn_unknown(&r->turn, &f);
        return true;
    }
    return fault_no_memory(fault, "the request"); /* if nothing else is wrong */
}

void messages_request_close(struct messages_request *r)
{
    turn_close(&r->turn);
    json_decref(r->model);
    json_decref(r->stops);
    free(r->stop);
    *r = (struct messages_request){0};
}
