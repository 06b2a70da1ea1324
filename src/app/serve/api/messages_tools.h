/* `tools` and `tool_choice` of /v1/messages. */
#ifndef SERVE_MESSAGES_TOOLS_H
#define SERVE_MESSAGES_TOOLS_H

#include <stdbool.h>

#include "app/serve/api/turn.h"

/* Tools with a schema go to the dialog, the choice to the rules. Tools that the server would have to run or
 * to know (web_search_20250305, bash_20250124) are skipped and named in t->ignored; so is a choice of one. */
bool messages_tools_read(struct turn *t, const struct server *s, struct fields *f);

#endif
