/* A job: one text to generate, to embed or to look into. A lane submits it, the HTTP thread reads its events and
 * closes it; the model thread (scheduler.h) runs it. Its answer is a function of model, prompt and options
 * alone: other jobs change no bit of it. */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/serve/model/compiled.h"
#include "app/serve/http/fault.h"
#include "tern.h"

struct scheduler; /* scheduler.h */

enum job_kind {
    JOB_TEXT,
    JOB_EMBED_MEAN, /* the mean of all hidden states */
    JOB_EMBED_LAST, /* the hidden state of the last token */
    JOB_ATTENTION,  /* what the last token attends to */
};

enum { JOB_TOP_MAX = 20 };

/* What is owned was made with malloc. The job owns it from job_submit on, also if that fails. */
struct job_request {
    enum job_kind kind;
    tern_token *prompt; /* [n_prompt], owned */
    size_t n_prompt;
    struct tern_sampler_params
        sampler; /* bias, dry_breakers and each breaker are owned; mu NULL; constraint: an owned state
                  * of `constraint`, behind which the text goes on, or NULL */
    struct compiled *constraint; /* an owned share, or NULL */
    char **stop;                 /* [n_stop], owned, and each string, too */
    size_t n_stop;
    int64_t n_predict; /* at most so many tokens; -1: to an end token or a full context */
    bool ignore_end;   /* goes on after end tokens; not with a constraint */
    bool no_force;     /* samples tokens that the constraint leaves no choice of, too */
    bool cache_prompt; /* looks for a kept beginning of the prompt, and keeps this one */
    bool receipt;      /* JOB_DONE brings one; not with a state of the constraint */
    uint32_t layer;    /* of JOB_ATTENTION: it has attention; */
    int64_t head;      /* one of its heads; -1: all */
    bool logprobs;     /* of each token, with n_top alternatives */
    /* and of each token of the prompt: all of it is evaluated, whatever was found */
    bool prompt_logprobs;
    unsigned n_top;  /* 0 to JOB_TOP_MAX */
    uint64_t client; /* who asks (exchange_client): clients take turns */
};

enum job_event_kind {
    JOB_NOTHING, /* no event waits; wake comes */
    JOB_PROMPT,  /* one token of the prompt, with its logprob */
    JOB_TOKEN,   /* one token of the answer */
    JOB_DONE,    /* the last event */
    JOB_FAILED,  /* or this */
};

struct job_event {
    enum job_event_kind kind;
    /* Of JOB_TOKEN: every token that was chosen, end tokens included. Of JOB_PROMPT: token, logprob and
     * top; the first token of a prompt has NAN and no alternatives. */
    tern_token token;
    bool forced; /* the constraint left no choice; it has no logprob */
    const char *
        text; /* [bytes] became certain with it: whole characters, without stop strings; may be empty */
    size_t bytes;
    double logprob;
    const struct tern_choice *top; /* [n_top], most probable first */
    size_t n_top;
    /* Of JOB_DONE */
    struct tern_generate_result result;
    size_t n_prompt, n_cached; /* tokens of the prompt; of these, found evaluated */
    double queue_seconds, prompt_seconds, generate_seconds;
    const char *receipt;    /* JSON, or NULL: not asked for */
    const float *embedding; /* [dim], of length 1 */
    size_t dim;
    const float *weights; /* [n_heads or 1, n_prompt], of JOB_ATTENTION */
    size_t n_weights;
    /* Of JOB_FAILED */
    struct fault fault;
};

struct job;

/* Whether there is ever room for all n answers that field `name` asks for: those that run and those that wait.
 * False: a 400 with both numbers, for it would never help to try again. */
bool job_has_room(const struct scheduler *s, size_t n, const char *name, struct fault *f);

/* Queues a job. NULL: *f says why. 503 with retry_after when the queue is full or the server drains; 400
 * with code context_length_exceeded when the prompt does not fit. wake(arg) is called from the model thread
 * when job_next has events again, with a lock held: it must call nothing of this header. */
struct job *job_submit(struct scheduler *s, struct job_request *r, void (*wake)(void *arg),
                       void *arg, struct fault *f);
/* Takes the next event. False, with JOB_NOTHING: none waits. Borrowed until the next call or job_close. A
 * job whose events are not taken pauses when they are 256 KiB. */
bool job_next(struct job *j, struct job_event *e);
/* Cancels the job if it is not over, and frees it. wake is not called after this returns. NULL is fine. */
void job_close(struct job *j);

/* Frees what a request owns, for a caller that does not submit it. */
void job_request_free(struct job_request *r);

#endif
