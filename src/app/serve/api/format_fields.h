/* Fields that say what the text of an answer must be: OpenAI's response_format, llama.cpp's json_schema and
 * grammar, vLLM's guided_json, guided_regex, guided_choice, guided_grammar and structured_outputs. */
#ifndef SERVE_FORMAT_FIELDS_H
#define SERVE_FORMAT_FIELDS_H

#include "app/serve/api/fields.h"
#include "app/serve/api/turn.h"

/* Reads them into t->rules and t->format. At most one may be given, of at most `max` bytes. */
bool format_fields_read(struct turn *t, struct fields *f, size_t max);

#endif
