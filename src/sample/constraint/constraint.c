/* Opens constraints of any kind: see constraint.h. */
#include "sample/constraint/constraint.h"

#include "sample/constraint/alphabet.h"
#include "sample/recognize/gbnf.h"
#include "sample/recognize/json_recognizer.h"
#include "sample/constraint/lazy.h"
#include "sample/language/regex.h"
#include "sample/recognize/regular.h"
#include "sample/schema/schema.h"
#include "sample/constraint/tool_script.h"
#include "text/json_read.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

static const unsigned ALL_FLAGS = 2 * TERN_CONSTRAINT_PARALLEL - 1;
static const unsigned ALL_CHAT_FLAGS = TERN_CHAT_GENERATE | TERN_CHAT_THINK | TERN_CHAT_NO_THINK;

static enum tern_status no_memory(struct tern_error *e)
{
    return error_memory(e, "a constraint", sizeof(struct tern_constraint));
}

/* A regular expression or a choice */
static enum tern_status open_regular(const tern_constraint *c, struct constraint_form *f,
                                     const struct tern_constraint_params *p, struct tern_error *e)
{
    bool is_choice = p->kind == TERN_CONSTRAINT_CHOICE;
    struct tern_error why = {0};
    struct languages *ls = languages_open(&f->budget);
    if (!ls)
        return budget_refuse(&f->budget, e, is_choice ? "choice" : "regex");
    if (is_choice && !unicode_valid(p->text, p->bytes))
        error_set(&why, TERN_USAGE, "choice: it is not UTF-8");
    lang a = why.code    ? LANG_FAIL
             : is_choice ? script_choice(ls, p->text, p->bytes)
                         : regex_compile(ls, p->text, p->bytes, true, &why);
    if (a == LANG_FAIL && why.code) {
        languages_close(ls);
        return error_set(e, why.code, "%s", why.text);
    }
    a = alphabet_restrict(ls, c->spelling, a);
    return regular_open(&f->recognizer, ls, a, is_choice ? "choice" : "regex", e);
}

/* Counts n bytes that constraint_close gives back. */
static bool count(tern_constraint *c, size_t n)
{
    if (!quota_take(&c->quota, n))
        return false;
    c->bytes += n;
    return true;
}

/* The sentences of `notes`, one by one; taken over. A form that is compiled anew says the same again. */
static enum tern_status list_notes(tern_constraint *c, const struct schema_notes *notes,
                                   struct tern_error *e)
{
    size_t n = 0;
    if (c->left_out) {
        free(notes->text);
        return TERN_OK;
    }
    for (size_t i = 0; i < notes->n; i++)
        n += !notes->text[i];
    if (!count(c, notes->capacity + (n + 1) * sizeof *c->left_out))
        return no_memory(e);
    c->left_out = malloc((n + 1) * sizeof *c->left_out);
    if (!c->left_out)
        return no_memory(e);
    c->notes = notes->text;
    for (size_t at = 0; at < notes->n; at += strlen(notes->text + at) + 1)
        c->left_out[c->n_left_out++] = notes->text + at;
    return TERN_OK;
}

static unsigned schema_flags(const struct tern_constraint_params *p)
{
    return (p->flags & TERN_CONSTRAINT_LAX ? SCHEMA_LAX : 0u) |
           (p->flags & TERN_CONSTRAINT_ANNOTATE ? SCHEMA_ANNOTATE : 0u);
}

static unsigned json_flags(const struct tern_constraint_params *p)
{
    return (p->flags & TERN_CONSTRAINT_COMPACT ? JSON_COMPACT : 0u) |
           (p->flags & TERN_CONSTRAINT_ANY_ORDER ? JSON_ANY_ORDER : 0u);
}

static enum tern_status open_json(tern_constraint *c, struct constraint_form *f,
                                  const struct tern_constraint_params *p, struct tern_error *e)
{
    static const char object[] = "{\"type\": \"object\"}";
    struct schema_notes notes = {0};
    struct shapes shapes = {0};
    bool any = p->kind == TERN_CONSTRAINT_JSON;
    enum tern_status s = alphabet_check_json(c->spelling, e);
    if (s)
        return s;
    s = schema_compile(&shapes, any ? object : p->text, any ? sizeof object - 1 : p->bytes,
                       schema_flags(p), NULL, &f->budget, &notes, e);
    if (!s)
        s = json_recognizer_open(&f->recognizer, &shapes, NULL, json_flags(p), &f->budget, e);
    if (!s)
        s = list_notes(c, &notes, e);
    if (s)
        free(notes.text);
    return s;
}

