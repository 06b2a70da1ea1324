/* The answer of /v1/responses: parts in, a response out, whole or as a stream of events. What the events
 * tell adds up to the whole, for both are made from the same items. */
#ifndef SERVE_RESPONSES_ANSWER_H
#define SERVE_RESPONSES_ANSWER_H

#include "app/serve/api/responses_request.h"
#include "app/serve/api/turn.h"

struct responses_answer;

/* Takes over what the response needs of r. NULL: not enough memory. */
struct responses_answer *responses_answer_open(const struct server *s, struct responses_request *r);
void responses_answer_close(struct responses_answer *a);

/* Begins a stream: response.created, response.in_progress. Nothing, for one that is no stream. */
void responses_answer_begin(struct responses_answer *a, struct exchange *x);

extern const struct answers_writer
    responses_answer_writer; /* its arg is a struct responses_answer */

#endif
