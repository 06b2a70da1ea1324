/* Log probabilities: see logprobs.h. */
#include "app/serve/api/logprobs.h"

#include <math.h>

#include "app/cli/utf8.h"
#include "app/serve/api/dialog_parts.h"

/* JSON knows no infinity. OpenAI has -9999 for what is hardly possible. */
static json_t *number(double logprob)
{
    return json_real(logprob > -9999 ? logprob : -9999.0);
}

static const char *text_of(const tern_model *model, tern_decoder *d, tern_token token, size_t *n)
{
    return tern_token_is_special(model, token) ? tern_token_text(model, token, n)
                                               : tern_decoder_bytes(d, token, n);
}

json_t *logprobs_text(const tern_model *model, tern_decoder *d, tern_token token)
{
    size_t n = 0;
    const char *text = text_of(model, d, token, &n);
    return dialog_json_text(text, n);
}

/* {"token", "id", "bytes", "logprob"} */
static json_t *entry(const tern_model *model, tern_decoder *d, tern_token token, double logprob)
{
    size_t n = 0;
    const char *text = text_of(model, d, token, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n && !tern_token_is_special(model, token); i++)
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return json_pack("{s:o, s:i, s:o, s:o}", "token", dialog_json_text(text, n), "id", (int)token,
                     "bytes", bytes, "logprob", number(logprob));
}

void logprobs_add(json_t *array, const struct server *s, const struct answer_token *tokens,
                  size_t n)
{
    tern_decoder *d = NULL;
    if (n == 0 || tern_decoder_open(&d, s->model, 1, NULL))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct answer_token *t = &tokens[i];
        json_t *top = json_array(), *e = entry(s->model, d, t->token, t->forced ? 0 : t->logprob);
        for (size_t k = 0; k < t->n_top; k++)
            json_array_append_new(top, entry(s->model, d, t->top[k].token, t->top[k].logprob));
        json_object_set_new(e, "top_logprobs", top);
        if (t->forced)
            json_object_set_new(e, "forced", json_true());
        json_array_append_new(array, e);
    }
    tern_decoder_close(d);
}

static size_t characters(const json_t *text)
{
    const char *p = json_string_value(text);
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(text); i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

void logprobs_add_old(json_t *object, const struct server *s, const struct answer_token *tokens,
                      size_t n, size_t *offset)
{
    tern_decoder *d = NULL;
    if (n == 0 || tern_decoder_open(&d, s->model, 1, NULL))
        return;
    for (size_t i = 0; i < n; i++) {
        const struct answer_token *t = &tokens[i];
        json_t *top = json_object(), *text = logprobs_text(s->model, d, t->token);
        for (size_t k = 0; k < t->n_top; k++) {
            json_t *name = logprobs_text(s->model, d, t->top[k].token);
            if (!json_object_get(top, json_string_value(name)))
                json_object_set_new(top, json_string_value(name), number(t->top[k].logprob));
            json_decref(name);
        }
        json_array_append_new(json_object_get(object, "text_offset"),
                              json_integer((json_int_t)*offset));
        *offset += characters(text);
        json_array_append_new(json_object_get(object, "tokens"), text);
        json_array_append_new(json_object_get(object, "token_logprobs"),
                              number(t->forced ? 0 : t->logprob));
        json_array_append_new(json_object_get(object, "top_logprobs"), top);
    }
    tern_decoder_close(d);
}
