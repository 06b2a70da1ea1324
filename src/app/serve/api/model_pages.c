/* GET /v1/models, /v1/models/ID, /props and /openapi.json: what is served. */
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "app/serve/api/dialog_parts.h"
#include "app/serve/http/exchange.h"
#include "app/serve/handlers.h"
#include "app/serve/api/request_params.h"
#include "tern_lab.h"

static json_t *text(const char *p)
{
    return dialog_json_text(p, strlen(p));
}

/* As both APIs describe a model: OpenAI's fields, then Anthropic's. */
static json_t *model_object(const struct server *s, const char *id)
{
    char created[32];
    time_t started = (time_t)s->started;
    struct tm utc;
    (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&started, &utc));
    const struct tern_model_info *m = &s->info;
    json_t *meta =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "n_ctx", (json_int_t)s->plan.n_ctx,
                  "n_ctx_train", (json_int_t)m->max_seq, "n_vocab", (json_int_t)m->vocab, "n_embd",
                  (json_int_t)m->dim, "n_params", (json_int_t)m->n_params, "type", m->type_name);
    json_object_set_new(meta, "size", json_integer((json_int_t)m->file_bytes));
    json_t *model = json_pack("{s:o, s:s, s:I, s:s, s:I, s:o}", "id", text(id), "object", "model",
                              "created", (json_int_t)s->started, "owned_by", "tern",
                              "max_model_len", (json_int_t)s->plan.n_ctx, "meta", meta);
    json_t *more =
        json_pack("{s:s, s:o, s:s, s:I, s:I, s:s, s:n}", "type", "model", "display_name", text(id),
                  "created_at", created, "max_input_tokens", (json_int_t)s->plan.n_ctx,
                  "max_tokens", (json_int_t)s->plan.n_ctx, "lifecycle", "active", "capabilities");
    json_object_update(model, more);
    json_decref(more);
    return model;
}

void handle_models(struct server *s, struct exchange *x)
{
    exchange_reply_json(x, 200,
                        json_pack("{s:s, s:[o], s:b, s:o, s:o}", "object", "list", "data",
                                  model_object(s, s->model_name), "has_more", 0, "first_id",
                                  text(s->model_name), "last_id", text(s->model_name)));
}

/* Any name is served, as in requests. */
void handle_model(struct server *s, struct exchange *x)
{
    const char *id = exchange_rest(x);
    struct fault f = {0};
    if (*id) {
        exchange_reply_json(x, 200, model_object(s, id));
        return;
    }
    fault_set(&f, 404, NULL, "model_not_found", "model", "no model is named");
    exchange_fault(x, &f);
}

/* ---- /props ---------------------------------------------------------------------------------- */

static json_t *sampler(const struct server *s)
{
    struct tern_sampler_params p = request_params_defaults(s->model);
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "temperature",
                     request_params_real(p.temperature), "top_k", (json_int_t)p.top_k, "top_p",
                     request_params_real(p.top_p), "min_p", request_params_real(p.min_p),
                     "repeat_penalty", request_params_real(p.repeat_penalty), "presence_penalty",
                     request_params_real(p.presence_penalty), "frequency_penalty",
                     request_params_real(p.frequency_penalty));
}

/* Heads of each layer; 0 where it has no attention */
static json_t *heads(const struct server *s)
{
    json_t *out = json_array();
    for (uint64_t l = 0; l < s->info.n_layers; l++) {
        struct tern_layer_info layer;
        tern_model_layer(s->model, l, &layer);
        json_array_append_new(out, json_integer((json_int_t)layer.n_heads));
    }
    return out;
}

static json_t *token_text(const struct server *s, tern_token token)
{
    size_t n = 0;
    const char *p = token >= 0 ? tern_token_text(s->model, token, &n) : "";
    return dialog_json_text(p, n);
}

void handle_props(struct server *s, struct exchange *x)
{
    struct tern_chat_info chat;
    bool has = tern_chat_info(s->model, &chat);
    json_t *defaults =
        json_pack("{s:I, s:o}", "n_ctx", (json_int_t)s->plan.n_ctx, "params", sampler(s));
    json_t *out = json_pack("{s:o, s:I, s:I, s:I, s:I, s:o}", "default_generation_settings",
                            defaults, "total_slots", (json_int_t)s->plan.n_seqs, "n_ctx",
                            (json_int_t)s->plan.n_ctx, "n_vocab", (json_int_t)s->info.vocab,
                            "n_embd", (json_int_t)s->info.dim, "model_alias", text(s->model_name));
    json_object_set_new(out, "bos_token", token_text(s, s->info.bos));
    json_object_set_new(out, "eos_token", token_text(s, has ? chat.end : -1));
    json_object_set_new(out, "chat_template", text(chat.name));
    json_object_set_new(out, "thinking", json_integer(chat.thinking));
    json_object_set_new(out, "takes_tools", json_integer(chat.takes_tools));
    json_object_set_new(out, "takes_system", json_boolean(chat.takes_system));
    json_object_set_new(out, "attention_heads", heads(s));
    json_object_set_new(out, "cpu", text(s->info.cpu));
    json_object_set_new(out, "n_threads", json_integer(s->info.n_threads));
    json_object_set_new(out, "build_info", text(tern_build_info()));
    json_object_set_new(out, "version", text(tern_version()));
    json_object_set_new(out, "model_name", text(s->info.name));
    json_object_set_new(out, "licence", text(s->info.licence));
    exchange_reply_json(x, 200, out);
}

/* ---- /openapi.json ---------------------------------------------------------------------------- */

extern const char page_openapi_json[]; /* of src/app/serve/page */

void handle_openapi(struct server *s, struct exchange *x)
{
    (void)s;
    exchange_reply(x, 200, "application/json", page_openapi_json, strlen(page_openapi_json));
}
