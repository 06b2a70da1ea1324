/* What an answer must be: see answer_rules.h. */
#include "app/serve/api/answer_rules.h"

#include "app/serve/api/tool_list.h"
#include "app/serve/server.h"
#include "tern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b)
{
    return a && !strcmp(a, b);
}

bool answer_rules_must_call(const struct answer_rules *r)
{
    return r->tool_choice && !is(r->tool_choice, "auto") && !is(r->tool_choice, "none");
}

bool answer_rules_may_call_or_text(const struct answer_rules *r)
{
    return r->tools && r->format != FORMAT_TEXT && (!r->tool_choice || is(r->tool_choice, "auto"));
}

bool answer_rules_think(const struct answer_rules *r, const struct server *s)
{
    char none[1];
    return !r->plain && !r->spoke &&
           (r->opened || tern_chat_opening(s->model, r->chat_flags, none, 0));
}

/* The core's messages name the tool. */
static void add_ignored(char *ignored, size_t max, const char *what)
{
    size_t n = strlen(ignored);
    int more = snprintf(ignored + n, max - n, "%s%s", n ? ", " : "", what);
    if (more < 0 || (size_t)more >= max - n)
        ignored[n] = 0;
}

/* Appends what c leaves to the model. */
static void list_left_out(const struct compiled *c, char *ignored, size_t max)
{
    const char *what;
    for (size_t i = 0; (what = tern_constraint_left_out(compiled_get(c), i)); i++)
        add_ignored(ignored, max, what);
}

/* `text` has the tools, or the tools and a schema. */
static bool find_tools(struct server *s, const struct answer_rules *r, const char *text,
                       struct compiled **out, char *ignored, size_t max, struct fault *f)
{
    struct tern_constraint_params p = {.kind = TERN_CONSTRAINT_TOOLS,
                                       .text = text,
                                       .bytes = strlen(text),
                                       .flags = r->parallel ? TERN_CONSTRAINT_PARALLEL : 0u,
                                       .tool_choice = r->tool_choice,
                                       .chat_flags = r->chat_flags};
    struct fault first = {0}, second = {0};
    if ((*out = compiled_find(s, &p, &first)))
        return true;
    p.flags |= TERN_CONSTRAINT_LAX;
    if (first.status == 400 && (*out = compiled_find(s, &p, &second))) {
        list_left_out(*out, ignored, max);
        return true;
    }
    p.flags |= TERN_CONSTRAINT_ANNOTATE; /* formats may be too much for the budget */
    if (second.status == 400 && (*out = compiled_find(s, &p, &second))) {
        add_ignored(ignored, max, "tools: format is not enforced");
        list_left_out(*out, ignored, max);
        return true;
    }
    const struct fault *why = second.status && second.status != 400 ? &second : &first;
    if (answer_rules_must_call(r) || text != r->tools || why->status != 400) {
        *f = *why;
        tool_list_blame(r->tool_places, f);
        fault_blame(f, text == r->tools ? "tools" : r->format_field);
        return false;
    }
    add_ignored(ignored, max, first.message);
    return true;
}

static bool find_format(struct server *s, const struct answer_rules *r, struct compiled **out,
                        struct fault *f)
{
    static const enum tern_constraint_kind kinds[] = {[FORMAT_JSON] = TERN_CONSTRAINT_JSON,
                                                      [FORMAT_SCHEMA] = TERN_CONSTRAINT_SCHEMA,
                                                      [FORMAT_REGEX] = TERN_CONSTRAINT_REGEX,
                                                      [FORMAT_GRAMMAR] = TERN_CONSTRAINT_GRAMMAR,
                                                      [FORMAT_CHOICE] = TERN_CONSTRAINT_CHOICE};
    struct tern_chat_info info;
    struct tern_constraint_params p = {.kind = kinds[r->format], .text = r->text, .bytes = r->n};
    if (tern_chat_info(s->model, &info) && answer_rules_think(r, s)) {
        p.trigger = info.thought_end, p.trigger_bytes = info.thought_end_bytes;
        p.flags |= p.trigger_bytes ? TERN_CONSTRAINT_MUST_TRIGGER : 0u;
    }
    *out = compiled_find(s, &p, f);
    fault_blame(f, r->format_field);
    return *out != NULL;
}

