/* What the files of the model thread share: the scheduler and its jobs. Each member belongs to the thread
 * that its group names; the lock guards what both threads use. It is never held during a step. */
#ifndef SERVE_MODEL_THREAD_H
#define SERVE_MODEL_THREAD_H

#include <pthread.h>
#include <sys/stat.h>

#include "app/cli/growing_text.h"
#include "app/serve/model/chunks.h"
#include "app/serve/model/events.h"
#include "app/serve/model/scheduler.h"
#include "tern_lab.h"

enum { MAX_PARALLEL = 64, PAGE = 256 /* positions: where kept prefixes are shared */ };

enum job_state { JOB_WAITS, JOB_RUNS, JOB_IS_OVER };

struct job {
    struct scheduler *scheduler;
    struct job_request request;
    void (*wake)(void *arg);
    void *arg;
    double submitted; /* stopwatch_now */

    /* ---- under the lock */
    enum job_state state;
    bool closed;                                            /* nobody reads it any more */
    enum { JOB_ON_TIME, JOB_IS_LATE, JOB_CATCHES_UP } late; /* (late.h) */
    uint64_t n_late;                                        /* how often it was */
    bool hungry;                                            /* the reader found nothing: wake it */
    struct events shared;                                   /* made, not taken */
    struct job *next;                                       /* of those that wait */
    uint64_t round, serial;               /* its turn (waiting.h); the order of submission */
    size_t n_cached, n_read, n_generated; /* as /slots shows them */

    /* ---- HTTP thread */
    struct events taken;
    bool last_taken;

    /* ---- model thread, until the job is over */
    uint32_t seq;
    tern_text *text; /* of JOB_TEXT, while it runs */
    struct events made;
    struct job_event token; /* the newest one, which may still get text; JOB_NOTHING: none */
    struct growing_text token_text;
    struct tern_choice top[JOB_TOP_MAX];
    struct growing_text answer; /* tern_token [], for the receipt */
    double *sum; /* [dim] of an embedding's rows; of the last one alone for JOB_EMBED_LAST */
    size_t n_stepped, n_new;           /* tokens chosen before the last step, and in it */
    uint32_t n_kept;                   /* pages of its sequence that are kept */
    bool keeps_prompt;                 /* and the whole prompt */
    double started, first, last_token; /* stopwatch_now; 0: not yet */
    bool no_memory;
    tern_attention *attention; /* of JOB_ATTENTION, while it runs */
    struct tern_error error;   /* of a job without a text */

    /* ---- its end: written by the model thread, then read by the HTTP thread */
    struct job_event last;
    struct growing_text tail;
    char *receipt;
    float *embedding, *weights;
};

struct serve_numbers { /* under the lock */
    uint64_t n_jobs, n_done, n_failed, n_cancelled, n_refused;
    uint64_t n_prompt, n_cached, n_generated, n_drafted, n_accepted;
    double prompt_seconds, generate_seconds, gap_seconds, step_seconds;
    uint64_t n_steps, n_rows, n_gaps;
    uint64_t
        gaps[16]; /* [i]: gaps between two tokens of a text below 2^i ms, and not below 2^(i - 1) */
    struct tern_prefix_info prefix;
};

struct scheduler {
    struct server *server;
    pthread_t thread;
    void (*loaded)(void *arg);
    void *arg;
    bool has_ended; /* the thread was never started, or is joined */

    /* ---- under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *waiting; /* a list, by submission */
    size_t n_waiting, n_running;
    struct job
        *running[MAX_PARALLEL]; /* by sequence; NULL: idle. Changed by the model thread alone */
    uint64_t round, serial;
    bool draining, stopping, ending;
    bool is_cut; /* for good: readers are told that jobs have failed, whatever the thread does */
    struct tern_error error;  /* of loading, or of a model file that changed */
    bool in_step, may_cancel; /* tern_step runs, and may be cancelled */
    double step_ends;         /* when it probably will, stopwatch_now */
    struct serve_numbers numbers;
    pthread_cond_t late_came;
    bool late_ends, late_given_up;

    /* ---- settled when loaded */
    uint32_t n_parallel, n_ctx;
    size_t max_waiting;
    uint32_t lookup, mtp, draft_max;
    struct compiled_store *compiled;
    struct model_file { /* of a model that is mapped (model_files.h) */
        const char *path;
        int fd;
        struct stat opened;
    } files[2];
    size_t n_files;

    /* ---- model thread */
    pthread_t late_thread;
    bool late_runs;
    tern_model *draft_model;
    tern_context *ctx, *draft;
    struct chunks chunks;
    uint64_t n_turns, n_ends;
    uint64_t ended[MAX_PARALLEL]; /* of each sequence: n_ends when its last job ended */
    bool was_cancelled;           /* the last step: this one is not */
    int cache_fd[2], newest;      /* saved_prefixes.h */
};

/* job.c */
void job_free(struct job *j);
/* Why no job is run any more. Under the lock. */
void job_refuse(const struct scheduler *s, struct fault *f);
/* Calls `wake` if the reader waits for that. Under the lock. */
void job_wake(struct job *j);
/* Hands over what was made, and wakes the reader. */
void job_publish(struct job *j);
/* The job gives back its sequence. Its last event is in j->last. */
void job_end(struct job *j);

#endif
