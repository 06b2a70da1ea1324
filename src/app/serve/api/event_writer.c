/* Streams of named events: see event_writer.h. */
#include "app/serve/api/event_writer.h"

#include "app/serve/http/event_stream.h"

#include <stdarg.h>

void event_writer_emit(struct event_writer *w, struct exchange *x, const char *type,
                       const char *format, ...)
{
    va_list args;
    if (!w->streams || w->broken)
        return;
    json_t *event = json_pack("{s:s}", "type", type);
    if (w->numbered)
        json_object_set_new(event, "sequence_number", json_integer(w->sequence++));
    va_start(args, format);
    json_t *fields = json_vpack_ex(NULL, 0, format, args);
    va_end(args);
    if (!fields || json_object_update(event, fields)) {
        json_decref(event);
        event = NULL;
    }
    json_decref(fields);
    if (event_stream_write(x, type, event))
        return;
    w->broken = true; /* the client is gone, or memory ran out: a hole would be worse than an end */
    exchange_end(x);
}

void event_writer_end(struct event_writer *w, struct exchange *x)
{
    if (w->streams && !w->broken)
        exchange_end(x);
}

bool event_writer_fail(const struct event_writer *w, struct exchange *x, const struct fault *f)
{
    if (w->streams)
        exchange_log_fault(x, f);
    else
        exchange_fault(x, f);
    return !w->streams;
}
