/* What a request to /v1/messages or /v1/messages/count_tokens says. */
#ifndef SERVE_MESSAGES_REQUEST_H
#define SERVE_MESSAGES_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/api/turn.h"

struct messages_request {
    struct turn turn;
    json_t *model;     /* a string; owned */
    json_t *stops;     /* the client's stop sequences; owned, or NULL */
    const char **stop; /* [turn.n_stop] of these; owned */
    bool stream;
    bool hidden; /* thoughts are not shown; the client carries them in their signature */
};

/* Reads the body of x. counts: nothing will be generated. The caller closes r, also after a fault. */
bool messages_request_read(struct messages_request *r, struct server *s, struct exchange *x,
                           bool counts, struct fault *f);
void messages_request_close(struct messages_request *r);

#endif
