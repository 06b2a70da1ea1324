/* Writes what a rule of a chat template says: see chat_write.h. */
#include "text/chat_write.h"

#include <stdio.h>

#include "text/tojson.h"
#include "text/tool_gemma.h"
#include "text/tool_types.h"

static bool checked(struct chat_writer *w, bool ok)
{
    if (!ok && !w->s)
        w->s = error_memory(w->e, "a conversation", w->out->text.n);
    return ok;
}

static bool put(struct chat_writer *w, const char *p, size_t n)
{
    return checked(w, buffer_add(&w->out->text, p, n));
}

bool chat_write_mark(struct chat_writer *w, struct chat_mark m, const char *p)
{
    m.at = w->out->text.n;
    return put(w, p, m.n) && checked(w, buffer_add(&w->out->marks, (const char *)&m, sizeof m));
}

/* The special token `name`: as text, where the tokenizer has none of that name. */
static bool put_name(void *writer, const char *name, size_t n)
{
    struct chat_writer *w = writer;
    struct chat_mark m = {.id = n ? tokenizer_find(w->c->t, name, n, &m.flags)
                                  : tokenizer_eos(w->c->t)};
    if (m.id < 0)
        return put(w, name, n);
    if (n == 0)
        name = tokenizer_text(w->c->t, m.id, &n);
    m.n = n;
    return chat_write_mark(w, m, name);
}

static bool put_text(struct chat_writer *w, char op)
{
    const struct tern_chat_message *m = op == CHAT_INSTRUCT ? w->system : w->m;
    struct buffer *out = &w->out->text;
    const struct thoughts *t = &w->c->thoughts;
    if (!m)
        return true;
    return checked(w, op == CHAT_ANSWER   ? thoughts_put_answer(t, chat_text_of(m), m->bytes, out)
                      : op == CHAT_THINKS ? thoughts_put_thinks(t, chat_text_of(m), m->bytes, out)
                                          : buffer_add(out, chat_text_of(m), m->bytes));
}

static void close_group(struct chat_writer *w, unsigned code)
{
    struct buffer *text = &w->out->text;
    if (w->depth == 0)
        return;
    size_t from = w->open[--w->depth], n = text->n - from;
    if (!n)
        return;
    const char *p = thoughts_trim(text->p + from, &n, code % 3, code / 3);
    memmove(text->p + from, p, n);
    text->n = from + n;
}

/* ---- values ------------------------------------------------------------------------------- */

static uint32_t style_of(const struct chat_writer *w, char style)
{
    return style == '-' ? CHAT_PLAIN_STYLE : w->c->styles[style - '0'];
}

static bool lacks(struct chat_writer *w, const char *what)
{
    w->s = error_set(w->e, TERN_USAGE,
                     "the chat template '%s' writes the %s of a call or a result, and one has none",
                     w->c->name, what);
    return false;
}

static bool put_string(struct chat_writer *w, const char *p, size_t n, char style)
{
    uint32_t how = style_of(w, style);
    if ((how & TOJSON_NOTATION) == TOJSON_GEMMA)
        return tool_gemma_put_string(p, n, &w->out->text, put_name, w);
    return checked(w, tojson_put_string(p, n, how, &w->out->text));
}

/* Any value, the root as well */
static bool put_tree(struct chat_writer *w, const struct json *j, uint32_t node, char style)
{
    uint32_t how = style_of(w, style);
    if ((how & TOJSON_NOTATION) <= TOJSON_REPR)
        return checked(w, tojson_put(j, node, how, &w->out->text));
    if (!w->s)
        w->s = tool_types_put(j, node, how, &w->out->text, put_name, w, w->e);
    return !w->s;
}

static bool put_node(struct chat_writer *w, const struct json *j, uint32_t node, char style)
{
    return !node || put_tree(w, j, node, style);
}

static const char *arguments_of(const struct tern_call *call)
{
    return call->arguments ? call->arguments : "{}";
}

static bool put_word(struct chat_writer *w, const char *word, const char *what, char style)
{
    return word ? put_string(w, word, strlen(word), style) : lacks(w, what);
}

static bool put_count(struct chat_writer *w, size_t count)
{
    char text[24];
    return put(w, text, (size_t)snprintf(text, sizeof text, "%zu", count));
}

/* The array of the functions of all tools */
static bool put_functions(struct chat_writer *w, char style)
{
    struct buffer text = {0};
    struct json j = {0};
    const struct json *all = &w->tools->json;
    bool ok = buffer_add(&text, "[", 1);
    for (uint32_t i = all->values[0].first; i && ok; i = all->values[i].next) {
        const struct json_value *f = &all->values[tools_function(w->tools, i)];
        ok = (text.n == 1 || buffer_add(&text, ",", 1)) &&
             buffer_add(&text, w->tools->text.p + f->from, f->to - f->from);
    }
    ok = checked(w, ok && buffer_add(&text, "]", 1));
    if (ok && !(w->s = json_read(&j, text.p, text.n, "tools", &w->budget, w->e)))
        ok = put_tree(w, &j, 0, style);
    json_close(&j);
    buffer_close(&text);
    return ok && !w->s;
}

