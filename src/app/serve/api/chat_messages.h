/* The messages of a request in OpenAI's form, as a dialog. */
#ifndef SERVE_CHAT_MESSAGES_H
#define SERVE_CHAT_MESSAGES_H

#include "app/serve/api/fields.h"
#include "app/serve/api/turn.h"

/* Reads field `messages`, which must be there: at most `max`. Roles: system, developer, user, assistant,
 * tool and function. Contents: a text, null, or an array of parts of type text (and refusal). Of the user, a
 * part of another type is a fault; elsewhere it is left out and named in t->ignored. */
bool chat_messages_read(struct turn *t, struct fields *f, size_t max);

#endif
