/* A lock: see lock.h. */
#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>

struct lock {
    pthread_mutex_t mutex;
    pthread_cond_t left;
    enum { LOCK_FREE, LOCK_BRIEF, LOCK_LONG } held;
};

enum tern_status lock_open(struct lock **out, struct tern_error *e)
{
    struct lock *l = *out = calloc(1, sizeof *l);
    if (!l)
        return error_memory(e, "a lock", sizeof *l);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->left, NULL);
    return TERN_OK;
}

void lock_close(struct lock *l)
{
    if (!l)
        return;
    pthread_cond_destroy(&l->left);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

void lock_take(struct lock *l)
{
    pthread_mutex_lock(&l->mutex);
    while (l->held)
        pthread_cond_wait(&l->left, &l->mutex);
    l->held = LOCK_LONG;
    pthread_mutex_unlock(&l->mutex);
}

bool lock_take_briefly(struct lock *l)
{
    pthread_mutex_lock(&l->mutex);
    while (l->held == LOCK_BRIEF)
        pthread_cond_wait(&l->left, &l->mutex);
    bool taken = !l->held;
    if (taken)
        l->held = LOCK_BRIEF;
    pthread_mutex_unlock(&l->mutex);
    return taken;
}

void lock_leave(struct lock *l)
{
    pthread_mutex_lock(&l->mutex);
    l->held = LOCK_FREE;
    pthread_cond_broadcast(&l->left);
    pthread_mutex_unlock(&l->mutex);
}
