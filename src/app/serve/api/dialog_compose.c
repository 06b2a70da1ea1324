/* From what was said to messages that a chat template can write: see dialog.h and dialog_parts.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/utf8.h"
#include "app/serve/api/dialog_parts.h"
#include "app/serve/array_room.h"

bool dialog_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.:-", c));
}

json_t *dialog_json_text(const char *text, size_t n)
{
    struct growing_text whole = {0};
    for (size_t i = 0, k; i < n; i += k ? k : 1)
        if ((k = utf8_character(text + i, n - i)))
            growing_text_add(&whole, text + i, k);
        else
            growing_text_add(&whole, "\xEF\xBF\xBD", 3);
    json_t *out = whole.failed ? NULL : json_stringn(whole.n ? whole.p : "", whole.n);
    growing_text_close(&whole);
    return out;
}

json_t *dialog_json_grown(const struct growing_text *t)
{
    return dialog_json_text(t->n ? t->p : "", t->n);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Memory that lives as long as what is composed. */
static void *take(struct composed *c, size_t bytes)
{
    bool room = array_room(&c->memory, &c->memory_room, c->n_memory, sizeof *c->memory);
    void *p = room ? calloc(1, bytes ? bytes : 1) : NULL;
    if (p)
        c->memory[c->n_memory++] = p;
    c->failed |= !p;
    return p;
}

void compose_close(struct composed *c)
{
    for (size_t i = 0; i < c->n; i++)
        growing_text_close(&c->texts[i]);
    for (size_t i = 0; i < c->n_memory; i++)
        free(c->memory[i]);
    free(c->memory);
    free(c->texts);
    free(c->list);
    *c = (struct composed){0};
}

static struct tern_chat_message *push(struct composed *c, const char *role)
{
    size_t room = c->room;
    if (!array_room(&c->list, &room, c->n, sizeof *c->list) ||
        !array_room(&c->texts, &c->room, c->n, sizeof *c->texts)) {
        c->failed = true;
        return NULL;
    }
    c->texts[c->n] = (struct growing_text){0};
    c->list[c->n] = (struct tern_chat_message){.role = role};
    return &c->list[c->n++];
}

