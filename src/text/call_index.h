/* The calls of a message by their ids: results of a long history find theirs in logarithmic time. */
#ifndef TEXT_CALL_INDEX_H
#define TEXT_CALL_INDEX_H

#include "tern.h"

#include <stdbool.h>

struct call_index {
    const struct tern_call **list; /* [n], of those that have an id; owned */
    size_t n;
    const struct tern_chat_message *of;
};

/* Of this message's calls, unless it is of them already. False: no memory. */
bool call_index_make(struct call_index *x, const struct tern_chat_message *m);
/* The first call with this id; NULL: there is none. */
const struct tern_call *call_index_find(const struct call_index *x, const char *id);
void call_index_close(struct call_index *x);

#endif
