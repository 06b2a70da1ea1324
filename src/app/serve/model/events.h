/* The tokens of a job on their way from the model thread to the HTTP thread, in a row of bytes. */
#ifndef SERVE_EVENTS_H
#define SERVE_EVENTS_H

#include "app/serve/model/job.h"

struct events {         /* zeroed: empty */
    char *p;            /* [n] of room for [room]; owned */
    size_t n, room, at; /* at: the next to take */
};

/* Appends a copy of a JOB_TOKEN or JOB_PROMPT. False: no memory, and nothing changed. */
bool events_add(struct events *e, const struct job_event *token);
/* Takes the next one, borrowed until the row changes. False: there is none. */
bool events_next(struct events *e, struct job_event *token);
/* Appends what is in `from`, which becomes empty. False: no memory, and nothing changed. */
bool events_move(struct events *to, struct events *from);
void events_clear(struct events *e); /* keeps its memory */
void events_close(struct events *e);

#endif
