/* Bytes that grow. */
#ifndef CLI_GROWING_TEXT_H
#define CLI_GROWING_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct growing_text { /* zeroed: empty */
    char *p;          /* [n] of room for [room]; owned */
    size_t n, room;
    bool failed; /* memory ran out; stays set */
};
void growing_text_add(struct growing_text *t, const char *p, size_t n); /* appends a copy */
void growing_text_close(struct growing_text *t);

#endif
