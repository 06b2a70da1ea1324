/* POST /tokenize, /detokenize and /apply-template, as llama.cpp's server has them. */
#include <stdlib.h>
#include <string.h>

#include "app/cli/growing_text.h"
#include "app/cli/utf8.h"
#include "app/serve/api/chat_request.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/handlers.h"
#include "app/serve/api/token_pages.h"
#include "app/serve/serve_options.h"

enum { PIECES = 16 }; /* times the memory that ids take */

static void answer(struct exchange *x, const struct fault *f, json_t *body, const char *ignored)
{
    if (f->status) {
        json_decref(body);
        exchange_fault(x, f);
        return;
    }
    answers_ignored(x, ignored);
    exchange_reply_json(x, 200, body);
}

/* NULL: no memory. To go on without any takes minutes. */
static json_t *ids(const struct prompt *p)
{
    json_t *out = json_array();
    bool ok = out != NULL;
    for (size_t i = 0; i < p->n && ok; i++)
        ok = !json_array_append_new(out, json_integer(p->tokens[i]));
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}

/* ---- /tokenize ------------------------------------------------------------------------------- */

/* A piece is its text, or an array of bytes where it is no UTF-8. */
static json_t *piece(tern_decoder *d, const tern_model *model, tern_token token)
{
    size_t n = 0;
    const char *text = tern_token_is_special(model, token) ? tern_token_text(model, token, &n)
                                                           : tern_decoder_bytes(d, token, &n);
    if (utf8_is_valid(text, n))
        return dialog_json_text(text, n);
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, json_integer((unsigned char)text[i]));
    return out;
}

json_t *token_pages_pieces(const struct server *s, const struct prompt *p)
{
    json_t *out = json_array();
    tern_decoder *d = NULL;
    bool ok = out && !tern_decoder_open(&d, s->model, 1, NULL);
    for (size_t i = 0; i < p->n && ok; i++)
        ok = !json_array_append_new(out, json_pack("{s:i, s:o}", "id", (int)p->tokens[i], "piece",
                                                   piece(d, s->model, p->tokens[i])));
    tern_decoder_close(d);
    if (ok)
        return out;
    json_decref(out);
    return NULL;
}

void handle_tokenize(struct server *s, struct exchange *x)
{
    struct fields f;
    struct fault fault = {0};
    struct prompt p = {0};
    char ignored[FIELDS_TEXT_MAX] = "";
    const char *text = NULL;
    size_t n = 0;
    bool special = false, parse = true, with = false;
    json_t *body = NULL;
    bool ok = fields_open(&f, exchange_json(x), "", &fault) &&
              fields_text(&f, "prompt", &text, &n) && fields_text(&f, "content", &text, &n) &&
              fields_bool(&f, "add_special", &special) &&
              fields_bool(&f, "parse_special", &parse) && fields_bool(&f, "with_pieces", &with) &&
              (text || fields_need(&f, "content"));
    size_t most = (size_t)serve_number(s->options, SERVE_MAX_TEXT) / (with ? PIECES : 1);
    if (ok && n > most)
        ok = fields_fault(&f, fields_has(&f, "content") ? "content" : "prompt", "limit_exceeded",
                          "has %zu bytes; at most %zu are allowed%s", n, most,
                          with ? " with pieces" : "");
    if (ok && prompts_encode(&p, s, text, n,
                             (special ? TERN_ADD_SPECIAL : 0u) | (parse ? TERN_PARSE_SPECIAL : 0u),
                             &fault)) {
        body = json_pack("{s:o, s:I, s:I}", "tokens", with ? token_pages_pieces(s, &p) : ids(&p), "count",
                         (json_int_t)p.n, "max_model_len", (json_int_t)s->plan.n_ctx);
        fields_ignore(&f, "model");
        fields_unknown(&f, ignored);
    }
    free(p.tokens);
    answer(x, &fault, body, ignored);
}

/* ---- /detokenize ----------------------------------------------------------------------------- */

static json_t *text_of(const struct server *s, const struct prompt *p, struct fault *f)
{
    size_t most = (size_t)serve_number(s->options, SERVE_MAX_TEXT);
    struct growing_text text = {0};
    tern_decoder *d = NULL;
    size_t n;
    if (tern_decoder_open(&d, s->model, 1, NULL)) {
        fault_no_memory(f, "the request");
        return NULL;
    }
    for (size_t i = 0; i < p->n && text.n <= most; i++) {
        const char *more = tern_decoder_push(d, p->tokens[i], &n);
        growing_text_add(&text, more, n);
    }
    const char *rest = tern_decoder_finish(d, &n);
    growing_text_add(&text, rest, n);
    tern_decoder_close(d);
    json_t *out = text.failed || text.n > most ? NULL : dialog_json_grown(&text);
    if (text.n > most)
        fault_set(f, 400, NULL, "limit_exceeded", "tokens",
                  "the text of the tokens has more than the %zu bytes that are allowed", most);
    else if (!out)
        fault_no_memory(f, "the request");
    growing_text_close(&text);
    return out;
}

void handle_detokenize(struct server *s, struct exchange *x)
{
    struct fields f;
    struct fault fault = {0};
    struct prompt p = {0};
    char ignored[FIELDS_TEXT_MAX] = "";
    json_t *tokens = NULL, *body = NULL;
    if (fields_open(&f, exchange_json(x), "", &fault) && fields_need(&f, "tokens") &&
        fields_array(&f, "tokens", SIZE_MAX, &tokens) &&
        prompts_read_ids(&p, s, &f, "tokens", tokens, SIZE_MAX)) {
        json_t *text = text_of(s, &p, &fault);
        body = text ? json_pack("{s:o}", "content", text) : NULL;
        if (body) /* as vLLM calls it */
            json_object_set(body, "prompt", text);
        fields_ignore(&f, "model");
        fields_unknown(&f, ignored);
    }
    free(p.tokens);
    answer(x, &fault, body, ignored);
}

/* ---- /apply-template ------------------------------------------------------------------------- */

void handle_apply_template(struct server *s, struct exchange *x)
{
    struct chat_request r;
    struct fault f = {0};
    json_t *body = NULL;
    char *text = NULL;
    size_t n = 0;
    if (chat_request_read_dialog(&r, s, x, &f) && turn_check_text(&r.turn, s, &f) &&
        dialog_text(r.turn.dialog, s->model, r.turn.chat_flags, true, &text, &n, &f) &&
        turn_prepare(&r.turn, s, &f)) {
        struct prompt p = {r.turn.prompt.tokens, r.turn.prompt.n};
        body = json_pack("{s:o, s:o}", "prompt", dialog_json_text(text, n), "tokens", ids(&p));
    }
    answer(x, &f, body, r.turn.ignored); /* NULL: no memory */
    free(text);
    turn_close(&r.turn);
}
