/* A mutex: see lock.h. */
#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>

struct lock {
    pthread_mutex_t mutex;
};

enum tern_status lock_open(struct lock **out, struct tern_error *e)
{
    struct lock *l = *out = malloc(sizeof *l);
    if (!l)
        return error_memory(e, "a lock", sizeof *l);
    pthread_mutex_init(&l->mutex, NULL);
    return TERN_OK;
}

void lock_close(struct lock *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

void lock_take(struct lock *l)
{
    pthread_mutex_lock(&l->mutex);
}

void lock_leave(struct lock *l)
{
    pthread_mutex_unlock(&l->mutex);
}
