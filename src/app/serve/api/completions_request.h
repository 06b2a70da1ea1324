/* A request for completions: texts that go on. */
#ifndef SERVE_COMPLETIONS_REQUEST_H
#define SERVE_COMPLETIONS_REQUEST_H

#include "app/serve/api/prompts.h"
#include "app/serve/api/envelope.h"
#include "app/serve/api/turn.h"

struct completions_request {
    struct turn turn; /* of it: params, rules, ignored */
    struct prompts prompts;
    int64_t n, best_of; /* answers to each prompt: told; made */
    struct envelope_fields envelope;
    bool echo, logprobs;
};

/* The caller closes r, also after a fault. */
bool completions_request_read(struct completions_request *r, struct server *s, struct exchange *x,
                              struct fault *f);
void completions_request_close(struct completions_request *r);

/* The job of the k-th answer to prompt i. After an error it is freed by job_request_free, too. */
bool completions_request_job(struct completions_request *r, struct server *s, size_t i, uint64_t k,
                             uint64_t client, struct job_request *job, struct fault *f);

#endif
