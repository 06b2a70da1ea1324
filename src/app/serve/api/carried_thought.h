/* Thoughts that a client carries from one request to the next without showing them: `encrypted_content` of
 * Responses, `signature` of Messages. A template that keeps thoughts behind the last question needs them
 * back, and so does the store of prefixes. It is base64 behind a mark, and hides nothing. */
#ifndef SERVE_CARRIED_THOUGHT_H
#define SERVE_CARRIED_THOUGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "app/cli/growing_text.h"

void carried_thought_write(struct growing_text *t, const char *thought, size_t n); /* appends */
/* Appends the thought to t. False: text [n] is of another server, or damaged, and t is as it was. */
bool carried_thought_read(struct growing_text *t, const char *text, size_t n);

#endif
