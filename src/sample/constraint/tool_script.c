/* The script of answers that may call tools: see tool_script.h. */
#include "sample/constraint/tool_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample/constraint/alphabet.h"
#include "sample/constraint/tool_arguments.h"
#include "text/answer_form.h"
#include "text/buffer.h"
#include "text/tojson.h"
#include "text/tools.h"

struct maker {
    const struct chat *c;
    const struct tool_script_params *p;
    struct tools tools;
    struct answer_form form;
    struct languages *ls;
    struct script *s;
    struct shapes *shapes;
    struct tern_error *e;
    enum tern_status status;
};

/* ---- the schemas as one --------------------------------------------------------------------- */

/* A schema, with the id tern:tool/NUMBER if it is an object without one. */
static bool put_schema(struct buffer *out, const char *text, size_t n, const struct json_value *x,
                       bool named, unsigned number)
{
    char id[48];
    if (x->type != JSON_OBJECT || named)
        return buffer_add(out, text, n);
    int n_id =
        snprintf(id, sizeof id, "{\"$id\": \"tern:tool/%u\"%s", number, x->n_children ? ", " : "");
    return buffer_add(out, id, (size_t)n_id) && buffer_add(out, text + 1, n - 1);
}

/* The schema of a text without calls, as the last item */
static bool put_text_schema(const struct maker *m, struct buffer *out)
{
    struct budget budget = {.bytes = (size_t)64 << 20, .steps = UINT64_MAX};
    struct json j;
    if (!buffer_add(out, ", ", 2))
        return false;
    if (json_read(&j, m->p->schema, m->p->n_schema, "schema", &budget, NULL))
        return buffer_add(out, m->p->schema,
                          m->p->n_schema); /* schema_compile says what is wrong */
    const struct json_value *x = &j.values[0];
    bool ok = put_schema(out, m->p->schema + x->from, x->to - x->from, x,
                         json_find(&j, 0, "$id", 3), m->tools.json.values[0].n_children);
    json_close(&j);
    return ok;
}

/* {"prefixItems": [{"type": "object", "allOf": [{"$id": ..., parameters}]}, ...]}: an id of its own makes
 * each a document of its own, so that "#/..." keeps its meaning. */
static bool put_schemas(const struct maker *m, struct buffer *out)
{
    static const char head[] = "{\"prefixItems\": [", tail[] = "]}";
    static const char before[] = "{\"type\": \"object\", \"allOf\": [", after[] = "]}";
    static const char nothing[] = "{\"additionalProperties\": false}";
    const struct json *j = &m->tools.json;
    bool ok = buffer_add(out, head, sizeof head - 1);
    for (uint32_t i = j->values[0].first; i && ok; i = j->values[i].next) {
        uint32_t p = json_member(j, tools_function(&m->tools, i), "parameters");
        const struct json_value *x = &j->values[p];
        ok = (i == j->values[0].first || buffer_add(out, ", ", 2)) &&
             buffer_add(out, before, sizeof before - 1);
        if (p && x->type != JSON_NULL)
            ok = ok && put_schema(out, m->tools.text.p + x->from, x->to - x->from, x,
                                  json_member(j, p, "$id"), j->values[i].index);
        else /* a function without parameters takes none */
            ok = ok && buffer_add(out, nothing, sizeof nothing - 1);
        ok = ok && buffer_add(out, after, sizeof after - 1);
    }
    if (m->p->schema)
        ok = ok && put_text_schema(m, out);
    return ok && buffer_add(out, tail, sizeof tail - 1);
}

static const char list[] = "#/prefixItems/";

/* What is wrong with a schema is said of the tool that it belongs to: its place there, and the tool's
 * name. */
static void name_tool(const struct maker *m, struct tern_error *e)
{
    static const char own[] = "/allOf/0";
    const struct json *j = &m->tools.json;
    struct tern_error was = e ? *e : (struct tern_error){0};
    char *place = strstr(was.text, list), *end;
    uint32_t i = j->values[0].first, n = 0;
    if (!place)
        return;
    for (end = place + sizeof list - 1; *end >= '0' && *end <= '9'; end++)
        n = 10 * n + (uint32_t)(*end - '0');
    while (i && j->values[i].index != n)
        i = j->values[i].next;
    if (!i && m->p->schema) {
        *place = 0;
        error_set(e, was.code, "%s#%s", was.text, end);
    }
    if (!i || strncmp(end, own, sizeof own - 1) != 0)
        return;
    const struct json_value *name =
        &j->values[json_member(j, tools_function(&m->tools, i), "name")];
    *place = 0;
    error_set(e, was.code, "tool %.*s: %s#%s", (int)name->n_text, j->text + name->text, was.text,
              end + sizeof own - 1);
}

