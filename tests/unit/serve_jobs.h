/* A scheduler of serve for tests, and jobs with what came of them. */
#ifndef UNIT_SERVE_JOBS_H
#define UNIT_SERVE_JOBS_H

#include "app/serve/model/job.h"
#include "app/serve/model/scheduler.h"
#include "app/serve/serve_options.h"

enum { ANSWER_MAX = 2048 };

struct asked {
    struct job *job;
    char prompt[64];
    const char *grammar; /* of the answer; or NULL */
    int64_t n_predict;
    uint64_t seed, client;
    tern_token tokens[ANSWER_MAX];
    size_t n;
    char text[8 * ANSWER_MAX];
    size_t bytes;
    bool over;
    struct job_event last;
};

extern struct serve_options jobs_options; /* of the next jobs_start; cleared by jobs_stop */
extern struct server jobs_server;

void jobs_start(const char *model, uint32_t n_parallel, int64_t queue);
void jobs_stop(void);

/* For job_submit, and how the test's thread waits: until more than `seen` wakes came; returns how many. */
void jobs_wake(void *arg);
unsigned jobs_await(unsigned seen);

/* A request of a's prompt, grammar, n_predict, seed and client; the prompt has room for ANSWER_MAX tokens. */
struct job_request jobs_request(const struct asked *a);
void jobs_ask(struct asked *a);
/* Takes the events that wait; true: the job is over. */
bool jobs_take(struct asked *a);
void jobs_take_all(struct asked *a, size_t n);
/* The answer is what tern_generate makes of the same request alone. */
void jobs_check_alone(const struct asked *a);

#endif
