/* Functions and values as Gemma 4's template writes them (FORMAT.md, "Tools"): strings stand between <|"|>,
 * and members of objects are sorted as Jinja's dictsort does. */
#ifndef TEXT_TOOL_GEMMA_H
#define TEXT_TOOL_GEMMA_H

#include "text/tool_text.h"

void tool_gemma_put_value(struct tool_text *t, uint32_t node);
/* declaration:name{description:...,parameters:{...}} */
void tool_gemma_put_function(struct tool_text *t, uint32_t function);
/* A string that is no node */
bool tool_gemma_put_string(const char *p, size_t n, struct buffer *out, tool_text_special token,
                           void *arg);

#endif
