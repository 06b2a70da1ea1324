/* Texts that catch up: see late.h. */
#include "app/serve/model/late.h"

#include <unistd.h>

enum { NICE_LATE = 5 }; /* than the threads of the model, as the long lane */

static _Thread_local const struct job *in_work; /* NULL: this is another thread */

/* Under the lock. */
static struct job *next_job(const struct scheduler *s)
{
    struct job *next = NULL;
    for (uint32_t i = 0; i < s->n_parallel; i++) {
        struct job *j = s->running[i];
        if (j && j->late == JOB_IS_LATE && (!next || j->n_late < next->n_late))
            next = j;
    }
    return next;
}

static void *work(void *arg)
{
    struct scheduler *s = arg;
    struct job *j;
    (void)!nice(NICE_LATE);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!(j = next_job(s)) && !s->late_ends)
            pthread_cond_wait(&s->late_came, &s->lock);
        if (!j)
            break;
        j->late = JOB_CATCHES_UP;
        pthread_mutex_unlock(&s->lock);
        in_work = j;
        tern_text_catch_up(j->text);
        in_work = NULL;
        pthread_mutex_lock(&s->lock);
        j->late = JOB_ON_TIME;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool late_is_given_up(const struct scheduler *s)
{
    return in_work && (in_work->closed || s->late_given_up);
}

bool late_open(struct scheduler *s)
{
    return s->late_runs = !pthread_create(&s->late_thread, NULL, work, s);
}

void late_close(struct scheduler *s)
{
    if (!s->late_runs)
        return;
    pthread_mutex_lock(&s->lock);
    s->late_ends = true;
    pthread_cond_signal(&s->late_came);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->late_thread, NULL);
}

void late_look(struct scheduler *s, struct job *j)
{
    if (!j->text || !tern_text_is_late(j->text))
        return;
    pthread_mutex_lock(&s->lock);
    j->late = JOB_IS_LATE;
    j->n_late++;
    pthread_cond_signal(&s->late_came);
    pthread_mutex_unlock(&s->lock);
}

/* Under the lock. */
static bool one_catches_up(struct scheduler *s)
{
    bool found = false;
    for (uint32_t i = 0; i < s->n_parallel; i++)
        if (s->running[i]) {
            found |= s->running[i]->late == JOB_CATCHES_UP;
            if (s->running[i]->late == JOB_IS_LATE)
                s->running[i]->late = JOB_ON_TIME;
        }
    return found;
}

void late_give_up(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->late_given_up = true;
    while (one_catches_up(s))
        pthread_cond_wait(&s->changed, &s->lock);
    s->late_given_up = false;
    pthread_mutex_unlock(&s->lock);
}
