/* The parser of answers of tern.h, behind the handles. */
#include <stdlib.h>
#include <string.h>

#include "engine/api_chat.h"
#include "engine/context.h"
#include "text/answer_parser.h"
#include "text/decoder.h"

struct tern_answer {
    const struct tern_model *model;
    struct decoder *decoder;      /* NULL: the model has no tokenizer */
    struct answer_parser *parser; /* of tokens, or of text: made by the first push */
    struct answer_params params;
    char *memory; /* of params: tools and opening */
};

/* The tools and the opening outlive the caller's. */
static enum tern_status keep_params(tern_answer *a, const struct tern_answer_params *p,
                                    struct tern_error *e)
{
    size_t n_tools = p->tools ? p->tools_bytes : 0;
    size_t n = tern_chat_opening(a->model, p->flags, NULL, 0);
    a->memory = malloc(n_tools + n + 1);
    if (!a->memory)
        return error_memory(e, "a parser of answers", n_tools + n);
    if (n_tools)
        memcpy(a->memory, p->tools, n_tools);
    tern_chat_opening(a->model, p->flags, a->memory + n_tools, n);
    a->params = (struct answer_params){.tools = {a->memory, n_tools},
                                       .opening = {a->memory + n_tools, n},
                                       .first_call = p->first_call,
                                       .form = p->form};
    return TERN_OK;
}

static enum tern_status open_parser(tern_answer *a, bool marked, struct tern_error *e)
{
    if (a->parser)
        return a->params.marked == marked
                   ? TERN_OK
                   : error_set(e, TERN_USAGE, "no token may follow the text of an answer");
    a->params.marked = marked;
    return answer_parser_open(&a->parser, a->model->chat, &a->params, e);
}

enum tern_status tern_answer_open(tern_answer **out, const tern_model *model,
                                  const struct tern_answer_params *params, struct tern_error *e)
{
    static const struct tern_answer_params nothing;
    struct tern_answer *a = calloc(1, sizeof *a);
    size_t n;
    *out = NULL;
    if (!a)
        return error_memory(e, "a parser of answers", sizeof *a);
    params = params ? params : &nothing;
    a->model = model;
    enum tern_status s = keep_params(a, params, e);
    if (!s && model->tokenizer)
        s = decoder_open(&a->decoder, model->tokenizer, false, e);
    if (s) {
        tern_answer_close(a);
        return s;
    }
    for (size_t i = 0; a->decoder && i < params->n_prompt; i++)
        decoder_push(a->decoder, params->prompt[i], &n);
    *out = a;
    return TERN_OK;
}

void tern_answer_close(tern_answer *a)
{
    if (!a)
        return;
    answer_parser_close(a->parser);
    decoder_close(a->decoder);
    free(a->memory);
    free(a);
}

enum tern_status tern_answer_push(tern_answer *a, tern_token token, struct tern_error *e)
{
    size_t n;
    if (!a->decoder)
        return error_set(e, TERN_USAGE, "the model file has no tokenizer: push text");
    enum tern_status s = open_parser(a, true, e);
    if (s)
        return s;
    bool special = tern_token_is_special(a->model, token) || tern_token_is_end(a->model, token);
    const char *text = decoder_push(a->decoder, token, &n);
    if (!special)
        return answer_parser_push(a->parser, text, n, e);
    text = tokenizer_text(a->model->tokenizer, token, &n);
    return answer_parser_special(a->parser, text, n, e);
}

enum tern_status tern_answer_push_text(tern_answer *a, const char *text, size_t n,
                                       struct tern_error *e)
{
    size_t pending;
    enum tern_status s = a->parser ? TERN_OK : open_parser(a, false, e);
    if (a->params.marked)
        (void)decoder_finish(a->decoder, &pending); /* the text has what the last token began */
    return s ? s : answer_parser_push(a->parser, text, n, e);
}

static enum tern_status finish(tern_answer *a, bool cut, struct tern_error *e)
{
    size_t n;
    if (!a->parser)
        return TERN_OK;
    const char *rest = a->params.marked ? decoder_finish(a->decoder, &n) : NULL;
    return answer_parser_finish(a->parser, rest, rest ? n : 0, cut, e);
}

enum tern_status tern_answer_finish(tern_answer *a, struct tern_error *e)
{
    return finish(a, false, e);
}

enum tern_status tern_answer_cut(tern_answer *a, struct tern_error *e)
{
    return finish(a, true, e);
}

enum tern_answer_kind tern_answer_next(tern_answer *a, struct tern_answer_event *event)
{
    if (a->parser)
        return answer_parser_next(a->parser, event);
    *event = (struct tern_answer_event){.kind = TERN_ANSWER_NONE, .text = ""};
    return TERN_ANSWER_NONE;
}

void tern_answer_message(const tern_answer *a, struct tern_chat_message *m)
{
    if (a->parser)
        answer_parser_message(a->parser, m);
    else
        *m = (struct tern_chat_message){.role = "assistant", .text = ""};
}
