/* `tools` and `tool_choice` of /v1/responses. */
#ifndef SERVE_RESPONSES_TOOLS_H
#define SERVE_RESPONSES_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/api/fields.h"
#include "app/serve/api/turn.h"

/* Functions, custom tools and those of namespaces go to the dialog, the choice to the rules, both to `echo`,
 * the response. special, an object, gets {"custom": true} or {"namespace": "..."} under the names of those
 * whose calls look so. Tools of other types are skipped and named in t->ignored: Codex sends web_search
 * unasked. */
bool responses_tools_read(struct turn *t, const struct server *s, struct fields *f, json_t *echo,
                          json_t *special);

#endif