/* Of {"tools": [...], "schema": {...}}, the two. */
static enum tern_status split_tools(struct tool_script_params *params, struct budget *b,
                                    struct tern_error *e)
{
    const char *text = params->tools;
    struct json j = {0};
    enum tern_status s = json_read(&j, text, params->n, "tools", b, e);
    if (s)
        return s;
    uint32_t tools = json_find(&j, 0, "tools", 5), schema = json_find(&j, 0, "schema", 6);
    if (tools && schema) {
        const struct json_value *x = &j.values[tools], *y = &j.values[schema];
        params->tools = text + x->from, params->n = x->to - x->from;
        params->schema = text + y->from, params->n_schema = y->to - y->from;
    }
    json_close(&j);
    return TERN_OK;
}

static enum tern_status open_tools(tern_constraint *c, struct constraint_form *f,
                                   const struct tern_constraint_params *p, struct tern_error *e)
{
    struct schema_notes notes = {0};
    struct shapes shapes = {0};
    struct script script;
    struct tool_script_params params = {.tools = p->text ? p->text : "",
                                        .n = p->bytes,
                                        .choice = p->tool_choice,
                                        .parallel = p->flags & TERN_CONSTRAINT_PARALLEL,
                                        .thinks =
                                            c->chat && chat_begins_thought(c->chat, p->chat_flags),
                                        .schema_flags = schema_flags(p),
                                        .spelling = c->spelling};
    enum tern_status s = alphabet_check_json(c->spelling, e);
    if (!s && p->bytes && *p->text == '{')
        s = split_tools(&params, &f->budget, e);
    if (!s)
        s = tool_script_open(&shapes, &script, c->chat, &params, &f->budget, &notes, e);
    if (!s)
        s = json_recognizer_open(&f->recognizer, &shapes, &script, json_flags(p), &f->budget, e);
    if (!s)
        s = list_notes(c, &notes, e);
    if (s)
        free(notes.text);
    return s;
}

static enum tern_status open_kind(tern_constraint *c, struct constraint_form *f,
                                  const struct tern_constraint_params *p, struct tern_error *e)
{
    enum tern_status s;
    switch (p->kind) {
    case TERN_CONSTRAINT_REGEX:
    case TERN_CONSTRAINT_CHOICE:
        return open_regular(c, f, p, e);
    case TERN_CONSTRAINT_JSON:
    case TERN_CONSTRAINT_SCHEMA:
        return open_json(c, f, p, e);
    case TERN_CONSTRAINT_GRAMMAR:
        if ((s = alphabet_check_bytes(c->spelling, "grammar", e)))
            return s;
        return gbnf_open(&f->recognizer, p->text, p->bytes,
                         &(const struct gbnf_tokens){alphabet_has_special, c->spelling}, &f->budget,
                         e);
    case TERN_CONSTRAINT_TOOLS:
        return open_tools(c, f, p, e);
    }
    return error_set(e, TERN_USAGE, "constraint: kind %d is unknown", (int)p->kind);
}

void constraint_form_leave(struct constraint_form *f)
{
    if (!f || --f->n_users)
        return;
    masks_close(f->masks);
    if (f->recognizer.close)
        f->recognizer.close(f->recognizer.self);
    quota_give(f->budget.quota, f->whole - f->budget.bytes + sizeof *f);
    free(f);
}

/* Files may begin with a byte order mark. */
static struct tern_constraint_params without_mark(const struct tern_constraint_params *p)
{
    struct tern_constraint_params q = *p;
    bool file = p->kind == TERN_CONSTRAINT_SCHEMA || p->kind == TERN_CONSTRAINT_GRAMMAR;
    if (file && p->bytes >= 3 && !memcmp(p->text, "\xEF\xBB\xBF", 3))
        q.text += 3, q.bytes -= 3;
    return q;
}

