/* Tools of a response: see responses_tools.h. */
#include "app/serve/api/responses_tools.h"

#include "app/serve/serve_options.h"
#include "app/serve/http/json_wide.h"

#include <stdio.h>
#include <string.h>

struct responses_tools {
    struct turn *turn;
    json_t *echo;    /* array, as the response repeats them */
    json_t *special; /* object: how calls of some look in the response, by their names */
    size_t max;      /* tools */
    json_t *choice;  /* tool_choice as the response repeats it; a new reference */
};

static json_t *or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

/* A function for the template; special, stolen: what its calls look like in the response; NULL: as those of
 * any function. */
static bool write_function(struct responses_tools *t, struct fields *f, const char *name,
                           const char *description, json_t *parameters, json_t *special)
{
    json_t *function = json_pack("{s:s, s:s*, s:O*}", "name", name, "description", description,
                                 "parameters", parameters);
    json_t *written = json_pack("{s:s, s:o}", "type", "function", "function", function);
    if (special)
        json_object_set_new(t->special, name, special);
    return tool_list_add(&t->turn->tools, f, name, "parameters", written);
}

/* {"type": "function", "name", "description", "parameters", "strict"}; space: its namespace, or NULL */
static bool read_function(struct responses_tools *t, struct fields *f, const char *space)
{
    const char *name = NULL, *description = NULL;
    json_t *parameters = NULL;
    bool strict = false;
    if (!tool_list_name(f, &name) || !fields_text(f, "description", &description, NULL) ||
        !fields_object(f, "parameters", &parameters) || !fields_bool(f, "strict", &strict))
        return false;
    fields_ignore(f, "type");
    fields_unasked(f, "defer_loading");
    turn_unknown(t->turn, f);
    if (space && tool_list_find(&t->turn->tools, name)) {
        turn_ignore(t->turn, "%s (a second %.40s)", f->place, name);
        return true;
    }
    json_t *special = space ? json_pack("{s:s}", "namespace", space) : NULL;
    return write_function(t, f, name, description, parameters, special);
}

/* A tool of free text: for the template a function with one argument, the text. A grammar of it is not
 * enforced. */
static bool read_custom(struct responses_tools *t, struct fields *f)
{
    const char *name = NULL, *description = NULL, *type = "text";
    struct fields format;
    bool present;
    if (!tool_list_name(f, &name) || !fields_text(f, "description", &description, NULL) ||
        !fields_inside(f, "format", &format, &present) ||
        !fields_text(&format, "type", &type, NULL))
        return false;
    fields_ignore(f, "type");
    fields_unasked(f, "defer_loading");
    turn_unknown(t->turn, f);
    if (strcmp(type, "text"))
        turn_ignore(t->turn, "%s.format", f->place);
    else
        turn_unknown(t->turn, &format);
    json_t *parameters =
        json_pack("{s:s, s:{s:{s:s}}, s:[s], s:b}", "type", "object", "properties", "input", "type",
                  "string", "required", "input", "additionalProperties", 0);
    bool ok = write_function(t, f, name, description, parameters, json_pack("{s:b}", "custom", 1));
    json_decref(parameters);
    return ok;
}

static bool read_space(struct responses_tools *t, struct fields *f);

/* A tool as the response repeats it: a function with all of its fields, or null for those absent */
static json_t *echo_of(struct fields *f, const char *type)
{
    if (strcmp(type, "function"))
        return json_incref(f->object);
    return json_pack("{s:s, s:O, s:o, s:o, s:o}", "type", type, "name", fields_any(f, "name"),
                     "description", or_null(fields_any(f, "description")), "parameters",
                     or_null(fields_any(f, "parameters")), "strict",
                     or_null(fields_any(f, "strict")));
}

/* A tool, of namespace `space` or NULL. Tools that the server would have to run are skipped. */
static bool read_tool(struct responses_tools *t, json_t *tool, const char *place, const char *space,
                      struct fault *fault)
{
    struct fields f;
    const char *type = NULL;
    if (!fields_open(&f, tool, place, fault) || !fields_need(&f, "type") ||
        !fields_text(&f, "type", &type, NULL))
        return false;
    bool ok;
    if (!strcmp(type, "function")) {
        ok = read_function(t, &f, space);
    } else if (!strcmp(type, "custom") && !space) {
        ok = read_custom(t, &f);
    } else if (!strcmp(type, "namespace") && !space) {
        ok = read_space(t, &f);
    } else {
        turn_ignore(t->turn, "%s (%.40s)", place, type);
        return true;
    }
    return ok && (space || !json_array_append_new(t->echo, echo_of(&f, type)));
}

