/* The messages of a chat, and the files of /save and /load: a line of JSON for each message,
 * {"role": "user", "content": "..."}, the system text first if there is one. Behind an assistant's come
 * its calls, {"role": "call", "id": "...", "name": "...", "content": "its arguments"}, and then their
 * results, of role "tool" with the id of the call. */
#ifndef RUN_CONVERSATION_H
#define RUN_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

struct conversation {
    struct tern_chat_message *list; /* [n]; [0] the system text or NULL, then the others in turns;
                                     * all but roles is owned */
    size_t n, room;
    struct tern_chat_message *listed; /* [n_listed] of conversation_list */
    size_t n_listed;
};

enum tern_status conversation_open(struct conversation *c, struct tern_error *e);
void conversation_close(struct conversation *c);

/* A copy of the text behind the others; role "system": in the first place. */
enum tern_status conversation_add(struct conversation *c, const char *role, const char *text,
                                  size_t n, struct tern_error *e);
/* A call of the last message, which is the assistant's; and the result of a call (id NULL: of the first
 * without one). */
enum tern_status conversation_add_call(struct conversation *c, const struct tern_call *call,
                                       struct tern_error *e);
enum tern_status conversation_add_result(struct conversation *c, const char *id, const char *text,
                                         size_t n, struct tern_error *e);
/* The same of a line of JSON: {"id": "...", "content": "..."}, where the id may be absent. TERN_USAGE if it
 * is none. */
enum tern_status conversation_take_result(struct conversation *c, const char *line, size_t n,
                                          struct tern_error *e);
size_t conversation_n_waiting(const struct conversation *c); /* calls at the end without a result */
size_t conversation_n_calls(const struct conversation *c);
/* Where the messages begin when the oldest `turns` questions, with what follows them, are left out; n
 * if nothing is left. */
size_t conversation_turn(const struct conversation *c, size_t turns);
/* Without the oldest `turns`: the tools, if not NULL, the system text, if there is one, and the messages;
 * borrowed until the next call. NULL: no memory. */
const struct tern_chat_message *conversation_list(struct conversation *c, size_t turns,
                                                  const char *tools, size_t n_tools, size_t *n);
void conversation_cut(struct conversation *c, size_t n); /* to its first n messages */
void conversation_drop(struct conversation *c); /* the oldest question and all that answers it */
/* The last message leaves the conversation; conversation_put gives it back, or conversation_free. */
struct tern_chat_message conversation_take(struct conversation *c);
void conversation_put(struct conversation *c, struct tern_chat_message m);
void conversation_free(struct tern_chat_message *m);

/* TERN_IO, TERN_BAD_FILE, TERN_LIMIT, TERN_NO_MEMORY, or TERN_USAGE for what is no regular file,
 * naming the file: then the file, or the conversation, is as it was. A file keeps its mode; a new
 * one is its owner's alone. */
enum tern_status conversation_save(const struct conversation *c, const char *path,
                                   struct tern_error *e);
enum tern_status conversation_load(struct conversation *c, const char *path, struct tern_error *e);

#endif
