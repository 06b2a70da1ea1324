/* Answers that may call tools: see tool_answer.h. */
#include "app/run/tool_answer.h"

#include "app/cli/files.h"
#include "app/cli/json.h"
#include "app/cli/out.h"
#include "app/cli/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tern_status tool_answer_open(struct tool_answer *t, const struct run_options *o,
                                  struct tern_error *e)
{
    *t = (struct tool_answer){0};
    return o->value[OPT_TOOLS].given
               ? files_take_unmarked(o->value[OPT_TOOLS].text, &t->tools, &t->n, e)
               : TERN_OK;
}

void tool_answer_close(struct tool_answer *t)
{
    tern_answer_close(t->answer);
    certain_close(&t->certain);
    free(t->tools);
    *t = (struct tool_answer){0};
}

enum tern_status tool_answer_begin(struct tool_answer *t, const tern_model *model, unsigned flags,
                                   bool ignore_end, const tern_token *prompt, size_t n,
                                   size_t first_call, struct tern_error *e)
{
    const struct tern_answer_params p = {.tools = t->tools,
                                         .tools_bytes = t->n,
                                         .flags = flags,
                                         .prompt = prompt,
                                         .n_prompt = n,
                                         .first_call = first_call};
    tern_answer_close(t->answer);
    certain_close(&t->certain);
    t->answer = NULL, t->shown = false;
    t->cut = (struct tern_call){0};
    t->s = certain_open(&t->certain, model, ignore_end, prompt, n, e);
    return t->s ? t->s : tern_answer_open(&t->answer, model, &p, e);
}

static bool show_events(struct tool_answer *t, tern_token token, tool_answer_show show, void *arg)
{
    struct tern_answer_event x;
    bool ok = true;
    while (ok && tern_answer_next(t->answer, &x) != TERN_ANSWER_NONE) {
        bool is_text = x.kind == TERN_ANSWER_TEXT || x.kind == TERN_ANSWER_THOUGHT;
        ok = !is_text || !show(arg, token, x.text, x.bytes);
        t->shown |= is_text;
        if (x.kind == TERN_ANSWER_CUT)
            t->cut = x.call;
    }
    return ok;
}

/* All that is certain goes to the parser. */
static bool push(struct tool_answer *t, tool_answer_show show, void *arg, struct tern_error *e)
{
    struct certain_piece p;
    do {
        if (t->s)
            return false;
        certain_next(&t->certain, &p);
        if (p.kind == CERTAIN_TOKEN)
            t->s = tern_answer_push(t->answer, p.token, e);
        else if (p.kind == CERTAIN_CUT)
            t->s = tern_answer_push_text(t->answer, p.text, p.n, e);
    } while (p.kind != CERTAIN_NONE && (t->s || show_events(t, p.token, show, arg)));
    return p.kind == CERTAIN_NONE;
}

bool tool_answer_add(struct tool_answer *t, tern_token token, struct tern_error *e)
{
    if (!t->s && !certain_add(&t->certain, token))
        t->s = parser_no_memory_for(e, "the answer");
    return !t->s;
}

bool tool_answer_grow(struct tool_answer *t, size_t n, tool_answer_show show, void *arg,
                      struct tern_error *e)
{
    certain_grow(&t->certain, n);
    return push(t, show, arg, e);
}

void tool_answer_finish(struct tool_answer *t, enum tern_stop_reason reason, tool_answer_show show,
                        void *arg, struct tern_error *e)
{
    bool cut =
        reason == TERN_STOP_LENGTH || reason == TERN_STOP_CONTEXT || reason == TERN_STOP_CANCELLED;
    t->limit = cut;
    if (!t->s && !certain_end(&t->certain, reason))
        t->s = parser_no_memory_for(e, "the answer");
    (void)push(t, show, arg, e);
    if (!t->s && reason == TERN_STOP_STRING) /* of a character that is not whole */
        t->s = tern_answer_push_text(t->answer, "", 0, e);
    if (!t->s)
        t->s = cut ? tern_answer_cut(t->answer, e) : tern_answer_finish(t->answer, e);
    if (!t->s)
        (void)show_events(t, -1, show, arg);
}

bool tool_answer_calls(const struct tool_answer *t)
{
    struct tern_chat_message m = {0};
    if (t->answer)
        tern_answer_message(t->answer, &m);
    return m.n_calls > 0 || t->cut.name;
}

static void put(void *arg, const char *text, size_t n)
{
    (void)arg;
    (void)out_text(text, n);
}

static void print_head(const struct tern_call *call)
{
    out_print("{\"id\": \"");
    json_text(put, NULL, call->id, strlen(call->id));
    out_print("\", \"name\": \"");
    json_text(put, NULL, call->name, strlen(call->name));
    out_print("\", \"arguments\": ");
}

static void print_cut(const struct tern_call *call, bool limit, bool jsonl)
{
    if (!jsonl) {
        fprintf(stderr, "call: that of %s %s\n", call->name,
                limit ? "was cut off; allow more tokens with -n" : "is not whole");
        return;
    }
    out_print("{\"cut\": ");
    print_head(call);
    out_print("\"");
    json_text(put, NULL, call->arguments, strlen(call->arguments));
    out_print("\"}}\n");
}

static void print_call(const struct tern_call *call, bool jsonl)
{
    out_print("%s", jsonl ? "{\"call\": " : "");
    print_head(call);
    for (const char *p = call->arguments; *p; p++)
        put(NULL, *p == '\n' || *p == '\r' ? " " : p, 1); /* between the parts of JSON */
    out_print("}%s\n", jsonl ? "}" : "");
}

enum tern_status tool_answer_remember(const struct tool_answer *t, struct conversation *said,
                                      bool jsonl, struct tern_error *e)
{
    struct tern_chat_message m;
    tern_answer_message(t->answer, &m);
    enum tern_status s = conversation_add(said, "assistant", m.text, m.bytes, e);
    for (size_t i = 0; i < m.n_calls && !s; i++)
        s = conversation_add_call(said, &m.calls[i], e);
    for (size_t i = 0; i < m.n_calls && !s; i++)
        print_call(&m.calls[i], jsonl);
    if (t->cut.name && !s)
        print_cut(&t->cut, t->limit, jsonl);
    (void)out_write("", 0);
    return s;
}
