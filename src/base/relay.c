/* Two pieces of work that take turns: see relay.h. */
#include "base/relay.h"

#ifdef TERN_MPI

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fpenv.h"
#include "base/thread.h"

struct relay {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*fn)(void *work);
    void *works[2];
    bool runs[2]; /* is not over */
    int turn;
    bool asked, ends; /* of the other thread: to run works[1]; to end */
};

/* With the mutex held */
static void hand_over(struct relay *r, int to)
{
    if (r->runs[to])
        r->turn = to;
    pthread_cond_broadcast(&r->changed);
}

void relay_give(struct relay *r, int i)
{
    pthread_mutex_lock(&r->mutex);
    hand_over(r, !i);
    pthread_mutex_unlock(&r->mutex);
}

void relay_take(struct relay *r, int i)
{
    pthread_mutex_lock(&r->mutex);
    while (r->turn != i)
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

static void work(struct relay *r, int i)
{
    relay_take(r, i);
    r->fn(r->works[i]);
    pthread_mutex_lock(&r->mutex);
    r->runs[i] = false;
    hand_over(r, !i);
    pthread_mutex_unlock(&r->mutex);
}

static void *partner(void *arg)
{
    struct relay *r = arg;
    fpenv_enter();
    for (;;) {
        pthread_mutex_lock(&r->mutex);
        while (!r->asked && !r->ends)
            pthread_cond_wait(&r->changed, &r->mutex);
        bool ends = r->ends;
        r->asked = false;
        pthread_mutex_unlock(&r->mutex);
        if (ends)
            return NULL;
        work(r, 1);
    }
}

void relay_run(struct relay *r, void (*fn)(void *work), void *const works[2])
{
    pthread_mutex_lock(&r->mutex);
    r->fn = fn, r->works[0] = works[0], r->works[1] = works[1];
    r->runs[0] = r->runs[1] = r->asked = true;
    r->turn = 0;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    work(r, 0);
    pthread_mutex_lock(&r->mutex);
    while (r->runs[1])
        pthread_cond_wait(&r->changed, &r->mutex);
    pthread_mutex_unlock(&r->mutex);
}

enum tern_status relay_open(struct relay **out, struct tern_error *e)
{
    struct relay *r = *out = calloc(1, sizeof *r);
    if (!r)
        return error_memory(e, "a thread", sizeof *r);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    enum tern_status s = thread_start(&r->thread, 0, partner, r, e);
    if (s)
        free(r), *out = NULL;
    return s;
}

void relay_close(struct relay *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->mutex);
    r->ends = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    pthread_join(r->thread, NULL);
    pthread_mutex_destroy(&r->mutex);
    pthread_cond_destroy(&r->changed);
    free(r);
}

#endif
