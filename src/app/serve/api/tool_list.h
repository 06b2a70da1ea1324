/* The tools of a request, as chat templates take them. The readers of all APIs add to it, so that names and
 * schemas follow one rule, and a fault names the field of the API. */
#ifndef SERVE_TOOL_LIST_H
#define SERVE_TOOL_LIST_H

#include <jansson.h>

#include "app/serve/api/fields.h"

struct server;
struct turn;

struct tool_list { /* zeroed: none */
    json_t *
        written; /* array of {"type": "function", "function": {"name", "description", "parameters"}} */
    json_t *places; /* object: by the name of a tool, the path of its schema */
};

bool tool_list_open(struct tool_list *l, struct fault *f);
void tool_list_close(struct tool_list *l);
json_t *tool_list_find(const struct tool_list *l, const char *name); /* NULL: none of this name */

/* The field "name" of f, which must be there: 1 to 64 letters, digits and _ . - */
bool tool_list_name(struct fields *f, const char **name);
/* Appends a tool, which is stolen, whose schema is in field `schema` of f: an object, or absent. No tool before may
 * have this name. */
bool tool_list_add(struct tool_list *l, struct fields *f, const char *name, const char *schema,
                   json_t *tool);
/* The tools become the conversation's, if there are some. They are named as without effect, under `field`, where
 * the template takes none. */
void tool_list_give(struct turn *t, const struct server *s, const char *field);
/* A fault of the core about a tool, "tool NAME: ..." or "tools: function 'NAME'...", gets the path of that tool's
 * schema. */
void tool_list_blame(const json_t *places, struct fault *f);

#endif