/* The text of a message, or its answer */
static bool put_said(struct chat_writer *w, const struct tern_chat_message *m, bool is_answer,
                     char style)
{
    struct buffer answer = {0};
    if (!is_answer)
        return put_string(w, chat_text_of(m), m->bytes, style);
    bool ok =
        checked(w, thoughts_put_answer(&w->c->thoughts, chat_text_of(m), m->bytes, &answer)) &&
        put_string(w, answer.p ? answer.p : "", answer.n, style);
    buffer_close(&answer);
    return ok;
}

static bool put_of_tool(struct chat_writer *w, char what, char style)
{
    const struct json *j = &w->tools->json;
    uint32_t f = tools_function(w->tools, w->tool);
    return put_node(w, j,
                    what == 't'   ? w->tool
                    : what == 'n' ? json_member(j, f, "name")
                    : what == 'd' ? json_member(j, f, "description")
                    : what == 'p' ? json_member(j, f, "parameters")
                                  : f,
                    style);
}

static bool put_of_call(struct chat_writer *w, char what, char style)
{
    if (what == 'c')
        return put_count(w, w->call_number);
    if (what == 'a' && style == '-')
        return put(w, arguments_of(w->call), strlen(arguments_of(w->call)));
    return what == 'a'   ? put_tree(w, &w->arguments, 0, style)
           : what == 'n' ? put_word(w, w->call->name, "name", style)
                         : put_word(w, w->call->id, "id", style);
}

static bool put_of_result(struct chat_writer *w, char what, char style)
{
    const struct tern_call *of = w->answered;
    if (what == 'c')
        return of ? put_count(w, w->answered_number) : lacks(w, "number");
    return what == 'n' ? put_word(w,
                                  w->m->name ? w->m->name
                                  : of       ? of->name
                                             : NULL,
                                  "name", style)
                       : put_word(w,
                                  w->m->call_id ? w->m->call_id
                                  : of          ? of->id
                                                : NULL,
                                  "id", style);
}

static bool put_value(struct chat_writer *w, char what, char style)
{
    if (what == 'T' || what == 'F')
        return !w->tools ||
               (what == 'T' ? put_tree(w, &w->tools->json, 0, style) : put_functions(w, style));
    if (what == 'w' || what == 'r')
        return put_said(w, w->m, what == 'r', style);
    if (what == 'W' || what == 'R')
        return put_said(w, w->caller, what == 'R', style);
    if (what == 'v')
        return put_node(w, w->items, w->item, style);
    if (what == 'k') {
        const struct json_value *x = &w->items->values[w->item];
        return put_string(w, w->items->text + x->key, x->n_key, style);
    }
    return w->tool   ? put_of_tool(w, what, style)
           : w->call ? put_of_call(w, what, style)
                     : put_of_result(w, what, style);
}

/* ---- lists -------------------------------------------------------------------------------- */

static bool put_part(struct chat_writer *w, unsigned when)
{
    static const char *const names[] = {"tool", "call", "argument", "member of a function"};
    const struct chat_rule *rule = chat_rule_find(w->c->parts, w->c->n_parts, when);
    if (rule)
        return chat_write(w, rule->p, rule->n);
    w->s = error_set(w->e, TERN_USAGE, "the chat template '%s' has no form for such a %s",
                     w->c->name, names[when & CHAT_KIND]);
    return false;
}

static unsigned when_place(size_t i, size_t n)
{
    return (i == 0 ? CHAT_PART_FIRST : 0u) | (i + 1 == n ? CHAT_PART_LAST : 0u);
}

/* The arguments of the call, or the members of a function; `omitted`: without that one, or 0 */
static bool put_items(struct chat_writer *w, const struct json *j, uint32_t object, unsigned kind,
                      bool sorted, uint32_t omitted)
{
    static const unsigned types[] = {CHAT_PART_NULL,   CHAT_PART_BOOL,   CHAT_PART_BOOL,
                                     CHAT_PART_NUMBER, CHAT_PART_STRING, CHAT_PART_ARRAY,
                                     CHAT_PART_OBJECT};
    const struct json_value *x = &j->values[object];
    uint32_t *order = sorted ? tojson_sorted(j, object, false) : NULL, item = x->first;
    uint32_t k = 0, n = x->n_children - (omitted != 0);
    bool ok = checked(w, !sorted || order);
    w->items = j;
    for (uint32_t i = 0; i < x->n_children && ok; i++) {
        w->item = order ? order[i] : item;
        if (w->item != omitted)
            ok = put_part(w, kind | when_place(k++, n) | types[j->values[w->item].type]);
        item = j->values[item].next;
    }
    free(order);
    return ok;
}

