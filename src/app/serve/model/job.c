/* Jobs, as the HTTP thread sees them: see job.h. */
#include "app/serve/model/job.h"

#include <stdlib.h>

#include "app/cli/stopwatch.h"
#include "app/serve/model/waiting.h"

enum { RETRY_AFTER = 1 };    /* s */
#define WORTH_CANCELLING 0.1 /* s of a step that a cancel must save */

void job_request_free(struct job_request *r)
{
    for (size_t i = 0; i < r->n_stop; i++)
        free(r->stop[i]);
    free(r->stop);
    for (size_t i = 0; r->sampler.dry_breakers && i < r->sampler.n_dry_breakers; i++)
        free((char *)(uintptr_t)r->sampler.dry_breakers[i]);
    free((void *)(uintptr_t)r->sampler.dry_breakers);
    free((void *)(uintptr_t)r->sampler.bias);
    free(r->prompt);
    tern_constraint_state_close(r->sampler.constraint);
    compiled_release(r->constraint);
    *r = (struct job_request){0};
}

void job_free(struct job *j)
{
    job_request_free(&j->request);
    events_close(&j->made);
    events_close(&j->shared);
    events_close(&j->taken);
    growing_text_close(&j->token_text);
    growing_text_close(&j->answer);
    growing_text_close(&j->tail);
    free(j->receipt);
    free(j->sum);
    free(j->embedding);
    free(j->weights);
    free(j);
}

/* ---- submitting --------------------------------------------------------------------------- */

bool job_has_room(const struct scheduler *s, size_t n, const char *name, struct fault *f)
{
    size_t room = waiting_room(s);
    if (n > room)
        fault_set(f, 400, NULL, "limit_exceeded", name,
                  "%s asks for %zu answers; this server has room for %zu (--parallel and --queue)",
                  name, n, room);
    return n <= room;
}

static void check(const struct scheduler *s, const struct job_request *r, struct fault *f)
{
    if (!r->n_prompt)
        fault_set(f, 400, NULL, NULL, NULL, "the prompt is empty");
    else if (r->n_prompt > s->n_ctx)
        fault_too_long(f, false, r->n_prompt, s->n_ctx);
}

void job_refuse(const struct scheduler *s, struct fault *f)
{
    if (s->error.code)
        fault_set(f, 503, NULL, "shutting_down", NULL, "%s", SCHEDULER_LOST);
    else
        fault_given_up(f);
    f->retry_after = RETRY_AFTER;
}

/* Under the lock. */
static void enqueue(struct scheduler *s, struct job *j, struct fault *f)
{
    if (s->draining) {
        job_refuse(s, f);
    } else if (waiting_is_full_for(s, j)) {
        fault_set(f, 503, NULL, "queue_full", NULL,
                  "no place in the queue, which has %zu (--queue): try again later",
                  s->max_waiting);
        s->numbers.n_refused++;
    } else {
        s->numbers.n_jobs++;
        waiting_add(s, j);
        pthread_cond_signal(&s->changed);
        return;
    }
    f->retry_after = RETRY_AFTER;
}

struct job *job_submit(struct scheduler *s, struct job_request *r, void (*wake)(void *arg),
                       void *arg, struct fault *f)
{
    struct job *j = calloc(1, sizeof *j);
    *f = (struct fault){0};
    if (!j) {
        fault_set(f, 503, NULL, NULL, NULL, "no memory for another request");
        job_request_free(r);
        return NULL;
    }
    *j = (struct job){.scheduler = s, .request = *r, .wake = wake, .arg = arg, .hungry = true};
    *r = (struct job_request){0};
    if (j->request.kind == JOB_EMBED_MEAN || j->request.kind == JOB_EMBED_LAST)
        j->request.cache_prompt = false; /* what is found has no hidden states any more */
    j->submitted = stopwatch_now();
    check(s, &j->request, f);
    if (!f->status) {
        pthread_mutex_lock(&s->lock);
        enqueue(s, j, f);
        pthread_mutex_unlock(&s->lock);
    }
    if (!f->status)
        return j;
    job_free(j);
    return NULL;
}

/* ---- events ------------------------------------------------------------------------------- */

/* The last event: also of a job that is cut off, for which nobody waits until the step in work ends. Under the
 * lock. */
static bool take_last(struct job *j, struct job_event *e)
{
    const struct scheduler *s = j->scheduler;
    j->hungry = j->state != JOB_IS_OVER && !s->is_cut;
    if (j->state == JOB_IS_OVER) {
        *e = j->last;
    } else if (s->is_cut) {
        e->kind = JOB_FAILED;
        job_refuse(s, &e->fault);
    }
    return !j->hungry;
}

bool job_next(struct job *j, struct job_event *e)
{
    struct scheduler *s = j->scheduler;
    *e = (struct job_event){.kind = JOB_NOTHING};
    if (events_next(&j->taken, e))
        return true;
    if (j->last_taken)
        return false;
    events_clear(&j->taken);
    pthread_mutex_lock(&s->lock);
    if (j->shared.n) {
        (void)events_move(&j->taken, &j->shared); /* swaps: taken is empty */
        pthread_cond_signal(&s->changed);         /* it may have paused */
    } else {
        j->last_taken = take_last(j, e);
    }
    pthread_mutex_unlock(&s->lock);
    return j->last_taken || events_next(&j->taken, e);
}

/* Whether a step that runs should end now, because the job is the one that makes it long. */
static bool is_worth_cancelling(const struct scheduler *s, const struct job *j)
{
    return s->in_step && s->may_cancel && j->n_read < j->request.n_prompt &&
           s->step_ends - stopwatch_now() > WORTH_CANCELLING;
}

void job_close(struct job *j)
{
    if (!j)
        return;
    struct scheduler *s = j->scheduler;
    pthread_mutex_lock(&s->lock);
    bool runs = j->state == JOB_RUNS;
    j->closed = true;
    if (j->state == JOB_WAITS) {
        waiting_remove(s, j);
        s->numbers.n_cancelled++;
    }
    if (runs && is_worth_cancelling(s, j)) {
        s->may_cancel = false;
        tern_cancel(s->ctx);
    }
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (!runs)
        job_free(j);
}

/* ---- the model thread's side -------------------------------------------------------------- */

void job_wake(struct job *j)
{
    if (j->hungry && !j->closed) {
        j->hungry = false;
        j->wake(j->arg);
    }
}

void job_publish(struct job *j)
{
    struct scheduler *s = j->scheduler;
    if (!j->made.n)
        return;
    pthread_mutex_lock(&s->lock);
    if (!events_move(&j->shared, &j->made))
        j->no_memory = true;
    job_wake(j);
    pthread_mutex_unlock(&s->lock);
}

void job_end(struct job *j)
{
    struct scheduler *s = j->scheduler;
    job_publish(j);
    pthread_mutex_lock(&s->lock);
    bool closed = j->closed;
    s->running[j->seq] = NULL;
    s->n_running--;
    j->state = JOB_IS_OVER;
    job_wake(j);
    pthread_mutex_unlock(&s->lock);
    if (closed)
        job_free(j);
}
