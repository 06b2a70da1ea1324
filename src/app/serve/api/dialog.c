/* Conversations: see dialog.h. What a client said is kept as it came, and composed anew for each form that is
 * tried. */
#include "app/serve/api/dialog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/growing_text.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/array_room.h"
#include "app/serve/http/json_wide.h"

struct dialog *dialog_open(void)
{
    return calloc(1, sizeof(struct dialog));
}

static void close_speech(struct speech *t)
{
    growing_text_close(&t->text);
    growing_text_close(&t->thought);
    for (size_t i = 0; i < t->n_calls; i++) {
        free(t->calls[i].id);
        free(t->calls[i].name);
        free(t->calls[i].arguments);
    }
    free(t->calls);
    free(t->id);
    free(t->name);
}

void dialog_close(struct dialog *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++)
        close_speech(&d->said[i]);
    free(d->said);
    growing_text_close(&d->system);
    free(d->tools);
    free(d);
}

size_t dialog_bytes(const struct dialog *d)
{
    size_t n = d->system.n + (d->tools ? strlen(d->tools) : 0);
    for (size_t i = 0; i < d->n; i++) {
        const struct speech *t = &d->said[i];
        n += t->text.n + t->thought.n;
        for (size_t k = 0; k < t->n_calls; k++)
            n += t->calls[k].arguments ? strlen(t->calls[k].arguments) : 0;
    }
    return n;
}

/* ---- adding -------------------------------------------------------------------------------- */

void dialog_join(struct growing_text *to, const char *text, size_t n)
{
    if (to->n && n)
        growing_text_add(to, "\n\n", 2);
    growing_text_add(to, text, n);
}

static struct speech *add(struct dialog *d, enum speech_role role, const char *text, size_t n)
{
    if (!array_room(&d->said, &d->room, d->n, sizeof *d->said)) {
        d->failed = true;
        return NULL;
    }
    struct speech *t = &d->said[d->n++];
    *t = (struct speech){.role = role};
    growing_text_add(&t->text, text, n);
    d->failed |= t->text.failed;
    return t;
}

/* NULL stays NULL, and so does an empty text. */
static char *copy(struct dialog *d, const char *text)
{
    char *p = text && *text ? strdup(text) : NULL;
    d->failed |= text && *text && !p;
    return p;
}

void dialog_user(struct dialog *d, const char *text, size_t n)
{
    (void)add(d, SPEECH_USER, text, n);
}

void dialog_system(struct dialog *d, const char *text, size_t n)
{
    if (d->n) {
        dialog_user(d, text, n);
        return;
    }
    d->has_system = true;
    dialog_join(&d->system, text, n);
    d->failed |= d->system.failed;
}

void dialog_assistant(struct dialog *d, const char *text, size_t n, const char *thought,
                      size_t n_thought)
{
    struct speech *t = add(d, SPEECH_ASSISTANT, text, n);
    if (t && thought)
        growing_text_add(&t->thought, thought, n_thought);
    d->failed |= t && t->thought.failed;
}

/* A name as the core takes them: 1 to 64 letters, digits and _ . -; any other character becomes _. */
static char *make_name(struct dialog *d, const char *text)
{
    char *name = copy(d, text ? text : "unknown");
    if (name && strlen(name) > 64)
        name[64] = 0;
    for (char *p = name; p && *p; p++)
        if (!dialog_is_word(*p) || *p == ':')
            *p = '_';
    return name ? name : copy(d, "unknown");
}

/* Arguments that are a JSON object, as they came; NULL for {}. */
static char *make_arguments(struct dialog *d, const char *text, size_t n)
{
    size_t blank = 0;
    while (blank < n && strchr(" \t\r\n", text[blank]))
        blank++;
    if (blank == n)
        return NULL;
    json_t *v = json_wide_object(text, n);
    char *out = NULL;
    if (v) {
        if ((out = malloc(n + 1)))
            memcpy(out, text, n), out[n] = 0;
    } else {
        json_t *whole = json_pack("{s:o}", "arguments", dialog_json_text(text, n));
        out = json_plain(whole);
        json_decref(whole);
    }
    json_decref(v);
    d->failed |= !out;
    return out;
}

