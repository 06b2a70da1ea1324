/* `system` and `messages` of /v1/messages, into a dialog. */
#ifndef SERVE_MESSAGES_INPUT_H
#define SERVE_MESSAGES_INPUT_H

#include <stdbool.h>

#include "app/serve/api/turn.h"

/* Blocks of a type that has no place in a conversation are named in t->ignored; so is the first block of a
 * system text that differs in every request of Claude Code, with which no beginning of a prompt would ever
 * be found again. f: the body. */
bool messages_input_read(struct turn *t, const struct server *s, struct fields *f);

#endif
