/* What the notations of functions and values share: where they write, and how they look at JSON. */
#ifndef TEXT_TOOL_TEXT_H
#define TEXT_TOOL_TEXT_H

#include "text/buffer.h"
#include "text/json_read.h"

/* Writes a special token; false: see `arg`. */
typedef bool (*tool_text_special)(void *arg, const char *name, size_t n);

struct tool_text {
    const struct json *j;
    struct buffer *out;
    tool_text_special token;
    void *arg;
    const char *missing; /* what the template lacks: it would fail */
    bool ok;             /* false: no memory, or `missing` */
};

void tool_text_add(struct tool_text *t, const char *p, size_t n);
void tool_text_put(struct tool_text *t, const char *text);
/* A special token of that name */
void tool_text_token(struct tool_text *t, const char *name);
void tool_text_fail(struct tool_text *t, const char *missing);

/* Values, 0 for one that is missing */
uint32_t tool_text_member(const struct tool_text *t, uint32_t object, const char *name);
bool tool_text_is(const struct tool_text *t, uint32_t node, enum json_type type);
/* As Python sees it */
bool tool_text_is_true(const struct tool_text *t, uint32_t node);
/* As str() spells it; nothing for 0 */
void tool_text_plain(struct tool_text *t, uint32_t node);
void tool_text_key(struct tool_text *t, uint32_t node);

#endif
