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
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

static enum tern_status no_memory(struct tern_error *e)
{
    return error_memory(e, "a constraint", sizeof(struct tern_constraint));
}

/* A regular expression or a choice */
static enum tern_status open_regular(tern_constraint *c, const struct tern_constraint_params *p,
                                     struct tern_error *e)
{
    bool is_choice = p->kind == TERN_CONSTRAINT_CHOICE;
    struct tern_error why = {0};
    struct languages *ls = languages_open(&c->budget);
    if (!ls)
        return budget_refuse(&c->budget, e, is_choice ? "choice" : "regex");
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
    return regular_open(&c->recognizer, ls, a, is_choice ? "choice" : "regex", e);
}

/* The sentences of `notes`, one by one */
static enum tern_status list_notes(tern_constraint *c, const struct schema_notes *notes,
                                   struct tern_error *e)
{
    size_t n = 0;
    for (size_t i = 0; i < notes->n; i++)
        n += !notes->text[i];
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

static enum tern_status open_json(tern_constraint *c, const struct tern_constraint_params *p,
                                  struct tern_error *e)
{
    static const char object[] = "{\"type\": \"object\"}";
    struct schema_notes notes = {0};
    struct shapes shapes = {0};
    bool any = p->kind == TERN_CONSTRAINT_JSON;
    enum tern_status s = alphabet_check_json(c->spelling, e);
    if (s)
        return s;
    s = schema_compile(&shapes, any ? object : p->text, any ? sizeof object - 1 : p->bytes,
                       schema_flags(p), &c->budget, &notes, e);
    if (!s)
        s = json_recognizer_open(&c->recognizer, &shapes, NULL, json_flags(p), &c->budget, e);
    if (!s)
        s = list_notes(c, &notes, e);
    if (s)
        free(notes.text);
    return s;
}

static enum tern_status open_tools(tern_constraint *c, const struct chat *chat,
                                   const struct tern_constraint_params *p, struct tern_error *e)
{
    struct schema_notes notes = {0};
    struct shapes shapes = {0};
    struct script script;
    const struct tool_script_params params = {.tools = p->text ? p->text : "",
                                              .n = p->bytes,
                                              .choice = p->tool_choice,
                                              .parallel = p->flags & TERN_CONSTRAINT_PARALLEL,
                                              .thinks =
                                                  chat && chat_begins_thought(chat, p->chat_flags),
                                              .schema_flags = schema_flags(p),
                                              .spelling = c->spelling};
    enum tern_status s = alphabet_check_json(c->spelling, e);
    if (!s)
        s = tool_script_open(&shapes, &script, chat, &params, &c->budget, &notes, e);
    if (!s)
        s = json_recognizer_open(&c->recognizer, &shapes, &script, json_flags(p), &c->budget, e);
    if (!s)
        s = list_notes(c, &notes, e);
    if (s)
        free(notes.text);
    return s;
}

static enum tern_status open_kind(tern_constraint *c, const struct chat *chat,
                                  const struct tern_constraint_params *p, struct tern_error *e)
{
    enum tern_status s;
    switch (p->kind) {
    case TERN_CONSTRAINT_REGEX:
    case TERN_CONSTRAINT_CHOICE:
        return open_regular(c, p, e);
    case TERN_CONSTRAINT_JSON:
    case TERN_CONSTRAINT_SCHEMA:
        return open_json(c, p, e);
    case TERN_CONSTRAINT_GRAMMAR:
        if ((s = alphabet_check_bytes(c->spelling, "grammar", e)))
            return s;
        return gbnf_open(&c->recognizer, p->text, p->bytes, &c->budget, e);
    case TERN_CONSTRAINT_TOOLS:
        return open_tools(c, chat, p, e);
    }
    return error_set(e, TERN_USAGE, "constraint: kind %d is unknown", (int)p->kind);
}

static enum tern_status open_parts(tern_constraint *c, const struct chat *chat,
                                   const struct tern_constraint_params *p, struct tern_error *e)
{
    enum tern_status s;
    const uint64_t steps = c->budget.steps;
    if ((s = lock_open(&c->lock, e)) || (s = open_kind(c, chat, p, e)) ||
        (s = alphabet_check_text(c->spelling, p->trigger, p->trigger_bytes, e)) ||
        (p->trigger_bytes && (s = lazy_open(&c->recognizer, c->spelling, p, e))))
        return s;
    c->budget.steps = steps;
    c->masks = masks_open(&c->recognizer, c->spelling, &c->budget);
    return c->masks ? TERN_OK : error_memory(e, "masks", c->spelling->n_tokens);
}

enum tern_status constraint_open(tern_constraint **out, const struct spelling *spelling,
                                 const struct chat *chat, const struct tern_constraint_params *p,
                                 struct tern_error *e)
{
    tern_constraint *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return error_memory(e, "a constraint", sizeof *c);
    c->spelling = spelling;
    c->budget.bytes = p->max_bytes ? p->max_bytes : CONSTRAINT_BYTES;
    c->budget.steps = p->max_steps ? p->max_steps : CONSTRAINT_STEPS;
    enum tern_status s = open_parts(c, chat, p, e);
    if (s)
        constraint_close(c);
    else
        *out = c;
    return s;
}

void constraint_close(tern_constraint *c)
{
    if (!c)
        return;
    masks_close(c->masks);
    if (c->recognizer.close)
        c->recognizer.close(c->recognizer.self);
    lock_close(c->lock);
    free(c->left_out);
    free(c->notes);
    free(c);
}