static enum tern_status refuse_tool(const struct maker *m, uint32_t tool, const char *why)
{
    const struct json *j = &m->tools.json;
    const struct json_value *name =
        &j->values[json_member(j, tools_function(&m->tools, tool), "name")];
    return error_set(m->e, TERN_USAGE, "tool %.*s: %s", (int)name->n_text, j->text + name->text,
                     why);
}

/* Parameters are a schema, or null. */
static enum tern_status check_parameters(const struct maker *m)
{
    const struct json *j = &m->tools.json;
    for (uint32_t i = j->values[0].first; i; i = j->values[i].next) {
        uint32_t p = json_member(j, tools_function(&m->tools, i), "parameters");
        enum json_type type = j->values[p].type;
        if (p && (type == JSON_ARRAY || type == JSON_STRING || type == JSON_NUMBER))
            return refuse_tool(m, i, "its parameters are no JSON schema, which is an object");
    }
    return TERN_OK;
}

/* The array of all parameters ends before the first that no object fits. */
static enum tern_status check_callable(const struct maker *m)
{
    const struct shapes *s = m->shapes;
    const struct node *root = &s->nodes[s->root];
    const struct json *j = &m->tools.json;
    uint32_t most = root->arrays.n ? s->arrays[root->arrays.first].max : 0;
    for (uint32_t i = j->values[0].first; i; i = j->values[i].next)
        if (j->values[i].index >= most)
            return refuse_tool(m, i, "it can never be called, for no object fits its parameters");
    if (m->p->schema && j->values[0].n_children >= most)
        return error_set(m->e, TERN_USAGE, "schema: nothing satisfies it");
    return TERN_OK;
}

/* A text is bound whole or not at all, also where tools are lax. */
static enum tern_status check_text_schema(const struct maker *m, const struct schema_notes *notes)
{
    char place[48];
    snprintf(place, sizeof place, "%s%u", list, m->tools.json.values[0].n_children);
    const size_t n = strlen(place);
    for (size_t at = 0; m->p->schema && at < notes->n; at += strlen(notes->text + at) + 1) {
        const char *x = strstr(notes->text + at, place);
        if (x && (x[n] < '0' || x[n] > '9')) {
            error_set(m->e, TERN_USAGE, "%s", notes->text + at);
            name_tool(m, m->e);
            return TERN_USAGE;
        }
    }
    return TERN_OK;
}

/* What is left out is said of its tool, too. */
static enum tern_status name_notes(const struct maker *m, struct schema_notes *notes)
{
    struct buffer named = {0};
    bool ok = true;
    for (size_t at = 0; ok && at < notes->n; at += strlen(notes->text + at) + 1) {
        struct tern_error e;
        error_set(&e, TERN_USAGE, "%s", notes->text + at);
        name_tool(m, &e);
        ok = buffer_add(&named, e.text, strlen(e.text) + 1);
    }
    char *text = ok ? realloc(notes->text, named.n + 1) : NULL;
    if (text) {
        if (named.n)
            memcpy(text, named.p, named.n);
        *notes = (struct schema_notes){text, named.n, named.n + 1};
    }
    buffer_close(&named);
    return text ? TERN_OK : error_memory(m->e, "the schemas of tools", named.n);
}

/* Where a call may begin as a value does, neither can be told from the other. */
static enum tern_status check_trigger(const struct maker *m)
{
    if (!m->p->schema || !m->form.trigger.n || !strchr("{[\"-0123456789tfn", *m->form.trigger.p))
        return TERN_OK;
    return error_set(m->e, TERN_USAGE,
                     "the calls of this model's template begin as JSON does: a schema cannot be "
                     "enforced beside them");
}

/* Compiles them; node_of then finds the node of a tool. */
static enum tern_status compile(struct maker *m, struct budget *budget, struct schema_notes *notes)
{
    const struct schema_notation gemma = {script_gemma_keys, m->tools.json.values[0].n_children};
    const bool is_gemma = m->form.list.text_notation == TOJSON_GEMMA;
    struct buffer text = {0};
    enum tern_status s = TERN_NO_MEMORY;
    if (put_schemas(m, &text))
        s = schema_compile(m->shapes, text.p, text.n, m->p->schema_flags, is_gemma ? &gemma : NULL,
                           budget, notes, m->e);
    else
        error_memory(m->e, "the schemas of tools", text.n);
    if (s)
        name_tool(m, m->e);
    buffer_close(&text);
    if (!s && notes)
        s = check_text_schema(m, notes);
    if (!s && notes)
        s = name_notes(m, notes);
    return s ? s : check_callable(m);
}