/* The newest form becomes what `p` is compiled into. After an error nothing changed. */
static enum tern_status open_form(tern_constraint *c, const struct tern_constraint_params *marked,
                                  struct stop *stop, struct tern_error *e)
{
    const struct tern_constraint_params params = without_mark(marked), *p = &params;
    struct constraint_form *f = quota_take(&c->quota, sizeof *f) ? calloc(1, sizeof *f) : NULL;
    enum tern_status s;
    if (!f)
        return error_memory(e, "a constraint", sizeof *f);
    f->n_users = 1;
    f->whole = f->budget.bytes = f->budget.all_bytes =
        p->max_bytes ? p->max_bytes : CONSTRAINT_BYTES;
    f->budget.quota = &c->quota;
    f->budget.steps = f->budget.all_steps = p->max_steps ? p->max_steps : CONSTRAINT_STEPS;
    f->budget.stop = stop;
    const uint64_t steps = f->budget.steps;
    if ((s = open_kind(c, f, p, e)) ||
        (s = alphabet_check_trigger(c->spelling, p->trigger, p->trigger_bytes, e)) ||
        (p->trigger_bytes && (s = lazy_open(&f->recognizer, c->spelling, p, e)))) {
        constraint_form_leave(f);
        return s;
    }
    f->room = f->budget.bytes;
    f->budget.steps = steps;
    f->budget.stop = NULL;
    f->masks = masks_open(&f->recognizer, c->spelling, &f->budget);
    if (!f->masks) {
        constraint_form_leave(f);
        return error_memory(e, "masks", c->spelling->n_tokens);
    }
    constraint_form_leave(c->form);
    c->form = f;
    return TERN_OK;
}

bool constraint_renew(tern_constraint *c, struct stop *stop)
{
    struct constraint_form *f = c->form;
    if (f->room < f->whole / 8)
        return false;
    enum tern_status s = open_form(c, &c->params, stop, NULL);
    f->budget.no_memory |= s == TERN_NO_MEMORY;
    return !s;
}

/* Text, trigger and choice of tool in one block, which `text` begins */
static enum tern_status keep_params(tern_constraint *c, const struct tern_constraint_params *p,
                                    struct tern_error *e)
{
    size_t n_choice = p->tool_choice ? strlen(p->tool_choice) + 1 : 0;
    size_t size = p->bytes + p->trigger_bytes + n_choice + 1;
    char *all = count(c, size) ? malloc(size) : NULL;
    if (!all)
        return error_memory(e, "a constraint", size);
    c->params = *p;
    c->params.text = all;
    c->params.trigger = all + p->bytes;
    c->params.tool_choice = p->tool_choice ? all + p->bytes + p->trigger_bytes : NULL;
    if (p->bytes)
        memcpy(all, p->text, p->bytes);
    if (p->trigger_bytes)
        memcpy(all + p->bytes, p->trigger, p->trigger_bytes);
    if (n_choice)
        memcpy(all + p->bytes + p->trigger_bytes, p->tool_choice, n_choice);
    return TERN_OK;
}

enum tern_status constraint_open(tern_constraint **out, const struct spelling *spelling,
                                 const struct chat *chat, const struct tern_constraint_params *p,
                                 struct quota *quota, struct stop *stop, struct tern_error *e)
{
    *out = NULL;
    if (p->flags & ~ALL_FLAGS || p->chat_flags & ~ALL_CHAT_FLAGS)
        return error_set(e, TERN_USAGE, "constraint: the flags 0x%x are unknown",
                         p->flags & ~ALL_FLAGS ? p->flags & ~ALL_FLAGS
                                               : p->chat_flags & ~ALL_CHAT_FLAGS);
    tern_constraint *c = calloc(1, sizeof *c);
    if (!c)
        return error_memory(e, "a constraint", sizeof *c);
    c->spelling = spelling, c->chat = chat;
    c->quota.limit = SIZE_MAX, c->quota.of = quota;
    enum tern_status s;
    if ((s = lock_open(&c->lock, e)) || (s = open_form(c, p, stop, e)) ||
        (s = keep_params(c, p, e))) {
        if (s == TERN_NO_MEMORY && quota_never_fits(&c->quota))
            s = error_set(
                e, TERN_LIMIT,
                "constraint: it takes %zu bytes or more, and all constraints together may "
                "take %zu",
                (size_t)c->quota.refused, quota->limit);
        constraint_close(c);
    } else {
        *out = c;
    }
    return s;
}

void constraint_close(tern_constraint *c)
{
    if (!c)
        return;
    constraint_form_leave(c->form);
    lock_close(c->lock);
    free((char *)c->params.text);
    free(c->left_out);
    free(c->notes);
    quota_give(&c->quota, c->bytes);
    free(c);
}
