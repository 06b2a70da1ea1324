/* Server-sent events: see event_stream.h. */
#include "app/serve/http/event_stream.h"

#include "app/cli/growing_text.h"
#include "app/serve/http/json_wide.h"

#include <stdlib.h>
#include <string.h>

bool event_stream_write(struct exchange *x, const char *event, json_t *stolen)
{
    struct growing_text t = {0};
    if (event) {
        growing_text_add(&t, "event: ", 7);
        growing_text_add(&t, event, strlen(event));
        growing_text_add(&t, "\n", 1);
    }
    growing_text_add(&t, "data: ", 6);
    char *text = json_plain(stolen);
    if (text)
        growing_text_add(&t, text, strlen(text));
    growing_text_add(&t, "\n\n", 2);
    bool ok = text && !t.failed && exchange_write(x, t.p, t.n);
    free(text);
    growing_text_close(&t);
    json_decref(stolen);
    return ok;
}