static bool last_is(const struct composed *c, const char *role)
{
    return c->n && strcmp(c->list[c->n - 1].role, role) == 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

static void say(struct composed *c, const char *role, const char *text, size_t n)
{
    bool joins = last_is(c, role) && !c->list[c->n - 1].n_calls;
    if (joins || push(c, role))
        dialog_join(&c->texts[c->n - 1], text, n);
}

/* The assistant may speak: a user has spoken before. */
static void let_answer(struct composed *c)
{
    if (c->n == 0 || last_is(c, "system") || last_is(c, "tools"))
        say(c, "user", "", 0);
}

void dialog_put_answer(struct growing_text *out, const struct tern_chat_info *info,
                       const struct speech *t)
{
    if (t->thought.n && info->thought_begin_bytes) {
        growing_text_add(out, info->thought_begin, info->thought_begin_bytes);
        growing_text_add(out, "\n", 1);
        growing_text_add(out, t->thought.p, t->thought.n);
        growing_text_add(out, "\n", 1);
        growing_text_add(out, info->thought_end, info->thought_end_bytes);
        growing_text_add(out, "\n\n", 2);
    }
    growing_text_add(out, t->text.p, t->text.n);
}

/* ---- calls --------------------------------------------------------------------------------- */

/* A call or a result with an id */
struct mention {
    const char *id;
    size_t speech, call; /* call: SIZE_MAX for a result */
};

/* By id, then as they were said; but of the calls of a turn the last comes first. */
static int by_id(const void *a, const void *b)
{
    const struct mention *x = a, *y = b;
    int order = strcmp(x->id, y->id);
    if (order)
        return order;
    if (x->speech != y->speech)
        return x->speech < y->speech ? -1 : 1;
    return x->call > y->call ? -1 : x->call < y->call;
}

/* All in that order, malloced; NULL: no memory. */
static struct mention *list_mentions(const struct dialog *d, size_t *n)
{
    struct mention *list = malloc((d->n + d->n_calls + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < d->n; i++) {
        const struct speech *t = &d->said[i];
        for (size_t k = 0; k < t->n_calls; k++)
            if (t->calls[k].id)
                list[(*n)++] = (struct mention){t->calls[k].id, i, k};
        if (t->role == SPEECH_RESULT && t->id)
            list[(*n)++] = (struct mention){t->id, i, SIZE_MAX};
    }
    if (list)
        qsort(list, *n, sizeof *list, by_id);
    return list;
}

static void give(struct dialog *d, size_t result, size_t speech, size_t call)
{
    d->said[result].has_call = true;
    d->said[speech].calls[call].result = result;
}

/* Gives each result to the nearest call before it that has its id and no other result. The calls of an id
 * that still wait are a stack, where its part of the list begins. */
static bool match_ids(struct dialog *d)
{
    size_t n, bottom = 0, top = 0;
    struct mention *list = list_mentions(d, &n);
    for (size_t i = 0; list && i < n; i++) {
        if (i && strcmp(list[i].id, list[i - 1].id) != 0)
            bottom = top = i;
        if (list[i].call != SIZE_MAX)
            list[top++] = list[i];
        else if (top > bottom)
            top--, give(d, list[i].speech, list[top].speech, list[top].call);
    }
    free(list);
    return list;
}

/* Gives each other result to the first call without one, of the last calls before it. */
static void match_others(struct dialog *d)
{
    size_t last = SIZE_MAX, k = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct speech *t = &d->said[i];
        if (t->n_calls)
            last = i, k = 0;
        if (t->role != SPEECH_RESULT || t->has_call || last == SIZE_MAX)
            continue;
        while (k < d->said[last].n_calls && d->said[last].calls[k].result != SIZE_MAX)
            k++;
        if (k < d->said[last].n_calls)
            give(d, i, last, k);
    }
}

static bool match_results(struct dialog *d)
{
    for (size_t i = 0; i < d->n; i++) {
        struct speech *t = &d->said[i];
        t->has_call = false;
        for (size_t k = 0; k < t->n_calls; k++)
            t->calls[k].result = SIZE_MAX;
    }
    if (!match_ids(d))
        return false;
    match_others(d);
    return true;
}

/* Ids as the core takes them */
static bool is_id(const char *id)
{
    size_t n = 0;
    while (id && id[n] && n <= 128 && dialog_is_word(id[n]))
        n++;
    return n && n <= 128 && !id[n];
}

static const char *id_of(struct composed *c, const struct speech_call *call, unsigned form)
{
    if (!(form & COMPOSE_NUMBERS) && is_id(call->id))
        return call->id;
    char *id = take(c, 24);
    if (id)
        snprintf(id, 24, "%09zu", call->number);
    return id;
}

static void add_calls(struct composed *c, const struct speech *t, unsigned form)
{
    struct tern_chat_message *m = &c->list[c->n - 1];
    struct tern_call *calls = take(c, t->n_calls * sizeof *calls);
    for (size_t i = 0; calls && i < t->n_calls; i++) {
        calls[i] = (struct tern_call){.id = id_of(c, &t->calls[i], form),
                                      .name = t->calls[i].name,
                                      .arguments = t->calls[i].arguments};
        c->bytes += t->calls[i].arguments ? strlen(t->calls[i].arguments) : 0;
    }
    m->calls = calls, m->n_calls = calls ? t->n_calls : 0;
}

static void add_result(struct composed *c, const struct tern_call *call,
                       const struct speech *result)
{
    struct tern_chat_message *m = push(c, "tool");
    if (!m)
        return;
    m->call_id = call->id, m->name = call->name;
    if (result)
        growing_text_add(&c->texts[c->n - 1], result->text.p, result->text.n);
}

/* The results of the last turn's calls, which are d->said[at]'s, in the order of the calls: many templates have
 * no ids, so that the place alone says what a result belongs to. One that is missing is empty. */
static void add_results(const struct dialog *d, struct composed *c, size_t at)
{
    const struct tern_call *calls = c->list[c->n - 1].calls;
    for (size_t i = 0; i < d->said[at].n_calls; i++) {
        size_t result = d->said[at].calls[i].result;
        add_result(c, &calls[i], result == SIZE_MAX ? NULL : &d->said[result]);
    }
}

/* {"name": "f", "arguments": {...}}, a line each */
static void say_calls(struct composed *c, const struct speech *t)
{
    struct growing_text *out = &c->texts[c->n - 1];
    for (size_t i = 0; i < t->n_calls; i++) {
        const char *arguments = t->calls[i].arguments ? t->calls[i].arguments : "{}";
        if (out->n)
            growing_text_add(out, "\n", 1);
        growing_text_add(out, "{\"name\": \"", 10);
        growing_text_add(out, t->calls[i].name, strlen(t->calls[i].name));
        growing_text_add(out, "\", \"arguments\": ", 16);
        growing_text_add(out, arguments, strlen(arguments));
        growing_text_add(out, "}", 1);
    }
}

/* ---- a conversation ------------------------------------------------------------------------ */

static void add_assistant(const struct dialog *d, const struct tern_chat_info *info, unsigned form,
                          size_t at, struct composed *c)
{
    const struct speech *t = &d->said[at];
    struct growing_text whole = {0};
    let_answer(c);
    dialog_put_answer(&whole, info, t);
    say(c, "assistant", whole.p, whole.n);
    c->failed |= whole.failed;
    growing_text_close(&whole);
    if (c->failed || !t->n_calls)
        return;
    if (form & COMPOSE_PLAIN) {
        say_calls(c, t);
        return;
    }
    add_calls(c, t, form);
    if (!c->failed)
        add_results(d, c, at);
}

static void add_speech(const struct dialog *d, const struct tern_chat_info *info, unsigned form,
                       size_t at, struct composed *c)
{
    const struct speech *t = &d->said[at];
    if (t->role == SPEECH_ASSISTANT)
        add_assistant(d, info, form, at, c);
    else if (t->role == SPEECH_USER || form & COMPOSE_PLAIN || !t->has_call)
        say(c, "user", t->text.p, t->text.n);
}

/* The system text goes before the first user's. */
static void add_system_to_user(const struct dialog *d, struct composed *c)
{
    size_t i = 0;
    while (i < c->n && strcmp(c->list[i].role, "user") != 0)
        i++;
    if (i == c->n)
        return;
    struct growing_text whole = {0};
    dialog_join(&whole, d->system.p, d->system.n);
    dialog_join(&whole, c->texts[i].p, c->texts[i].n);
    growing_text_close(&c->texts[i]);
    c->texts[i] = whole;
}

static void finish(struct composed *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->list[i].text = c->texts[i].n ? c->texts[i].p : "";
        c->list[i].bytes = c->texts[i].n;
        c->bytes += c->texts[i].n;
        c->failed |= c->texts[i].failed;
    }
}

