/* The messages of a chat, and the files of /save and /load: a line of JSON for each message,
 * {"role": "user", "content": "..."}, the system text first if there is one. */
#ifndef RUN_CONVERSATION_H
#define RUN_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>

#include "tern.h"

struct conversation {
    struct tern_chat_message *list; /* [n]; [0] the system text or NULL, then the others in turns;
                                     * text and tokens are owned */
    size_t n, room;
};

enum tern_status conversation_open(struct conversation *c, struct tern_error *e);
void conversation_close(struct conversation *c);

/* A copy of the text behind the others; role "system": in the first place. */
enum tern_status conversation_add(struct conversation *c, const char *role, const char *text,
                                  size_t n, struct tern_error *e);
void conversation_cut(struct conversation *c, size_t n); /* to its first n messages */
void conversation_drop(struct conversation *c);          /* the oldest question and its answer */

/* TERN_IO, TERN_BAD_FILE, TERN_LIMIT, TERN_NO_MEMORY, or TERN_USAGE for what is no regular file,
 * naming the file: then the file, or the conversation, is as it was. A file keeps its mode; a new
 * one is its owner's alone. */
enum tern_status conversation_save(const struct conversation *c, const char *path,
                                   struct tern_error *e);
enum tern_status conversation_load(struct conversation *c, const char *path, struct tern_error *e);

#endif