static uint32_t node_at(const struct maker *m, uint32_t place)
{
    const struct shapes *s = m->shapes;
    const struct node *root = &s->nodes[s->root];
    if (!root->arrays.n)
        return NODE_NONE;
    const struct array_shape *a = &s->arrays[root->arrays.first];
    uint32_t places = a->items.n >> a->n_contains;
    return s->items[a->items.first + ((place < places ? place : places - 1) << a->n_contains)];
}

static uint32_t node_of(const struct maker *m, uint32_t tool)
{
    return node_at(m, m->tools.json.values[tool].index);
}

/* ---- literals ------------------------------------------------------------------------------- */

static lang text_of(const struct maker *m, struct mark text)
{
    return lang_text(m->ls, text.p, text.n);
}

/* A mark of thoughts, or a text to be skipped, with its special tokens as scripts spell them */
static lang mark_of(const struct maker *m, struct mark mark)
{
    lang a = LANG_BLANK;
    const struct tokenizer *t = m->c->t;
    while (mark.n) {
        size_t n = mark.n;
        uint32_t flags;
        int32_t id = -1;
        while (n &&
               ((id = tokenizer_find(t, mark.p, n, &flags)) < 0 || !tokenizer_is_special(t, id)))
            n--;
        if (n)
            a = lang_concat(m->ls, a, lang_text(m->ls, "\xFF", 1));
        else
            n = 1;
        a = lang_concat(m->ls, a, lang_text(m->ls, mark.p, n));
        mark.p += n, mark.n -= n;
    }
    return a;
}

/* The literal up to a token that ends an answer: that one is not part of the text. */
static struct mark before_end(const struct maker *m, struct mark text)
{
    for (size_t i = 0; i < text.n; i++)
        for (size_t k = 0; chat_end(m->c, k) >= 0 && (unsigned char)text.p[i] == ANSWER_SPECIAL;
             k++) {
            size_t n;
            const char *name = tokenizer_text(m->c->t, chat_end(m->c, k), &n);
            if (n && text.n - i > n && memcmp(text.p + i + 1, name, n) == 0)
                text.n = i;
        }
    return text;
}