static bool put_tools(struct chat_writer *w)
{
    const struct json *j = w->tools ? &w->tools->json : NULL;
    size_t k = 0;
    bool ok = true;
    for (uint32_t i = j ? j->values[0].first : 0; i && ok; i = j->values[i].next) {
        uint32_t f = tools_function(w->tools, i), description = json_member(j, f, "description");
        uint32_t properties = json_member(j, json_member(j, f, "parameters"), "properties");
        w->tool = i;
        ok = put_part(
            w, CHAT_PART_TOOL | when_place(k++, j->values[0].n_children) |
                   (description && j->values[description].n_text ? CHAT_PART_DESCRIBED : 0u) |
                   (properties && j->values[properties].n_children ? CHAT_PART_PARAMETERS : 0u));
    }
    w->tool = 0;
    return ok;
}

static bool bad_call(struct chat_writer *w, const char *what)
{
    w->s = error_set(w->e, TERN_USAGE, "call %zu of the conversation %s", w->call_number, what);
    return false;
}

static bool open_call(struct chat_writer *w)
{
    const struct tern_call *call = w->call;
    const char *arguments = arguments_of(call);
    struct tern_error why = {0};
    size_t n_id = call->id ? strlen(call->id) : 0;
    if (!call->name || !tools_is_name(call->name, strlen(call->name)))
        return bad_call(w, "has no name of 1 to 64 letters, digits and _ . -");
    if (call->id && !tools_is_id(call->id, n_id))
        return bad_call(w, "has an id that is not 1 to 128 letters, digits and _ . : -");
    if (w->c->id_length && (n_id != w->c->id_length || strpbrk(call->id, "_.:-")))
        return w->s = error_set(w->e, TERN_USAGE,
                                "the chat template '%s' wants ids of calls of %llu letters and "
                                "digits",
                                w->c->name, (unsigned long long)w->c->id_length),
               false;
    enum tern_status s =
        json_read(&w->arguments, arguments, strlen(arguments), "arguments", &w->budget, &why);
    if (s)
        w->s = error_set(w->e, s, "the arguments of call %zu of the conversation: %.300s",
                         w->call_number, why.text);
    else if (w->arguments.values[0].type != JSON_OBJECT)
        bad_call(w, "has arguments that are no JSON object");
    return !w->s;
}

static bool put_calls(struct chat_writer *w)
{
    size_t n = w->m ? w->m->n_calls : 0;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        w->call = &w->m->calls[i], w->call_number = w->first_call + i;
        ok = open_call(w) &&
             put_part(w, CHAT_PART_CALL | when_place(i, n) |
                             (w->arguments.values[0].n_children ? CHAT_PART_ARGUMENTS : 0u));
        json_close(&w->arguments);
    }
    w->call = NULL;
    return ok;
}

static bool put_list(struct chat_writer *w, char list)
{
    if (list == CHAT_LIST_TOOLS)
        return put_tools(w);
    if (list == CHAT_LIST_CALLS)
        return put_calls(w);
    if (list == CHAT_LIST_MEMBERS || list == CHAT_LIST_NO_RETURN) {
        const struct json *j = &w->tools->json;
        uint32_t f = tools_function(w->tools, w->tool);
        return put_items(w, j, f, CHAT_PART_MEMBER, false,
                         list == CHAT_LIST_NO_RETURN ? json_member(j, f, "return") : 0);
    }
    return put_items(w, &w->arguments, 0, CHAT_PART_ARGUMENT, list == CHAT_LIST_SORTED, 0);
}

/* ---- a text ------------------------------------------------------------------------------- */

/* The operation at p; *len gets its bytes. */
static bool put_operation(struct chat_writer *w, const char *p, const char *end, size_t *len)
{
    if (*p == CHAT_NAME) {
        const char *stop = memchr(p + 1, CHAT_NAME, (size_t)(end - p) - 1);
        *len = (size_t)(stop - p) + 1;
        return put_name(w, p + 1, *len - 2);
    }
    if (*p == CHAT_BOS) {
        struct chat_mark b = {.id = tokenizer_bos(w->c->t)};
        const char *name = tokenizer_text(w->c->t, b.id, &b.n);
        return b.id < 0 || chat_write_mark(w, b, name);
    }
    if (*p == CHAT_OPEN)
        return w->open[w->depth++] = w->out->text.n, true;
    if (*p == CHAT_CLOSE)
        return *len = 2, close_group(w, (unsigned)(p[1] - '0')), true;
    if (*p >= CHAT_WHOLE && *p <= CHAT_INSTRUCT)
        return put_text(w, *p);
    if (w->c->tools && *p == CHAT_LIST)
        return *len = 2, put_list(w, p[1]);
    if (w->c->tools && *p == CHAT_VALUE)
        return *len = 3, put_value(w, p[1], p[2]);
    return put(w, p, 1);
}

bool chat_write(struct chat_writer *w, const char *p, size_t n)
{
    bool ok = true;
    size_t len;
    w->depth = 0; /* lists stand in no group */
    for (const char *end = p + n; p < end && ok; p += len)
        len = 1, ok = put_operation(w, p, end, &len);
    return ok;
}
