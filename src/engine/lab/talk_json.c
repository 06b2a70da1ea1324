/* Conversations with tools of the vectors: see talk_json.h. */
#include "engine/lab/talk_json.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 64 << 20 };

struct filling {
    struct talk_json *t;
    const char *source;
    char *at; /* the next free byte of texts, which has room for all of the source and its ends */
    size_t n_calls;
};

static bool is_text(const struct json *j, uint32_t v)
{
    return v && j->values[v].type == JSON_STRING;
}

static const char *keep(struct filling *f, const char *p, size_t n)
{
    char *copy = memcpy(f->at, p, n);
    copy[n] = 0;
    f->at += n + 1;
    return copy;
}

/* The string v with a NUL; NULL where there is none. */
static const char *keep_text(struct filling *f, uint32_t v)
{
    const struct json *j = &f->t->json;
    return is_text(j, v) ? keep(f, j->text + j->values[v].text, j->values[v].n_text) : NULL;
}

static void fill_calls(struct filling *f, uint32_t list, struct tern_chat_message *m)
{
    const struct json *j = &f->t->json;
    m->calls = f->t->calls + f->n_calls;
    for (uint32_t v = list ? j->values[list].first : 0; v; v = j->values[v].next) {
        uint32_t function = json_member(j, v, "function");
        uint32_t arguments = json_member(j, function, "arguments");
        const struct json_value *x = &j->values[arguments];
        f->t->calls[f->n_calls++] = (struct tern_call){
            keep_text(f, json_member(j, v, "id")), keep_text(f, json_member(j, function, "name")),
            !arguments ? NULL : keep(f, f->source + x->from, x->to - x->from)};
        m->n_calls++;
    }
}

static bool fill_message(struct filling *f, uint32_t v)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const struct json *j = &f->t->json;
    uint32_t role = json_member(j, v, "role"), content = json_member(j, v, "content");
    struct tern_chat_message *m = &f->t->list[f->t->n++];
    size_t i = 0;
    while (i < 4 && !json_is(j, role, roles[i]))
        i++;
    if (i == 4)
        return false;
    *m = (struct tern_chat_message){.role = roles[i],
                                    .call_id = keep_text(f, json_member(j, v, "tool_call_id")),
                                    .name = keep_text(f, json_member(j, v, "name"))};
    if (is_text(j, content))
        m->text = j->text + j->values[content].text, m->bytes = j->values[content].n_text;
    fill_calls(f, json_member(j, v, "tool_calls"), m);
    return true;
}

static bool fill(struct filling *f)
{
    struct talk_json *t = f->t;
    const struct json *j = &t->json;
    uint32_t tools = json_find(j, 0, "tools", 5), messages = json_find(j, 0, "messages", 8);
    const struct json_value *x = &j->values[tools];
    if (!messages)
        return false;
    if (tools && x->n_children)
        t->list[t->n++] = (struct tern_chat_message){
            .role = "tools", .text = f->source + x->from, .bytes = x->to - x->from};
    for (uint32_t v = j->values[messages].first; v; v = j->values[v].next)
        if (!fill_message(f, v))
            return false;
    return true;
}

enum tern_status talk_json_open(struct talk_json *out, const char *p, size_t n,
                                struct tern_error *e)
{
    *out = (struct talk_json){.budget = {.bytes = BYTES_MAX, .steps = UINT64_MAX}};
    enum tern_status s = json_read(&out->json, p, n, "a conversation", &out->budget, e);
    if (s)
        return s == TERN_USAGE ? TERN_BAD_FILE : s;
    size_t values = out->json.n_values; /* more than there are messages, or calls, or texts */
    out->list = calloc(values + 1, sizeof *out->list);
    out->calls = calloc(values + 1, sizeof *out->calls);
    out->texts = malloc(2 * n + values + 1);
    struct filling f = {out, p, out->texts, 0};
    if (!out->list || !out->calls || !out->texts)
        return error_memory(e, "a conversation", 2 * n);
    return fill(&f) ? TERN_OK
                    : error_set(e, TERN_BAD_FILE, "section 'vectors': a conversation is malformed");
}

void talk_json_close(struct talk_json *t)
{
    json_close(&t->json);
    free(t->list);
    free(t->calls);
    free(t->texts);
}
