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

/* ---- the old form ---------------------------------------------------------------------------- */

json_t *logprobs_old(void)
{
    return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs",
                     "text_offset");
}

/* Characters that begin in these bytes */
static size_t characters(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xC0) != 0x80;
    return count;
}

/* Of two tokens with one text the first counts. */
static void add_alternative(json_t *top, const tern_model *model, tern_decoder *d, tern_token token,
                            double logprob)
{
    json_t *name = logprobs_text(model, d, token);
    if (!json_object_get(top, json_string_value(name)))
        json_object_set_new(top, json_string_value(name), number(logprob));
    json_decref(name);
}

static void add_old(json_t *object, const tern_model *model, tern_decoder *d,
                    const struct answer_token *t, size_t offset)
{
    bool is_first = isnan(t->logprob); /* of a prompt: nothing precedes it */
    json_t *top = is_first ? json_null() : json_object();
    for (size_t k = 0; k < t->n_top; k++)
        add_alternative(top, model, d, t->top[k].token, t->top[k].logprob);
    if (!is_first && !t->forced)
        add_alternative(top, model, d, t->token, t->logprob);
    json_array_append_new(json_object_get(object, "text_offset"), json_integer((json_int_t)offset));
    json_array_append_new(json_object_get(object, "tokens"), logprobs_text(model, d, t->token));
    json_array_append_new(json_object_get(object, "token_logprobs"),
                          is_first ? json_null() : number(t->forced ? 0 : t->logprob));
    json_array_append_new(json_object_get(object, "top_logprobs"), top);
}

void logprobs_add_old(json_t *object, const struct server *s, const struct answer_token *tokens,
                      size_t n, tern_decoder *text, size_t *offset)
{
    tern_decoder *names = NULL;
    if (n == 0 || tern_decoder_open(&names, s->model, 1, NULL))
        return;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = 0;
        add_old(object, s->model, names, &tokens[i], *offset);
        const char *more = tern_decoder_push(text, tokens[i].token, &bytes);
        *offset += characters(more, bytes);
    }
    tern_decoder_close(names);
}

/* ---- of a prompt ----------------------------------------------------------------------------- */

void prompt_logprobs_add(struct prompt_logprobs *p, const struct answer_token *t)
{
    growing_text_add(&p->tokens, (const char *)t, sizeof *t);
    if (t->n_top)
        growing_text_add(&p->top, (const char *)t->top, t->n_top * sizeof *t->top);
}

bool prompt_logprobs_failed(const struct prompt_logprobs *p)
{
    return p->tokens.failed || p->top.failed;
}

void prompt_logprobs_put(const struct prompt_logprobs *p, json_t *object, const struct server *s,
                         size_t *offset)
{
    const struct answer_token *tokens = (const struct answer_token *)(const void *)p->tokens.p;
    const struct tern_choice *top = (const struct tern_choice *)(const void *)p->top.p;
    tern_decoder *text = NULL;
    bool ok = !tern_decoder_open(&text, s->model, 0, NULL);
    for (size_t i = 0; ok && i < p->tokens.n / sizeof *tokens; i++) {
        struct answer_token t = tokens[i];
        t.top = top, top += t.n_top;
        logprobs_add_old(object, s, &t, 1, text, offset);
    }
    if (ok) {
        size_t n = 0;
        const char *rest = tern_decoder_finish(text, &n);
        *offset += characters(rest, n);
    }
    tern_decoder_close(text);
}

void prompt_logprobs_close(struct prompt_logprobs *p)
{
    growing_text_close(&p->tokens);
    growing_text_close(&p->top);
}
