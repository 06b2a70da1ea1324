/* Tools of a request: see tool_list.h. */
#include "app/serve/api/tool_list.h"

#include <stdio.h>
#include <string.h>

#include "app/serve/api/turn.h"
#include "app/serve/server.h"

bool tool_list_open(struct tool_list *l, struct fault *f)
{
    *l = (struct tool_list){.written = json_array(), .places = json_object()};
    return (l->written && l->places) || fault_no_memory(f, "the tools");
}

void tool_list_close(struct tool_list *l)
{
    json_decref(l->written);
    json_decref(l->places);
    *l = (struct tool_list){0};
}

json_t *tool_list_find(const struct tool_list *l, const char *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(l->written, i, tool)
    {
        const json_t *own = json_object_get(json_object_get(tool, "function"), "name");
        if (!strcmp(json_string_value(own), name))
            return tool;
    }
    return NULL;
}

bool tool_list_name(struct fields *f, const char **name)
{
    if (!fields_need(f, "name") || !fields_text(f, "name", name, NULL))
        return false;
    size_t n = strspn(*name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return (n && n <= 64 && !(*name)[n]) ||
           fields_fault(f, "name", "invalid_value",
                        "must be 1 to 64 letters, digits and _ . -; it is '%.80s'", *name);
}

bool tool_list_add(struct tool_list *l, struct fields *f, const char *name, const char *schema,
                   json_t *tool)
{
    json_t *none = NULL;
    char place[128];
    (void)snprintf(place, sizeof place, "%s.%s", f->place, schema);
    bool ok = !tool_list_find(l, name) ||
              fields_fault(f, "name", "invalid_value", "is '%s', as of an earlier tool", name);
    if (!ok || !fields_object(f, schema, &none)) {
        json_decref(tool);
        return false;
    }
    return (!json_array_append_new(l->written, tool) &&
            !json_object_set_new(l->places, name, json_string(place))) ||
           fault_no_memory(f->fault, "the tools");
}

void tool_list_give(struct turn *t, const struct server *s, const char *field)
{
    struct tern_chat_info info;
    if (!json_array_size(t->tools.written))
        return;
    tern_chat_info(s->model, &info);
    if (!info.takes_tools)
        turn_ignore(t, "%s", field);
    dialog_tools(t->dialog, t->tools.written);
}

/* Behind `begin` the message has the name and `end`. */
static bool is_about(const char *message, const char *begin, const char *name, const char *end)
{
    size_t n = strlen(begin), n_name = strlen(name);
    return !strncmp(message, begin, n) && !strncmp(message + n, name, n_name) &&
           !strncmp(message + n + n_name, end, strlen(end));
}

void tool_list_blame(const json_t *places, struct fault *f)
{
    const char *name;
    json_t *place;
    json_object_foreach((json_t *)(uintptr_t)places, name, place)
    {
        if (is_about(f->message, "tool ", name, ":") ||
            is_about(f->message, "tool ", name, ","))
            fault_blame(f, json_string_value(place));
    }
}