void dialog_call(struct dialog *d, const char *id, const char *name, const char *arguments,
                 size_t n)
{
    struct speech *t = d->n ? &d->said[d->n - 1] : NULL;
    if (!t || t->role != SPEECH_ASSISTANT)
        t = add(d, SPEECH_ASSISTANT, "", 0);
    if (!t || !array_room(&t->calls, &t->calls_room, t->n_calls, sizeof *t->calls)) {
        d->failed = true;
        return;
    }
    t->calls[t->n_calls++] = (struct speech_call){.id = copy(d, id),
                                                  .name = make_name(d, name),
                                                  .arguments = make_arguments(d, arguments, n),
                                                  .number = d->n_calls++};
}

void dialog_result(struct dialog *d, const char *id, const char *name, const char *text, size_t n)
{
    struct speech *t = add(d, SPEECH_RESULT, text, n);
    if (t)
        t->id = copy(d, id), t->name = copy(d, name);
}

void dialog_tools(struct dialog *d, const json_t *tools)
{
    free(d->tools);
    d->tools = json_array_size(tools) ? json_plain(tools) : NULL;
    d->failed |= json_array_size(tools) && !d->tools;
}

/* ---- asking -------------------------------------------------------------------------------- */

const char *dialog_tools_text(const struct dialog *d, const tern_model *model, size_t *n)
{
    struct tern_chat_info info;
    tern_chat_info(model, &info);
    bool takes = d->tools && info.takes_tools;
    *n = takes ? strlen(d->tools) : 0;
    return takes ? d->tools : NULL;
}

bool dialog_info(const tern_model *model, struct tern_chat_info *info)
{
    struct tern_answer_event x = {0};
    tern_answer *a = NULL;
    bool has = tern_chat_info(model, info), thinks = false;
    if (has && !tern_answer_open(&a, model, NULL, NULL) &&
        !tern_answer_push_text(a, info->thought_begin, info->thought_begin_bytes, NULL) &&
        !tern_answer_push_text(a, "x", 1, NULL))
        thinks = tern_answer_next(a, &x) == TERN_ANSWER_THOUGHT;
    tern_answer_close(a);
    if (!thinks)
        info->thought_begin_bytes = info->thought_end_bytes = 0;
    return has;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Writes a composed conversation with one of the functions of tern.h, which counts first. */
struct writing {
    const tern_model *model;
    unsigned flags;
    tern_token *tokens; /* [n] malloced; or */
    char *text;         /* [n] malloced */
    size_t n;
};

static enum tern_status write_tokens(struct writing *w, const struct composed *c,
                                     struct tern_error *e)
{
    enum tern_status s;
    size_t room = 0, n = c->bytes / 2 + 256; /* a guess that is seldom too small */
    do {
        tern_token *more = realloc(w->tokens, n * sizeof *more);
        if (!more)
            return TERN_NO_MEMORY;
        w->tokens = more, room = n;
        s = tern_chat_tokens(w->model, c->list, c->n, w->flags, w->tokens, room, &n, e);
    } while (!s && n > room);
    w->n = n;
    return s;
}

static enum tern_status write_text(struct writing *w, const struct composed *c,
                                   struct tern_error *e)
{
    enum tern_status s;
    size_t room = 0, n = c->bytes + 1024;
    do {
        char *more = realloc(w->text, n + 1);
        if (!more)
            return TERN_NO_MEMORY;
        w->text = more, room = n;
        s = tern_chat_text(w->model, c->list, c->n, w->flags, w->text, room, &n, e);
    } while (!s && n > room);
    w->n = n;
    return s;
}

/* Forms of a conversation, the first that the template can write is taken. */
static bool write_any(struct dialog *d, struct writing *w, bool as_text, bool prefill,
                      struct fault *f)
{
    static const unsigned forms[] = {0,
                                     COMPOSE_NUMBERS,
                                     COMPOSE_PLAIN,
                                     COMPOSE_NO_SYSTEM,
                                     COMPOSE_NO_SYSTEM | COMPOSE_NUMBERS,
                                     COMPOSE_NO_SYSTEM | COMPOSE_PLAIN};
    struct tern_chat_info info;
    struct tern_error e = {0}, why = {0};
    enum tern_status s = TERN_USAGE;
    if (!dialog_info(w->model, &info)) {
        fault_set(f, 400, "invalid_request_error", "no_chat_template", "messages",
                  "the model file has no chat template: start serve with --chat-template NAME");
        return false;
    }
    unsigned always = (info.takes_system ? 0u : COMPOSE_NO_SYSTEM) |
                      (info.takes_tools ? 0u : COMPOSE_PLAIN) | (prefill ? COMPOSE_PREFILL : 0u);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && s == TERN_USAGE; i++) {
        struct composed c = {0};
        if (!compose(d, &info, forms[i] | always, &c))
            s = TERN_NO_MEMORY;
        else
            s = as_text ? write_text(w, &c, &e) : write_tokens(w, &c, &e);
        if (i == 0)
            why = e;
        compose_close(&c);
    }
    if (s == TERN_NO_MEMORY)
        return fault_no_memory(f, "the conversation");
    if (s == TERN_CANCELLED)
        return fault_given_up(f);
    if (s)
        fault_set(f, 400, "invalid_request_error", "invalid_value", "messages", "%s", why.text);
    return !s;
}

