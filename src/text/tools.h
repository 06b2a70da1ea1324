/* The tools of a conversation, and names and ids of calls. */
#ifndef TEXT_TOOLS_H
#define TEXT_TOOLS_H

#include "text/buffer.h"
#include "text/json_read.h"

enum { TOOLS_BYTES_MAX = 1 << 20, TOOLS_MAX = 1024, TOOLS_NAME_MAX = 64, TOOLS_ID_MAX = 128 };

struct tools {
    struct buffer text;   /* the tools as a JSON array; a bare function is wrapped:
                           {"type": "function", "function": it} */
    struct budget budget; /* of the tree */
    struct json json;     /* of text: an array of objects with a member "function", an object */
};

/* Of a JSON array of tools as in OpenAI's API, or of bare functions. Names are letters, digits and _ . -,
 * and come once. The caller closes it, also after an error. */
enum tern_status tools_open(struct tools *out, const char *text, size_t n, struct tern_error *e);
void tools_close(struct tools *t);

uint32_t tools_function(const struct tools *t, uint32_t tool);
/* The tool of that name, or 0. */
uint32_t tools_find(const struct tools *t, const char *name, size_t n);

/* 1 to TOOLS_NAME_MAX letters, digits and _ . - */
bool tools_is_name(const char *p, size_t n);
/* 1 to TOOLS_ID_MAX letters, digits and _ . : - */
bool tools_is_id(const char *p, size_t n);

#endif
