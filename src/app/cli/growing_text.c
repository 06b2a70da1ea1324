/* Bytes that grow: see growing_text.h. */
#include "app/cli/growing_text.h"

#include <stdlib.h>
#include <string.h>

void growing_text_add(struct growing_text *t, const char *p, size_t n)
{
    if (n > t->room - t->n) {
        size_t room = 2 * t->n + n + 64;
        char *more = realloc(t->p, room);
        if (!more) {
            t->failed = true;
            return;
        }
        t->p = more, t->room = room;
    }
    if (n)
        memcpy(t->p + t->n, p, n);
    t->n += n;
}

void growing_text_close(struct growing_text *t)
{
    free(t->p);
    *t = (struct growing_text){0};
}
