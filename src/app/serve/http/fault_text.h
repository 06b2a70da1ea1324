/* A fault in the words of an API: OpenAI's {"error": {...}} or Anthropic's {"type": "error", ...}. */
#ifndef SERVE_FAULT_TEXT_H
#define SERVE_FAULT_TEXT_H

#include "app/serve/http/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum { FAULT_TEXT = 5120 }; /* as long as any becomes */

/* The JSON into text [size >= FAULT_TEXT]; returns its length. */
size_t fault_json(const struct fault *f, bool anthropic, char *text, size_t size);
/* A whole answer of HTTP/1.1 that ends the connection. */
size_t fault_http(const struct fault *f, bool anthropic, char *text, size_t size);
/* "Bad Request" */
const char *fault_reason(int status);

#endif
