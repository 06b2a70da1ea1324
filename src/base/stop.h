/* Work that may be given up: whoever waits for it is asked now and then, in the thread that works. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>
#include <stddef.h>

struct stop {
    int (*ask)(void *arg); /* NULL: nobody is asked */
    void *arg;
    size_t work; /* since the last question */
    bool stopped;
};

enum { STOP_WORK = 1 << 14 }; /* between two questions, in units of some 100 ns at most */

/* Whether to give up, when so much more work is done. s may be NULL. */
static inline bool stop_asked(struct stop *s, size_t work)
{
    if (!s || !s->ask)
        return false;
    s->work += work;
    if (s->work < STOP_WORK || s->stopped)
        return s->stopped;
    s->work = 0;
    return s->stopped = s->ask(s->arg) != 0;
}

#endif
