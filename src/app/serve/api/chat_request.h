/* A request for a chat in OpenAI's form, with what llama.cpp, vLLM and tern have beside that. */
#ifndef SERVE_CHAT_REQUEST_H
#define SERVE_CHAT_REQUEST_H

#include "app/serve/server.h"
#include "app/serve/api/envelope.h"
#include "app/serve/api/turn.h"

struct chat_request {
    struct turn turn;
    struct envelope_fields envelope;
    bool functions; /* as OpenAI had tools before: the answer has function_call */
    bool ended;     /* answer_tokens end the answer: nothing is to be generated */
};

/* Reads and prepares it: turn.prompt has the prompt. The caller closes turn, also after a fault. */
bool chat_request_read(struct chat_request *r, struct server *s, struct exchange *x,
                       struct fault *f);

/* For /apply-template: messages, tools and how to think, no more. */
bool chat_request_read_dialog(struct chat_request *r, struct server *s, struct exchange *x,
                              struct fault *f);

#endif