/* Calls, or a text of the format, which is looked at by itself first: what is wrong with it is said of it. */
static bool find_both(struct server *s, const struct answer_rules *r, struct compiled **out,
                      char *ignored, size_t max, struct fault *f)
{
    static const char pattern[] = "{\"tools\": %s, \"schema\": %.*s}",
                      object[] = "{\"type\": \"object\"}";
    bool any = r->format == FORMAT_JSON;
    size_t n = any ? sizeof object - 1 : r->n, size = sizeof pattern + r->n_tools + n;
    struct compiled *alone = NULL;
    if (!any && r->format != FORMAT_SCHEMA) {
        fault_set(f, 400, NULL, NULL, r->format_field,
                  "%s cannot be enforced in an answer that may call tools; send no tools, or "
                  "\"none\" as %s",
                  r->format_field, r->choice_field);
        return false;
    }
    if (!find_format(s, r, &alone, f))
        return false;
    compiled_release(alone);
    char *text = malloc(size);
    if (!text)
        return fault_no_memory(f, "the conversation");
    snprintf(text, size, pattern, r->tools, (int)n, any ? object : r->text);
    bool ok = find_tools(s, r, text, out, ignored, max, f);
    free(text);
    return ok;
}

bool answer_rules_find(struct server *s, const struct answer_rules *r, struct compiled **out,
                       char *ignored, size_t max, struct fault *f)
{
    *out = NULL;
    if (answer_rules_must_call(r) && !r->tools) {
        fault_set(f, 400, NULL, NULL, r->choice_field,
                  "%s asks for a call, but there are no tools that this model's chat template can "
                  "write",
                  r->choice_field);
        return false;
    }
    if (answer_rules_may_call_or_text(r))
        return find_both(s, r, out, ignored, max, f);
    if (r->format != FORMAT_TEXT)
        return find_format(s, r, out, f);
    return !r->tools || find_tools(s, r, r->tools, out, ignored, max, f);
}

/* What was said does not fit, or cannot be looked at. */
static bool fault_of_said(const struct answer_rules *r, const struct server *s, size_t at,
                          const struct tern_error *e, struct fault *f)
{
    tern_decoder *d = NULL;
    size_t bytes = 0, n;
    if (e->code == TERN_NO_MEMORY || tern_decoder_open(&d, s->model, 1, NULL))
        return fault_no_memory(f, "the conversation");
    for (size_t i = r->n_said - r->n_text; i < at; i++) {
        (void)tern_decoder_bytes(d, r->said[i], &n);
        bytes += n;
    }
    tern_decoder_close(d);
    if (e->code == TERN_USAGE)
        fault_set(f, 400, NULL, "invalid_value", NULL,
                  "the answer has a beginning already, which %s does not allow: it fits as far as "
                  "byte %zu",
                  r->format == FORMAT_TEXT ? "tools" : r->format_field, bytes);
    else
        fault_set(f, e->code == TERN_LIMIT ? 400 : 500, NULL, NULL, NULL, "%s", e->text);
    return false;
}

/* A new state of c behind the tokens said[*at..to). *at: how many of `said` it knows. */
static enum tern_status follow(const struct answer_rules *r, const struct compiled *c, size_t *at,
                               size_t to, tern_constraint_state **out, struct tern_error *e)
{
    enum tern_status status = tern_constraint_state_open(out, compiled_get(c), e);
    while (!status && *at < to && !(status = tern_constraint_accept(*out, r->said[*at], e)))
        ++*at;
    return status;
}

bool answer_rules_begin(const struct answer_rules *r, const struct server *s,
                        const struct compiled *c, tern_constraint_state **out, struct fault *f)
{
    struct tern_error e = {0};
    bool calls = r->format == FORMAT_TEXT, both = answer_rules_may_call_or_text(r);
    size_t thought = r->n_said - r->n_text, at = calls || both ? 0 : thought;
    *out = NULL;
    if (!c || at == r->n_said)
        return true;
    enum tern_status status = follow(r, c, &at, r->n_said, out, &e);
    bool begun = status ? r->said_call : !tern_constraint_can_end(*out);
    if (calls && (!status || status == TERN_USAGE) && !begun) {
        tern_constraint_state_close(*out);
        *out = NULL, at = 0;
        status = thought ? follow(r, c, &at, thought, out, &e) : TERN_OK;
    }
    return !status || fault_of_said(r, s, at, &e, f);
}
