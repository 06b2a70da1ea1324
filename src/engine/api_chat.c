/* Chat templates of tern.h: the file's own and the built-in ones, behind the handle. */
#include "engine/api_chat.h"

#include <string.h>

#include "base/fpenv.h"

/* The token that ends an answer ends a text, too. */
static void add_end(struct tern_model *m, tern_token end)
{
    if (end >= 0 && !tern_token_is_end(m, end) && m->n_end_tokens < MAX_END_TOKENS)
        m->end_tokens[m->n_end_tokens++] = end;
    if (m->spelling->spelling) /* for the next constraints */
        m->spelling->spelling->n_ends = m->n_end_tokens;
}

static enum tern_status no_template(struct tern_error *e)
{
    return error_set(e, TERN_USAGE, "the model file has no chat template: choose a built-in one");
}

enum tern_status api_chat_open(struct tern_model *m, const char *name, struct tern_error *e)
{
    struct chat *c = NULL;
    size_t n;
    const void *body = weights_section(m->model->weights, "chat", &n);
    enum tern_status s = TERN_OK;
    if (name && m->tokenizer)
        s = chat_open_builtin(&c, m->tokenizer, name, e);
    else if (body && m->tokenizer)
        s = chat_open(&c, m->tokenizer, body, n, e);
    if (s)
        return s;
    chat_close(m->chat);
    if ((m->chat = c))
        for (size_t i = 0; chat_end(c, i) >= 0; i++)
            add_end(m, chat_end(c, i));
    return TERN_OK;
}

enum tern_status tern_chat_use(tern_model *m, const char *name, struct tern_error *e)
{
    if (!m->tokenizer)
        return error_set(e, TERN_USAGE, "the model file has no tokenizer, so it cannot chat");
    enum tern_status s = api_chat_open(m, name, e);
    return s || m->chat ? s : no_template(e);
}

const char *tern_chat_builtin(size_t i)
{
    size_t n = 0;
    while (n < i && chat_builtin(n))
        n++;
    return chat_builtin(n);
}

int tern_chat_info(const tern_model *m, struct tern_chat_info *info)
{
    *info = m->chat ? *chat_info(m->chat) : (struct tern_chat_info){.name = "", .end = -1};
    return m->chat != NULL;
}

enum tern_status tern_chat_tokens(const tern_model *m, const struct tern_chat_message *messages,
                                  size_t n_messages, unsigned flags, tern_token *tokens, size_t max,
                                  size_t *n, struct tern_error *e)
{
    struct chat_text text = {0};
    struct fpenv saved = fpenv_enter();
    *n = 0;
    enum tern_status s =
        m->chat ? chat_render(m->chat, messages, n_messages, flags, &text, e) : no_template(e);
    if (!s)
        s = chat_encode(m->chat, &text, tokens, max, n, e);
    chat_text_close(&text);
    fpenv_leave(saved);
    return s;
}

enum tern_status tern_chat_text(const tern_model *m, const struct tern_chat_message *messages,
                                size_t n_messages, unsigned flags, char *text, size_t max,
                                size_t *n, struct tern_error *e)
{
    struct chat_text out = {0};
    *n = 0;
    enum tern_status s =
        m->chat ? chat_render(m->chat, messages, n_messages, flags, &out, e) : no_template(e);
    if (!s && (*n = out.text.n))
        memcpy(text, out.text.p, *n < max ? *n : max);
    chat_text_close(&out);
    return s;
}

size_t tern_chat_opening(const tern_model *m, unsigned flags, char *text, size_t max)
{
    static const struct tern_chat_message talk = {.role = "user", .text = "x", .bytes = 1};
    struct chat_text out = {0};
    size_t n = 0;
    if (m->chat && !chat_render(m->chat, &talk, 1, flags | TERN_CHAT_GENERATE, &out, NULL)) {
        const char *end = out.text.p + out.text.n;
        const char *p = chat_opening(m->chat, out.text.p, out.text.n);
        n = p ? (size_t)(end - p) : 0;
        if (n && max)
            memcpy(text, p, n < max ? n : max);
    }
    chat_text_close(&out);
    return n;
}
