/* Tools in OpenAI's form: see chat_tools.h. */
#include "app/serve/api/chat_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/serve/http/json_wide.h"

/* ---- tools ---------------------------------------------------------------------------------- */

/* Appends a function, in `tool` as templates take it, which is stolen. */
static bool add_function(struct turn *t, struct fields *function, json_t *tool)
{
    const char *name = NULL, *description = NULL;
    size_t n;
    if (!tool_list_name(function, &name) ||
        !fields_text(function, "description", &description, &n)) {
        json_decref(tool);
        return false;
    }
    return tool_list_add(&t->tools, function, name, "parameters", tool);
}

/* Appends a tool, or leaves it out. */
static bool read_tool(struct turn *t, struct fields *f, json_t *value, size_t i)
{
    struct fields tool, function;
    const char *type = "function";
    char place[32];
    bool present, strict;
    snprintf(place, sizeof place, "tools[%zu]", i);
    if (!fields_open(&tool, value, place, f->fault) || !fields_text(&tool, "type", &type, NULL))
        return false;
    if (strcmp(type, "function") != 0) {
        turn_ignore(t, "%s (%.40s)", place, type);
        return true;
    }
    if (!fields_need(&tool, "function") || !fields_inside(&tool, "function", &function, &present) ||
        !fields_bool(&function, "strict", &strict) || !add_function(t, &function, json_incref(value)))
        return false;
    turn_unknown(t, &function);
    turn_unknown(t, &tool);
    return true;
}

static bool read_tools(struct turn *t, struct fields *f, size_t max)
{
    json_t *v = NULL;
    bool ok = fields_array(f, "tools", max, &v);
    for (size_t i = 0; i < json_array_size(v) && ok; i++)
        ok = read_tool(t, f, json_array_get(v, i), i);
    return ok;
}

/* `functions` of OpenAI's older API: tools without the word */
static bool read_functions(struct turn *t, struct fields *f, size_t max)
{
    json_t *v = NULL;
    bool ok = fields_array(f, "functions", max, &v);
    for (size_t i = 0; i < json_array_size(v) && ok; i++) {
        json_t *one = json_array_get(v, i);
        struct fields function;
        char place[32];
        snprintf(place, sizeof place, "functions[%zu]", i);
        ok = fields_open(&function, one, place, f->fault) &&
             add_function(t, &function,
                          json_pack("{s:s, s:O}", "type", "function", "function", one));
        if (ok)
            turn_unknown(t, &function);
    }
    return ok;
}

/* ---- choice --------------------------------------------------------------------------------- */

static bool choose(struct turn *t, struct fields *f, const char *choice)
{
    t->choice = strdup(choice);
    t->rules.tool_choice = t->choice;
    return t->choice || fault_no_memory(f->fault, "the tools");
}

/* The tool that {"function": {"name": ...}} or {"name": ...} means. NULL: the fault says why. */
static json_t *chosen(struct turn *t, struct fields *choice, const char **name)
{
    struct fields function, *named = &function;
    bool present;
    if (!fields_inside(choice, "function", &function, &present))
        return NULL;
    if (!present)
        named = choice;
    if (!fields_need(named, "name") || !fields_text(named, "name", name, NULL))
        return NULL;
    turn_unknown(t, &function);
    json_t *tool = tool_list_find(&t->tools, *name);
    if (!tool)
        fields_fault(named, "name", "invalid_value", "is '%.80s', which is no tool", *name);
    return tool;
}

static bool choose_function(struct turn *t, struct fields *f, struct fields *choice)
{
    const char *name = NULL;
    return chosen(t, choice, &name) && choose(t, f, name);
}

/* One of the tools that may be called */
static bool allow(struct turn *t, const struct fields *some, size_t i, json_t *item)
{
    struct fields f;
    char place[96];
    const char *name = NULL, *type = NULL;
    (void)snprintf(place, sizeof place, "%.60s.tools[%zu]", some->place, i);
    if (!fields_open(&f, item, place, some->fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    json_t *tool = chosen(t, &f, &name);
    turn_unknown(t, &f);
    return tool && (!json_array_append(t->callable, tool) || fault_no_memory(f.fault, "the tools"));
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": ...}}]}}, or mode
 * and tools beside the type, as /v1/responses has them */
static bool choose_some(struct turn *t, struct fields *f, struct fields *choice)
{
    struct fields inner, *some = fields_has(choice, "tools") ? choice : &inner;
    json_t *list = NULL;
    size_t mode = 0;
    bool present;
    if ((some == &inner && !fields_need(choice, "allowed_tools")) ||
        !fields_inside(choice, "allowed_tools", &inner, &present) ||
        !fields_choice(some, "mode", "auto|required", &mode) ||
        !fields_array(some, "tools", SIZE_MAX, &list))
        return false;
    if (mode && !json_array_size(list))
        return fields_fault(some, "tools", "invalid_value", "is empty, but a call is required");
    if (!(t->callable = json_array()))
        return fault_no_memory(f->fault, "the tools");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!allow(t, some, i, json_array_get(list, i)))
            return false;
    turn_unknown(t, &inner);
    return choose(t, f, !json_array_size(list) ? "none" : mode ? "required" : "auto");
}

static bool read_choice(struct turn *t, struct fields *f)
{
    json_t *v = fields_any(f, "tool_choice");
    struct fields choice;
    size_t word = 0, type = 0;
    static const char *const words[] = {"auto", "none", "required", "required"};
    bool present;
    if (!v || json_is_string(v))
        return fields_choice(f, "tool_choice", "auto|none|required|any", &word) &&
               choose(t, f, words[word]);
    if (!json_is_members(v))
        return fields_fault(f, "tool_choice", "invalid_type", "must be a string or an object");
    if (!fields_inside(f, "tool_choice", &choice, &present) ||
        !fields_choice(&choice, "type", "function|allowed_tools", &type) ||
        !(type ? choose_some(t, f, &choice) : choose_function(t, f, &choice)))
        return false;
    turn_unknown(t, &choice);
    return true;
}

/* function_call: "auto", "none" or {"name": ...} */
static bool read_function_call(struct turn *t, struct fields *f)
{
    json_t *v = fields_any(f, "function_call");
    const char *name = NULL;
    struct fields choice;
    size_t word = 0;
    bool present;
    if (!v || json_is_string(v))
        return fields_choice(f, "function_call", "auto|none", &word) &&
               choose(t, f, word ? "none" : "auto");
    if (!fields_inside(f, "function_call", &choice, &present) || !fields_need(&choice, "name") ||
        !fields_text(&choice, "name", &name, NULL))
        return false;
    turn_unknown(t, &choice);
    if (!tool_list_find(&t->tools, name))
        return fields_fault(f, "function_call", "invalid_value",
                            "names '%.80s', which is no function", name);
    return choose(t, f, name);
}

/* Tools, or functions, of which an answer calls one at most */
static bool read_all(struct turn *t, struct fields *f, size_t max, bool old)
{
    t->rules.parallel = !old;
    t->rules.choice_field = old ? "function_call" : "tool_choice";
    return old ? read_functions(t, f, max) && read_function_call(t, f)
               : read_tools(t, f, max) && read_choice(t, f) &&
                     fields_bool(f, "parallel_tool_calls", &t->rules.parallel);
}

bool chat_tools_read(struct turn *t, const struct server *s, struct fields *f, size_t max,
                     bool *functions)
{
    *functions = !fields_has(f, "tools") && fields_has(f, "functions");
    if (!tool_list_open(&t->tools, f->fault) || !read_all(t, f, max, *functions))
        return false;
    tool_list_give(t, s, *functions ? "functions" : "tools");
    return true;
}