/* At most two blanks */
static lang some_blanks(const struct maker *m)
{
    lang blank = lang_or(m->ls, lang_text(m->ls, " ", 1), lang_text(m->ls, "\n", 1));
    return lang_repeat(m->ls, blank, 0, 2);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static lang id_of(const struct maker *m)
{
    lang digit = lang_char_range(m->ls, '0', '9'), letter = lang_char_range(m->ls, 'a', 'z');
    lang any = lang_or(m->ls, lang_or(m->ls, digit, letter), lang_char_range(m->ls, 'A', 'Z'));
    uint32_t n = (uint32_t)m->c->id_length;
    return lang_repeat(m->ls, any, n ? n : 1, n ? n : 32);
}

static enum tern_status put_list(struct maker *m, uint32_t tool, uint32_t from, uint32_t to)
{
    const struct json *j = &m->tools.json;
    const struct json_value *x =
        &j->values[json_member(j, tools_function(&m->tools, tool), "name")];
    char name[TOOLS_NAME_MAX + 1] = {0};
    memcpy(name, j->text + x->text, x->n_text);
    const struct tool_arguments a = {m->shapes, m->s, &m->form.list, &m->tools, name};
    return tool_arguments_put(&a, node_of(m, tool), from, to, m->e);
}

/* A step of a call of that tool, from state `from`; returns the state behind it. */
static uint32_t put_step(struct maker *m, uint32_t tool, size_t i, uint32_t from)
{
    const struct answer_step *step = &m->form.steps[i];
    const struct json *j = &m->tools.json;
    const struct json_value *name =
        &j->values[json_member(j, tools_function(&m->tools, tool), "name")];
    uint32_t to = script_state(m->s), node = node_of(m, tool);
    switch (step->kind) {
    case ANSWER_LITERAL:
        script_words(m->s, from, to, text_of(m, before_end(m, step->text)));
        break;
    case ANSWER_NAME:
        script_words(m->s, from, to, lang_text(m->ls, j->text + name->text, name->n_text));
        break;
    case ANSWER_ID:
        script_words(m->s, from, to, id_of(m));
        break;
    case ANSWER_ARGUMENTS:
        script_hole(m->s, from, to, node, SCRIPT_JSON);
        break;
    default:
        m->status = put_list(m, tool, from, to);
    }
    return to;
}

static bool is_chosen(const struct maker *m, uint32_t tool)
{
    const char *choice = m->p->choice;
    return !choice || strcmp(choice, "auto") == 0 || strcmp(choice, "required") == 0 ||
           tools_find(&m->tools, choice, strlen(choice)) == tool;
}

/* All tools that may be called, from `from`, whose text is the call's before its name; returns the state
 * behind a call. */
static uint32_t put_call(struct maker *m, uint32_t from, size_t first_step)
{
    const struct json *j = &m->tools.json;
    uint32_t behind = script_state(m->s);
    for (uint32_t tool = j->values[0].first; tool; tool = j->values[tool].next) {
        uint32_t at = from;
        if (!is_chosen(m, tool))
            continue;
        for (size_t i = first_step; i < m->form.n_steps && !m->status; i++)
            at = put_step(m, tool, i, at);
        script_words(m->s, at, behind, LANG_BLANK);
    }
    return behind;
}

/* Calls, from `from`, where the trigger has been read, to the end of the text */
static void put_calls(struct maker *m, uint32_t from)
{
    const struct answer_form *f = &m->form;
    bool literal = f->steps[0].kind == ANSWER_LITERAL;
    struct mark none = {"", 0}, head = literal ? f->steps[0].text : none;
    lang begin = lang_concat(m->ls, text_of(m, f->begin), text_of(m, head));
    for (size_t i = 0; i < f->trigger.n && begin != (lang)LANG_FAIL; i++)
        begin = lang_step(m->ls, begin, (unsigned char)f->trigger.p[i]);
    uint32_t name = script_state(m->s), last = script_state(m->s);
    script_words(m->s, from, name, begin);
    uint32_t behind = put_call(m, name, literal);
    if (m->p->parallel && !(m->c->form_flags & CHAT_CALLS_ONE))
        script_words(m->s, behind, name,
                     lang_concat(m->ls, text_of(m, f->between), text_of(m, head)));
    script_words(m->s, behind, last, text_of(m, before_end(m, f->end)));
    script_accept(m->s, last);
}

/* ---- answers -------------------------------------------------------------------------------- */

static lang any_mark(const struct maker *m, const struct mark *marks, size_t n)
{
    lang any = LANG_NONE;
    for (size_t i = 0; i < n; i++)
        any = lang_or(m->ls, any, mark_of(m, marks[i]));
    return any;
}

/* What may stand before a call, up to its trigger: anything; or blanks, at the beginning and behind the
 * marks for that */
static lang before_calls(const struct maker *m)
{
    lang behind = any_mark(m, m->c->behind, m->c->n_behind);
    lang blank = lang_or(m->ls, lang_text(m->ls, " ", 1), lang_text(m->ls, "\n", 1));
    lang gap = lang_repeat(m->ls, lang_or(m->ls, blank, behind), 0, LANG_MANY);
    if (!(m->c->form_flags & CHAT_CALLS_FIRST))
        return LANG_ALL;
    return lang_concat(m->ls, lang_or(m->ls, LANG_BLANK, lang_concat(m->ls, LANG_ALL, behind)),
                       gap);
}

/* Text that does not hold what would be read as a call */
static lang text_without_calls(const struct maker *m)
{
    lang call = lang_concat(m->ls, text_of(m, m->form.trigger), LANG_ALL);
    return lang_not(m->ls, lang_concat(m->ls, before_calls(m), call));
}

/* Text up to the end of the first trigger where a call may begin */
static lang text_upto_calls(const struct maker *m)
{
    lang upto = lang_concat(m->ls, before_calls(m), text_of(m, m->form.trigger));
    lang beyond = lang_concat(m->ls, upto, lang_not(m->ls, LANG_BLANK));
    return lang_and(m->ls, upto, lang_not(m->ls, beyond));
}

/* A text of the schema. Blanks before it are those that may stand before a call: they decide nothing. */
static void put_value(struct maker *m, uint32_t from, uint32_t to)
{
    uint32_t value = script_state(m->s), place = m->tools.json.values[0].n_children;
    script_words(m->s, from, value, some_blanks(m));
    script_hole(m->s, value, to, node_at(m, place), SCRIPT_JSON);
}

/* What follows thoughts, from `from` */
static void put_answer(struct maker *m, uint32_t from)
{
    const char *choice = m->p->choice ? m->p->choice : "auto";
    bool is_auto = strcmp(choice, "auto") == 0, is_free = is_auto && !m->p->schema;
    uint32_t calls = script_state(m->s);
    lang trigger = text_of(m, m->form.trigger), before = some_blanks(m);
    if (is_auto || strcmp(choice, "none") == 0) {
        uint32_t last = script_state(m->s);
        if (m->p->schema)
            put_value(m, from, last);
        else
            script_words(m->s, from, last, text_without_calls(m));
        script_accept(m->s, last);
    }
    if (strcmp(choice, "none") == 0)
        return;
    if (is_free && !(m->c->form_flags & CHAT_CALLS_FIRST)) {
        script_until(m->s, m->ls, from, calls, LANG_ALL, m->form.trigger.p, m->form.trigger.n,
                     false);
    } else if (is_free && m->c->n_behind) {
        script_words(m->s, from, calls, text_upto_calls(m));
    } else {
        lang skip = lang_or(m->ls, any_mark(m, m->c->thoughts.skip, m->c->thoughts.n_skip),
                            any_mark(m, m->c->behind, m->c->n_behind));
        if (skip != LANG_NONE)
            before = lang_concat(m->ls, before, lang_repeat(m->ls, skip, 0, 2));
        script_words(m->s, from, calls, lang_concat(m->ls, before, trigger));
    }
    put_calls(m, calls);
}

/* A thought from `from`, behind its begin mark, to `to`. It ends before the answer does: no end token is in
 * it. */
static void put_thought(struct maker *m, uint32_t from, uint32_t to)
{
    lang end = mark_of(m, m->c->thoughts.end), some = lang_not(m->ls, LANG_BLANK);
    lang upto = lang_concat(m->ls, LANG_ALL, end);
    lang beyond = lang_concat(m->ls, upto, some);
    lang ends = lang_concat(m->ls, alphabet_ends(m->ls, m->p->spelling), LANG_ALL);
    lang no = lang_or(m->ls, beyond, lang_concat(m->ls, LANG_ALL, ends));
    script_words(m->s, from, to, lang_and(m->ls, upto, lang_not(m->ls, no)));
}

static void put_all(struct maker *m)
{
    uint32_t answer = 0;
    if (chat_knows_thoughts(m->c)) {
        answer = script_state(m->s);
        uint32_t thought = m->p->thinks ? 0 : script_state(m->s);
        if (!m->p->thinks) {
            script_words(m->s, 0, thought, mark_of(m, m->c->thoughts.begin));
            put_answer(m, 0);
        }
        put_thought(m, thought, answer);
    }
    put_answer(m, answer);
}

static enum tern_status check_params(struct maker *m)
{
    const char *choice = m->p->choice;
    if (!m->c || !m->c->n_forms)
        return error_set(m->e, TERN_USAGE, "the chat template '%s' calls no tools",
                         m->c ? m->c->name : "");
    enum tern_status s = tools_open(&m->tools, m->p->tools, m->p->n, m->e);
    if (s)
        return s;
    if (!m->tools.json.values[0].n_children)
        return error_set(m->e, TERN_USAGE, "tools: the list is empty");
    if (choice && strcmp(choice, "auto") && strcmp(choice, "none") && strcmp(choice, "required") &&
        !tools_find(&m->tools, choice, strlen(choice)))
        return error_set(m->e, TERN_USAGE,
                         "tool choice: '%.64s' is none of auto, none, required and the functions",
                         choice);
    if ((s = check_parameters(m)))
        return s;
    s = answer_form_open(&m->form, m->c, 0, ANSWER_SCRIPT, m->e);
    return s ? s : check_trigger(m);
}

enum tern_status tool_script_open(struct shapes *shapes, struct script *script,
                                  const struct chat *c, const struct tool_script_params *p,
                                  struct budget *budget, struct schema_notes *notes,
                                  struct tern_error *e)
{
    struct maker m = {.c = c, .p = p, .s = script, .shapes = shapes, .e = e};
    *shapes = (struct shapes){0};
    script_open(script, budget);
    enum tern_status s = check_params(&m);
    if (!s)
        s = compile(&m, budget, notes);
    if (!s) {
        m.ls = shapes->languages;
        put_all(&m);
        s = m.status         ? m.status
            : script->failed ? budget_refuse(budget, e, "the calls of tools")
                             : TERN_OK;
    }
    if (s) {
        script_close(script);
        shapes_free(shapes);
    }
    answer_form_close(&m.form);
    tools_close(&m.tools);
    return s;
}
