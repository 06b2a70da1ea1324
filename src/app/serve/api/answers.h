/* The answers of one request that has several: `n`, or several prompts. Each is a job. */
#ifndef SERVE_ANSWERS_H
#define SERVE_ANSWERS_H

#include <jansson.h>
#include <stddef.h>

#include "app/serve/api/answer_stream.h"
#include "app/serve/http/exchange.h"

struct answers;

typedef void (*answers_part)(void *arg, struct exchange *x, const struct answer_part *part);

struct answers_writer { /* arg is the writer's own */
    /* By kind: text, thoughts and tokens of the prompt are said; call: its beginning, arguments and end */
    answers_part said, call, done, failed;
    void (*ping)(void *arg, struct exchange *x);
    void (*close)(void *arg); /* the exchange is over: free arg */
};

struct answers *answers_open(const struct answers_writer *w, void *arg); /* NULL: no memory */
/* Only before answers_begin. The writer is not called. */
void answers_close(struct answers *c);

/* Submits the next one. r: as job_submit takes it, also after an error. Its p must not point into r. */
bool answers_add(struct answers *c, struct server *s, struct exchange *x,
                 const struct answer_stream_params *p, struct job_request *r, struct fault *f);
/* From now on the exchange owns c, and parts come. After PART_FAILED of one, no more parts come of any: the
 * jobs are cancelled. */
void answers_begin(struct answers *c, struct exchange *x);

/* The fields that had no effect: header x-tern-ignored and the log. "": none. */
void answers_ignored(struct exchange *x, const char *ignored);
/* The answer fails, as OpenAI's API has it: of a stream that has begun, with an event that holds the error
 * object. */
void answers_fail(struct exchange *x, const struct fault *f, bool begun);
/* "tern-0.1.0-" and the model's content id: what else decides an answer */
void answers_fingerprint(char *text, size_t size, const struct server *s);

/* What the end of an answer says beside its text: adds "timings", as llama.cpp has them, and the receipt, if
 * there is one, to `object`. */
void answers_add_end(json_t *object, const struct answer_part *done);
/* That receipt alone. Its texts may hold NUL. */
void answers_add_receipt(json_t *object, const struct job_event *end);

/* Tokens of all answers, for `usage` */
struct answers_usage {
    size_t prompt, completion, cached, reasoning;
};
json_t *answers_usage_json(const struct answers_usage *u);
/* The same in the line of the log, and how it ended */
void answers_log(struct exchange *x, const struct answers_usage *u, const char *finish);
/* That of a request with one answer, which is over */
void answers_log_one(struct exchange *x, const struct answer_part *done);

/* "stop", "length" or "tool_calls" */
const char *answers_finish(const struct answer_part *done);

#endif
