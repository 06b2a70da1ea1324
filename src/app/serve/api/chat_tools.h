/* Tools of a request in OpenAI's form, and which of them may be called. */
#ifndef SERVE_CHAT_TOOLS_H
#define SERVE_CHAT_TOOLS_H

#include "app/serve/api/fields.h"
#include "app/serve/server.h"
#include "app/serve/api/turn.h"

/* Reads tools, tool_choice and parallel_tool_calls into the turn: dialog, rules, callable. Tools of other types
 * than function are left out, and named in t->ignored; so are all, where the template takes none.
 * *functions: the request has functions and function_call instead, as OpenAI's older API. */
bool chat_tools_read(struct turn *t, const struct server *s, struct fields *f, size_t max,
                     bool *functions);

#endif
