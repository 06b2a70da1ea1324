/* Tools of a message: see messages_tools.h. */
#include "app/serve/api/messages_tools.h"

#include "app/serve/serve_options.h"

#include <stdio.h>
#include <string.h>

struct messages_tools {
    struct turn *turn;
    json_t *names; /* object: of each tool whether it was written */
};

/* A tool with a schema, in OpenAI's form */
static bool add_function(struct messages_tools *t, struct fields *f)
{
    const char *name = NULL, *description = NULL;
    if (!tool_list_name(f, &name) || !fields_text(f, "description", &description, NULL) ||
        !fields_need(f, "input_schema"))
        return false;
    json_t *function = json_pack("{s:s, s:s*, s:O}", "name", name, "description", description,
                                 "parameters", fields_any(f, "input_schema"));
    json_object_set_new(t->names, name, json_true());
    bool ok = tool_list_add(&t->turn->tools, f, name, "input_schema",
                            json_pack("{s:s, s:o}", "type", "function", "function", function));
    fields_ignore(f, "type cache_control strict");
    fields_unasked(f, "defer_loading");
    fields_unasked(f, "eager_input_streaming");
    fields_unasked(f, "input_examples");
    turn_unknown(t->turn, f);
    return ok;
}

static bool add_tool(struct messages_tools *t, json_t *tool, size_t i, struct fault *fault)
{
    struct fields f;
    char place[32];
    const char *type = "custom", *name = NULL;
    (void)snprintf(place, sizeof place, "tools[%zu]", i);
    if (!fields_open(&f, tool, place, fault) || !fields_text(&f, "type", &type, NULL))
        return false;
    if (!strcmp(type, "custom"))
        return add_function(t, &f);
    if (!fields_text(&f, "name", &name, NULL))
        return false;
    if (name && !json_object_get(t->names, name))
        json_object_set_new(t->names, name, json_false());
    turn_ignore(t->turn, "%s (%.40s)", place, type);
    return true;
}

/* {"type": "tool", "name": "..."} */
static bool choose_tool(struct messages_tools *t, struct fields *in)
{
    const char *name = NULL;
    if (!fields_need(in, "name") || !fields_text(in, "name", &name, NULL))
        return false;
    json_t *known = json_object_get(t->names, name);
    if (!known)
        return fields_fault(in, "name", NULL, "is %.60s, which is none of tools", name);
    if (json_is_false(known)) {
        turn_ignore(t->turn, "tool_choice (%.60s)", name);
        return true;
    }
    t->turn->choice = strdup(name);
    t->turn->rules.tool_choice = t->turn->choice;
    return t->turn->choice != NULL;
}

static bool read_choice(struct messages_tools *t, struct fields *f)
{
    enum { AUTO, ANY, NONE, TOOL };
    static const char *const words[] = {"auto", "required", "none"};
    struct fields in;
    bool present, single = false;
    size_t kind = AUTO;
    if (!fields_inside(f, "tool_choice", &in, &present) || (present && !fields_need(&in, "type")) ||
        !fields_choice(&in, "type", "auto|any|none|tool", &kind) ||
        !fields_bool(&in, "disable_parallel_tool_use", &single))
        return false;
    t->turn->rules.parallel = !single;
    if (kind < TOOL)
        t->turn->rules.tool_choice = words[kind];
    bool ok = kind < TOOL || choose_tool(t, &in);
    turn_unknown(t->turn, &in);
    return ok;
}

static bool read_all(struct messages_tools *t, const struct server *s, struct fields *f)
{
    json_t *list = NULL, *tool;
    size_t i;
    if (!fields_array(f, "tools", (size_t)serve_number(s->options, SERVE_MAX_TOOLS), &list))
        return false;
    json_array_foreach(list, i, tool) if (!add_tool(t, tool, i, f->fault)) return false;
    return read_choice(t, f);
}

bool messages_tools_read(struct turn *turn, const struct server *s, struct fields *f)
{
    struct messages_tools t = {.turn = turn, .names = json_object()};
    bool ok = tool_list_open(&turn->tools, f->fault) && t.names && read_all(&t, s, f);
    if (ok)
        tool_list_give(turn, s, "tools");
    json_decref(t.names);
    return ok;
}
