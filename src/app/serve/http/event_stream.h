/* Server-sent events, the form of all streams. */
#ifndef SERVE_EVENT_STREAM_H
#define SERVE_EVENT_STREAM_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/http/exchange.h"

#define EVENT_STREAM "text/event-stream"

/* One event with its data; event NULL: without a name. False: the client is gone or too slow, or memory
 * ran out, or data is NULL; the stream is then of no use. */
bool event_stream_write(struct exchange *x, const char *event, json_t *stolen);

#endif
