/* `input` of /v1/responses: items of a conversation, into a dialog. */
#ifndef SERVE_RESPONSES_INPUT_H
#define SERVE_RESPONSES_INPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/api/turn.h"

/* input: a text of the user, or an array of items. Items of a type that has no place in a conversation are
 * named in t->ignored. False: the fault names the item. */
bool responses_input_read(struct turn *t, json_t *input, struct fault *f);

#endif
