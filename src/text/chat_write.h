/* Writes what a rule of a chat template says: its literals, special tokens and operations. */
#ifndef TEXT_CHAT_WRITE_H
#define TEXT_CHAT_WRITE_H

#include "text/call_index.h"
#include "text/chat_section.h"
#include "text/tools.h"

struct chat_writer {
    const struct chat *c;
    const struct tern_chat_message *system; /* or NULL */
    const struct tools *tools;              /* or NULL */
    struct chat_text *out;
    /* the message: NULL at the end; its first call's number in the conversation; of a result, the message
     * that called, the call that it answers, or NULL, and that call's number */
    const struct tern_chat_message *m, *caller;
    struct call_index index; /* of the caller's calls */
    size_t first_call, answered_number;
    const struct tern_call *answered;
    /* the part: its tool, its call, the arguments of that, and the argument or member */
    uint32_t tool, item;
    const struct tern_call *call;
    size_t call_number;
    struct budget budget; /* of JSON texts */
    struct json arguments;
    const struct json *items; /* whose node `item` is */
    size_t open[CHAT_GROUPS_MAX], depth;
    struct tern_error *e;
    enum tern_status s; /* why writing ended */
};

/* Carries out p[0..n), a checked text, for the writer's message. False: see w->s. */
bool chat_write(struct chat_writer *w, const char *p, size_t n);

bool chat_write_mark(struct chat_writer *w, struct chat_mark m, const char *p);

/* The text of a message, which may be NULL if it has no bytes */
static inline const char *chat_text_of(const struct tern_chat_message *m)
{
    return m->text ? m->text : "";
}

#endif
