/* Functions and values in notations of their own, as some templates list them (FORMAT.md, "Tools"). */
#ifndef TEXT_TOOL_TYPES_H
#define TEXT_TOOL_TYPES_H

#include "text/buffer.h"
#include "text/json_read.h"

/* Writes a special token; false: see `arg`. */
typedef bool (*tool_types_token)(void *arg, const char *name, size_t n);

/* A tool, or its function, in notations TOJSON_TYPES, _SIGNATURE, _TAGS and _TAGS_APART; any value in TOJSON_GEMMA.
 * TERN_USAGE where the template itself would fail: "the function has no description". */
enum tern_status tool_types_put(const struct json *j, uint32_t node, uint32_t style,
                                struct buffer *out, tool_types_token token, void *arg,
                                struct tern_error *e);
/* A string in TOJSON_GEMMA: <|"|> on both sides */
bool tool_types_put_string(const char *p, size_t n, struct buffer *out, tool_types_token token,
                           void *arg);

#endif