bool compose(struct dialog *d, const struct tern_chat_info *info, unsigned form, struct composed *c)
{
    size_t n = d->n - (form & COMPOSE_PREFILL ? 1 : 0);
    if (!match_results(d))
        return false;
    if (d->tools && info->takes_tools && push(c, "tools"))
        growing_text_add(&c->texts[c->n - 1], d->tools, strlen(d->tools));
    if (d->has_system && !(form & COMPOSE_NO_SYSTEM))
        say(c, "system", d->system.p, d->system.n);
    for (size_t i = 0; i < n && !c->failed; i++)
        add_speech(d, info, form, i, c);
    bool asks = last_is(c, "user") || last_is(c, "tool");
    if (!asks && (form & COMPOSE_ASK || !last_is(c, "assistant")))
        say(c, "user", "", 0);
    if (d->has_system && form & COMPOSE_NO_SYSTEM && !c->failed)
        add_system_to_user(d, c);
    finish(c);
    return !c->failed;
}

/* ---- the beginning of an answer ------------------------------------------------------------- */

/* Appends text[0..n) as ids. Marks of thoughts are special tokens where the model has such. */
static bool add_ids(struct prefill *p, const tern_model *model, const char *text, size_t n,
                    unsigned flags)
{
    size_t room = n + 8, more = 0; /* a token has at least a byte, save a space before the first */
    tern_token *tokens = realloc(p->tokens, (p->n + room) * sizeof *tokens);
    if (!tokens)
        return false;
    p->tokens = tokens;
    if (n == 0)
        return true;
    if (tern_tokenize(model, text, n, flags, tokens + p->n, room, &more, NULL) || more > room)
        return false;
    p->n += more;
    return true;
}

bool prefill_add_mark(struct prefill *p, const tern_model *model, const char *before,
                      const char *mark, size_t n, const char *after)
{
    return add_ids(p, model, before, strlen(before), 0) &&
           add_ids(p, model, mark, n, TERN_PARSE_SPECIAL) &&
           add_ids(p, model, after, strlen(after), 0);
}

bool prefill_open(struct prefill *p, const struct dialog *d, const tern_model *model, bool wanted)
{
    const struct speech *t = d->n ? &d->said[d->n - 1] : NULL;
    struct tern_chat_info info;
    char none[1];
    if (!wanted || !t || t->role != SPEECH_ASSISTANT || t->n_calls || !dialog_info(model, &info))
        return true;
    p->is_there = true;
    bool thought = t->thought.n && info.thought_begin_bytes, ok = true;
    if (!t->text.n && !thought)
        return true;
    p->flags = thought ? TERN_CHAT_THINK : TERN_CHAT_NO_THINK;
    bool opened = tern_chat_opening(model, p->flags, none, 0) > 0;
    if (thought && !opened)
        ok = prefill_add_mark(p, model, "", info.thought_begin, info.thought_begin_bytes, "\n");
    if (thought)
        ok = ok && add_ids(p, model, t->thought.p, t->thought.n, 0);
    if ((thought && t->text.n) || (opened && !thought))
        ok = ok &&
             prefill_add_mark(p, model, "\n", info.thought_end, info.thought_end_bytes, "\n\n");
    size_t before = p->n;
    ok = ok && add_ids(p, model, t->text.p, t->text.n, 0);
    p->n_text = p->n - before;
    p->in_thought = thought && !t->text.n;
    return ok;
}