bool dialog_tokens(struct dialog *d, const tern_model *model, unsigned chat_flags, bool prefill,
                   struct dialog_prompt *out, struct fault *f)
{
    struct prefill said = {.flags = chat_flags};
    *out = (struct dialog_prompt){0};
    if (d->failed || !prefill_open(&said, d, model, prefill))
        return fault_no_memory(f, "the conversation");
    struct writing w = {.model = model, .flags = said.flags | TERN_CHAT_GENERATE};
    bool ok = write_any(d, &w, false, said.is_there, f);
    tern_token *whole = ok ? realloc(w.tokens, (w.n + said.n + 1) * sizeof *whole) : NULL;
    if (ok && !whole)
        ok = fault_no_memory(f, "the conversation");
    if (ok) {
        if (said.n)
            memcpy(whole + w.n, said.tokens, said.n * sizeof *whole);
        *out = (struct dialog_prompt){.tokens = whole,
                                      .n = w.n + said.n,
                                      .n_said = said.n,
                                      .chat_flags = said.flags,
                                      .n_text = said.n_text,
                                      .in_thought = said.in_thought};
    } else
        free(w.tokens);
    free(said.tokens);
    return ok;
}

bool dialog_open_thought(struct dialog_prompt *p, const tern_model *model, bool *opened,
                         struct fault *f)
{
    struct tern_chat_info info;
    struct prefill mark = {0};
    char none[1];
    bool has = dialog_info(model, &info) && info.thought_begin_bytes;
    bool thinks = p->chat_flags & TERN_CHAT_THINK ||
                  (info.thinking == 1 && !(p->chat_flags & TERN_CHAT_NO_THINK));
    *opened = has && thinks && !p->n_said && !tern_chat_opening(model, p->chat_flags, none, 0);
    if (!*opened)
        return true;
    bool ok =
        prefill_add_mark(&mark, model, "", info.thought_begin, info.thought_begin_bytes, "\n");
    tern_token *more = ok ? realloc(p->tokens, (p->n + mark.n) * sizeof *more) : NULL;
    if (more) {
        memcpy(more + p->n, mark.tokens, mark.n * sizeof *more);
        p->tokens = more, p->n += mark.n, p->n_said = mark.n;
    }
    free(mark.tokens);
    return more || fault_no_memory(f, "the conversation");
}

/* Appends what was said of the answer, as it is. */
static bool add_said(struct writing *w, const struct prefill *said)
{
    struct growing_text text = {.p = w->text, .n = w->n};
    tern_decoder *d = NULL;
    size_t n;
    if (tern_decoder_open(&d, w->model, 1, NULL))
        return false;
    text.room = w->n;
    for (size_t i = 0; i < said->n; i++) {
        const char *more = tern_decoder_push(d, said->tokens[i], &n);
        growing_text_add(&text, more, n);
    }
    tern_decoder_close(d);
    w->text = text.p, w->n = text.n;
    return !text.failed;
}

bool dialog_text(struct dialog *d, const tern_model *model, unsigned chat_flags, bool generate,
                 char **text, size_t *n, struct fault *f)
{
    struct prefill said = {.flags = chat_flags};
    *text = NULL;
    if (d->failed || !prefill_open(&said, d, model, generate))
        return fault_no_memory(f, "the conversation");
    struct writing w = {.model = model, .flags = said.flags | (generate ? TERN_CHAT_GENERATE : 0u)};
    bool ok = write_any(d, &w, true, said.is_there, f);
    if (ok && said.n && !add_said(&w, &said))
        ok = fault_no_memory(f, "the conversation");
    free(said.tokens);
    if (ok)
        *text = w.text, *n = w.n;
    else
        free(w.text);
    return ok;
}
