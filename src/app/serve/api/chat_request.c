/* Requests for a chat: see chat_request.h. */
#include "app/serve/api/chat_request.h"

#include <stdlib.h>
#include <string.h>

#include "app/cli/parser.h"
#include "app/serve/api/chat_messages.h"
#include "app/serve/api/chat_tools.h"
#include "app/serve/api/format_fields.h"
#include "app/serve/serve_options.h"

static size_t limit(const struct server *s, enum serve_option id)
{
    return (size_t)serve_number(s->options, id);
}

/* ---- thinking ------------------------------------------------------------------------------- */

static bool read_flag(struct turn *t, const struct server *s, struct fields *f, const char *name)
{
    bool think = false;
    if (!fields_bool(f, name, &think))
        return false;
    if (fields_has(f, name))
        turn_think(t, s, f, name, think);
    return true;
}

/* reasoning_effort, then what chat templates call it, which wins. */
static bool read_thinking(struct turn *t, const struct server *s, struct fields *f)
{
    struct fields template;
    const char *effort = NULL;
    bool present;
    if (!fields_text(f, "reasoning_effort", &effort, NULL))
        return false;
    bool off = effort && parser_in_list(TURN_EFFORT_OFF, '|', effort, strlen(effort));
    if (off || (effort && parser_in_list(TURN_EFFORT_ON, '|', effort, strlen(effort))))
        turn_think(t, s, f, "reasoning_effort", !off);
    else if (effort)
        turn_ignore(t, "reasoning_effort");
    if (!read_flag(t, s, f, "enable_thinking") ||
        !fields_inside(f, "chat_template_kwargs", &template, &present) ||
        !read_flag(t, s, &template, "thinking") || !read_flag(t, s, &template, "enable_thinking"))
        return false;
    turn_unknown(t, &template);
    return true;
}

/* ---- options -------------------------------------------------------------------------------- */

static bool read_logprobs(struct request_params *p, struct fields *f)
{
    int64_t top = 0;
    if (!fields_bool(f, "logprobs", &p->logprobs) ||
        !fields_integer(f, "top_logprobs", 0, REQUEST_TOP_MAX, &top))
        return false;
    if (top && !p->logprobs)
        return fields_fault(f, "top_logprobs", "invalid_value", "needs logprobs: true");
    p->n_top = (unsigned)top;
    return true;
}

static bool read_options(struct chat_request *r, const struct server *s, struct exchange *x,
                         struct fields *f)
{
    struct request_params *p = &r->turn.params;
    int64_t n = 1;
    if (!request_params_read(p, s, x, f) || !request_params_length(p, f, "n_predict", 0) ||
        !request_params_length(p, f, "max_tokens", 1) ||
        !request_params_length(p, f, "max_completion_tokens", 1) ||
        !request_params_stop(p, f, "stop", REQUEST_STOPS_OPENAI) || !read_logprobs(p, f) ||
        !fields_integer(f, "n", 1, serve_number(s->options, SERVE_MAX_CHOICES), &n))
        return false;
    r->turn.n = (size_t)n;
    fields_ignore(f, "user metadata store service_tier prompt_cache_key prompt_cache_retention "
                     "safety_identifier");
    return true;
}

/* ---- answers that have begun ------------------------------------------------------------------ */

/* answer_tokens: ids of the answer so far, which follow the prompt. */
static bool read_said(struct chat_request *r, const struct server *s, struct fields *f)
{
    struct dialog_prompt *prompt = &r->turn.prompt;
    json_t *said = NULL;
    if (!fields_array(f, "answer_tokens", s->plan.n_ctx, &said) || !said)
        return !f->fault->status;
    size_t n = json_array_size(said);
    tern_token *tokens = realloc(prompt->tokens, (prompt->n + n + 1) * sizeof *tokens);
    if (!tokens)
        return fault_no_memory(f->fault, "the prompt");
    prompt->tokens = tokens;
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        if (!fields_whole(json_array_get(said, i), &id) || id < 0 || (uint64_t)id >= s->info.vocab)
            return fields_fault(f, "answer_tokens", "invalid_value",
                                "must hold token ids below %llu; item %zu is none",
                                (unsigned long long)s->info.vocab, i);
        tokens[prompt->n++] = (tern_token)id;
    }
    prompt->n_said += n;
    r->turn.rules.n_said += n, r->turn.rules.n_text += n;
    if (n && !r->turn.params.ignore_end && tern_token_is_end(s->model, tokens[prompt->n - 1])) {
        r->ended = true;
        r->turn.params.n_predict = 0;
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool open_request(struct chat_request *r, const struct server *s, struct exchange *x,
                         struct fields *f, struct fault *fault)
{
    *r = (struct chat_request){.turn = {.field = "messages", .prefill = true}};
    return ((r->turn.dialog = dialog_open()) || fault_no_memory(fault, "the request")) &&
           fields_open(f, exchange_json(x), "", fault) &&
           envelope_fields_read(&r->envelope, &r->turn, s, f) &&
           chat_messages_read(&r->turn, f, limit(s, SERVE_MAX_MESSAGES)) &&
           chat_tools_read(&r->turn, s, f, limit(s, SERVE_MAX_TOOLS), &r->functions) &&
           read_thinking(&r->turn, s, f);
}

bool chat_request_read(struct chat_request *r, struct server *s, struct exchange *x,
                       struct fault *fault)
{
    struct fields f;
    if (!open_request(r, s, x, &f, fault) || !read_options(r, s, x, &f) ||
        !format_fields_read(&r->turn, &f, limit(s, SERVE_MAX_GRAMMAR)))
        return false;
    if (!request_params_chat_stop(&r->turn.params, s->model))
        return fault_no_memory(fault, "the request");
    if (!turn_prepare(&r->turn, s, fault) || !read_said(r, s, &f))
        return false;
    turn_unknown(&r->turn, &f);
    return true;
}

bool chat_request_read_dialog(struct chat_request *r, struct server *s, struct exchange *x,
                              struct fault *fault)
{
    struct fields f;
    if (!open_request(r, s, x, &f, fault))
        return false;
    turn_unknown(&r->turn, &f);
    return true;
}
