/* The stream of an answer in named events, as messages and responses have it. */
#ifndef SERVE_EVENT_WRITER_H
#define SERVE_EVENT_WRITER_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/http/exchange.h"

struct event_writer {
    bool streams;        /* else nothing is written; who sets it calls exchange_begin */
    bool numbered;       /* each event has its sequence_number */
    bool broken;         /* the stream ended before its time */
    json_int_t sequence; /* number of the next event */
};

/* One event with fields as json_pack makes them, all borrowed. */
void event_writer_emit(struct event_writer *w, struct exchange *x, const char *type,
                       const char *format, ...);
void event_writer_end(struct event_writer *w, struct exchange *x);
/* An answer without a stream has failed: replies so, and returns true. Of a stream the log gets the fault, and
 * the event is the caller's. */
bool event_writer_fail(const struct event_writer *w, struct exchange *x, const struct fault *f);

#endif
