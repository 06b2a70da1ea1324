/* Server-sent events: see event_stream.h. */
#include "app/serve/http/event_stream.h"

#include "app/cli/growing_text.h"

#include <string.h>

static int put(const char *text, size_t n, void *arg)
{
    struct growing_text *t = arg;
    growing_text_add(t, text, n);
    return t->failed ? -1 : 0;
}

bool event_stream_write(struct exchange *x, const char *event, json_t *stolen)
{
    struct growing_text t = {0};
    if (event) {
        growing_text_add(&t, "event: ", 7);
        growing_text_add(&t, event, strlen(event));
        growing_text_add(&t, "\n", 1);
    }
    growing_text_add(&t, "data: ", 6);
    bool ok = stolen && !json_dump_callback(stolen, put, &t, JSON_COMPACT | JSON_ENCODE_ANY);
    growing_text_add(&t, "\n\n", 2);
    ok = ok && !t.failed && exchange_write(x, t.p, t.n);
    growing_text_close(&t);
    json_decref(stolen);
    return ok;
}
