/* What a request to /v1/responses says. */
#ifndef SERVE_RESPONSES_REQUEST_H
#define SERVE_RESPONSES_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#include "app/serve/api/turn.h"

struct responses_request {
    struct turn turn;
    json_t *echo;    /* fields of the response that repeat the request; owned */
    json_t *special; /* how calls of some tools look (responses_tools.h); owned */
    bool stream;
    bool summary; /* thoughts are given as their own summary */
    bool carry;   /* and as encrypted_content, to come back with the next request */
};

/* Reads the body of x. The caller closes r, also after a fault. */
bool responses_request_read(struct responses_request *r, struct server *s, struct exchange *x,
                            bool counts, struct fault *f);
void responses_request_close(struct responses_request *r);

#endif
