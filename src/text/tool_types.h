/* Functions and values in notations of their own, as some templates list them (FORMAT.md, "Tools"). */
#ifndef TEXT_TOOL_TYPES_H
#define TEXT_TOOL_TYPES_H

#include "text/tool_text.h"

/* A tool, or its function, in notations TOJSON_TYPES, _SIGNATURE, _DECLARATION, _TAGS and _TAGS_APART; any value in
 * TOJSON_GEMMA.
 * TERN_USAGE where the template itself would fail: "the function has no description". */
enum tern_status tool_types_put(const struct json *j, uint32_t node, uint32_t style,
                                struct buffer *out, tool_text_special token, void *arg,
                                struct tern_error *e);

#endif
