/* The answer of /v1/messages: parts in, a message out, whole or as a stream of events. Both are made from
 * the same blocks. */
#ifndef SERVE_MESSAGES_ANSWER_H
#define SERVE_MESSAGES_ANSWER_H

#include "app/serve/api/messages_request.h"
#include "app/serve/api/turn.h"

struct messages_answer;

/* Takes over what the message needs of r. NULL: not enough memory. */
struct messages_answer *messages_answer_open(struct messages_request *r);
void messages_answer_close(struct messages_answer *a);

/* Begins a stream: message_start, ping. Nothing, for one that is no stream. */
void messages_answer_begin(struct messages_answer *a, struct exchange *x);

extern const struct answers_writer messages_answer_writer; /* its arg is a struct messages_answer */

#endif
