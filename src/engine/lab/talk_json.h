/* A conversation with tools as the vectors hold it: JSON as in OpenAI's API (FORMAT.md, "Tools"). */
#ifndef LAB_TALK_JSON_H
#define LAB_TALK_JSON_H

#include "text/json_read.h"

struct talk_json {
    struct tern_chat_message *list; /* [n]; owned, and borrows from the rest */
    size_t n;
    struct budget budget;
    struct json json;
    struct tern_call *calls; /* of all messages */
    char *texts;             /* names, ids and arguments, each with its NUL */
};

/* TERN_BAD_FILE where p[0..n), which must outlive it, is no such conversation. Closed by the caller, also
 * after an error. */
enum tern_status talk_json_open(struct talk_json *out, const char *p, size_t n,
                                struct tern_error *e);
void talk_json_close(struct talk_json *t);

#endif
