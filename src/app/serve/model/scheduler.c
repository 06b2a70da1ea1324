/* The thread that runs the model: see scheduler.h. What it does in a turn is in batches.c. */
#include "app/serve/model/scheduler.h"

#include <stdlib.h>
#include <unistd.h>

#include "app/cli/parser.h"
#include "app/serve/model/batches.h"
#include "app/serve/model/late.h"
#include "app/serve/model/model_files.h"
#include "app/serve/model/serve_load.h"
#include "app/serve/model/saved_prefixes.h"

/* False: the thread shall end. *stop: what runs and waits shall end. */
static bool wait_for_work(struct scheduler *s, bool *stop)
{
    pthread_mutex_lock(&s->lock);
    while (!s->ending && !s->stopping && !batches_have_work(s))
        pthread_cond_wait(&s->changed, &s->lock);
    bool more = !s->ending;
    *stop = s->stopping || s->ending;
    s->stopping = false;
    pthread_mutex_unlock(&s->lock);
    return more;
}

/* For this thread and those of the pool, which it makes: one who asks for an answer of a millisecond, as
 * /health, waits for no slice of a thread that always has work. On Linux each thread has a nice value. */
enum { NICE = 5 };

static bool get_ready(struct scheduler *s, struct tern_error *e)
{
    return !load_all(s, e) && (late_open(s) || !parser_no_memory(e));
}

static void *run(void *arg)
{
    struct scheduler *s = arg;
    struct tern_error e = {0};
    (void)!nice(NICE);
    bool stop, is_loaded = get_ready(s, &e);
    pthread_mutex_lock(&s->lock);
    s->error = e;
    pthread_mutex_unlock(&s->lock);
    s->server->loaded = is_loaded;
    s->loaded(s->arg);
    for (bool more = is_loaded; more;) {
        more = wait_for_work(s, &stop);
        if (stop)
            batches_end_all(s);
        else
            batches_turn(s);
    }
    late_close(s);
    if (is_loaded && !model_files_changed(s))
        saved_prefixes_save(s);
    return NULL;
}

enum tern_status scheduler_open(struct scheduler **out, struct server *server,
                                void (*loaded)(void *arg), void *arg, struct tern_error *e)
{
    struct scheduler *s = *out = calloc(1, sizeof *s);
    if (!s)
        return parser_no_memory(e);
    *s = (struct scheduler){.server = server, .loaded = loaded, .arg = arg, .cache_fd = {-1, -1}};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_cond_init(&s->late_came, NULL);
    if (!pthread_create(&s->thread, NULL, run, s))
        return TERN_OK;
    s->has_ended = true;
    scheduler_close(s);
    *out = NULL;
    return parser_no_memory(e);
}

enum tern_status scheduler_status(struct scheduler *s, struct tern_error *e)
{
    if (s->server->loaded)
        (void)model_files_changed(s);
    pthread_mutex_lock(&s->lock);
    *e = s->error;
    pthread_mutex_unlock(&s->lock);
    return e->code;
}

void scheduler_stop(struct scheduler *s, bool now)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    if (now) {
        s->stopping = s->is_cut = true;
        for (uint32_t i = 0; i < MAX_PARALLEL; i++)
            if (s->running[i])
                job_wake(s->running[i]);
        for (struct job *j = s->waiting; j; j = j->next)
            job_wake(j);
    }
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

size_t scheduler_n_jobs(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_running + s->n_waiting;
    pthread_mutex_unlock(&s->lock);
    return n;
}

struct compiled_store *scheduler_compiled(struct scheduler *s)
{
    return s->compiled;
}

void scheduler_end(struct scheduler *s)
{
    if (!s || s->has_ended)
        return;
    pthread_mutex_lock(&s->lock);
    s->draining = s->ending = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->has_ended = true;
}

void scheduler_close(struct scheduler *s)
{
    if (!s)
        return;
    scheduler_end(s);
    load_close(s);
    pthread_cond_destroy(&s->changed);
    pthread_cond_destroy(&s->late_came);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
