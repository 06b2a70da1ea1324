/* Once a second: see ticker.h. */
#include "base/ticker.h"

#ifdef TERN_MPI

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"

struct ticker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*fn)(void);
    bool ends;
};

/* Waits for a second, or until it ends: true */
static bool pause_here(struct ticker *t)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&t->mutex);
    while (!t->ends && !pthread_cond_timedwait(&t->changed, &t->mutex, &until))
        ;
    bool ends = t->ends;
    pthread_mutex_unlock(&t->mutex);
    return ends;
}

static void *tick(void *arg)
{
    struct ticker *t = arg;
    while (!pause_here(t))
        t->fn();
    return NULL;
}

enum tern_status ticker_open(struct ticker **out, void (*fn)(void), struct tern_error *e)
{
    struct ticker *t = *out = calloc(1, sizeof *t);
    pthread_condattr_t moves_forward;
    if (!t)
        return error_memory(e, "a thread", sizeof *t);
    t->fn = fn;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_condattr_init(&moves_forward);
    pthread_condattr_setclock(&moves_forward, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &moves_forward);
    pthread_condattr_destroy(&moves_forward);
    enum tern_status s = thread_start(&t->thread, 0, tick, t, e);
    if (s)
        free(t), *out = NULL;
    return s;
}

void ticker_close(struct ticker *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->mutex);
    t->ends = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
    pthread_mutex_destroy(&t->mutex);
    pthread_cond_destroy(&t->changed);
    free(t);
}

#endif