/* {"type": "namespace", "name", "description", "tools": [...]}: its functions */
static bool read_space(struct responses_tools *t, struct fields *f)
{
    const char *name = NULL, *description = NULL;
    json_t *list = NULL, *tool;
    size_t i;
    if (!fields_need(f, "name") || !fields_text(f, "name", &name, NULL) ||
        !fields_text(f, "description", &description, NULL) ||
        !fields_array(f, "tools", t->max, &list))
        return false;
    fields_ignore(f, "type");
    turn_unknown(t->turn, f);
    json_array_foreach(list, i, tool)
    {
        char place[128];
        (void)snprintf(place, sizeof place, "%s.tools[%zu]", f->place, i);
        if (json_array_size(t->turn->tools.written) == t->max)
            return fields_fault(f, "tools", "limit_exceeded",
                                "and the tools before are more than %zu", t->max);
        if (!read_tool(t, tool, place, name, f->fault))
            return false;
    }
    return true;
}

/* {"type": "function", "name": "..."}, also of type custom: this one must be called. */
static bool choose_function(struct responses_tools *t, struct fields *in)
{
    const char *name = NULL;
    if (!fields_need(in, "name") || !fields_text(in, "name", &name, NULL))
        return false;
    if (!tool_list_find(&t->turn->tools, name))
        return fields_fault(in, "name", NULL, "is %.60s, which is no function of tools", name);
    t->turn->choice = strdup(name);
    t->turn->rules.tool_choice = t->turn->choice;
    t->choice = json_incref(in->object);
    return t->turn->choice && t->choice;
}

/* {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "..."}]}: the prompt keeps
 * all tools, but only these may be called. */
static bool choose_allowed(struct responses_tools *t, struct fields *in)
{
    json_t *list = NULL, *entry;
    size_t mode = 0, i;
    if (!fields_choice(in, "mode", "auto|required", &mode) || !fields_need(in, "tools") ||
        !fields_array(in, "tools", json_array_size(t->turn->tools.written) + 256, &list))
        return false;
    t->turn->callable = json_array();
    json_array_foreach(list, i, entry)
    {
        struct fields one;
        char place[64];
        const char *name = NULL, *type = NULL;
        (void)snprintf(place, sizeof place, "tool_choice.tools[%zu]", i);
        if (!fields_open(&one, entry, place, in->fault) ||
            !fields_text(&one, "type", &type, NULL) || !fields_text(&one, "name", &name, NULL))
            return false;
        json_t *tool = name ? tool_list_find(&t->turn->tools, name) : NULL;
        if (tool)
            json_array_append(t->turn->callable, tool);
        else
            turn_ignore(t->turn, "%s", place);
        if (tool)
            turn_unknown(t->turn, &one);
    }
    bool none = !json_array_size(t->turn->callable);
    t->turn->rules.tool_choice = none ? "none" : mode ? "required" : "auto";
    t->choice = json_incref(in->object);
    return true;
}

static bool read_choice(struct responses_tools *t, struct fields *f)
{
    static const char *const words[] = {"auto", "none", "required"};
    json_t *choice = fields_any(f, "tool_choice");
    size_t word = 0;
    if (!json_is_members(choice)) {
        if (!fields_choice(f, "tool_choice", "auto|none|required", &word))
            return false;
        t->turn->rules.tool_choice = words[word];
        t->choice = json_string(words[word]);
        return t->choice != NULL;
    }
    struct fields in;
    bool present;
    const char *type = NULL;
    if (!fields_inside(f, "tool_choice", &in, &present) || !fields_need(&in, "type") ||
        !fields_text(&in, "type", &type, NULL))
        return false;
    bool allowed = !strcmp(type, "allowed_tools");
    if (allowed || !strcmp(type, "function") || !strcmp(type, "custom")) {
        bool ok = allowed ? choose_allowed(t, &in) : choose_function(t, &in);
        turn_unknown(t->turn, &in);
        return ok;
    }
    turn_ignore(t->turn, "tool_choice (%.40s)", type); /* of a tool that was skipped */
    t->choice = json_string("auto");
    return t->choice != NULL;
}

static bool read_all(struct responses_tools *t, struct fields *f)
{
    json_t *list = NULL, *tool;
    size_t i;
    if (!fields_array(f, "tools", t->max, &list))
        return false;
    json_array_foreach(list, i, tool)
    {
        char place[32];
        (void)snprintf(place, sizeof place, "tools[%zu]", i);
        if (!read_tool(t, tool, place, NULL, f->fault))
            return false;
    }
    return read_choice(t, f);
}

bool responses_tools_read(struct turn *turn, const struct server *s, struct fields *f, json_t *echo,
                          json_t *special)
{
    struct responses_tools t = {.turn = turn,
                                .echo = json_array(),
                                .special = special,
                                .max = (size_t)serve_number(s->options, SERVE_MAX_TOOLS)};
    bool parallel = true;
    bool ok = t.echo && tool_list_open(&turn->tools, f->fault) &&
              fields_bool(f, "parallel_tool_calls", &parallel) && read_all(&t, f);
    if (ok)
        tool_list_give(turn, s, "tools");
    turn->rules.parallel = parallel;
    ok = ok && !json_object_set(echo, "tools", t.echo) &&
         !json_object_set(echo, "tool_choice", t.choice) &&
         !json_object_set_new(echo, "parallel_tool_calls", json_boolean(parallel));
    json_decref(t.echo);
    json_decref(t.choice);
    return ok;
}
