/* The thread that runs the model: a stub that only loads it. */
#include "app/serve/scheduler.h"

#include "app/serve/serve_options.h"

#include <pthread.h>
#include <stdlib.h>

struct scheduler {
    struct server *server;
    pthread_t thread;
    void (*loaded)(void *arg);
    void *arg;
    struct tern_error error;
};

static void *run(void *arg)
{
    struct scheduler *c = arg;
    struct tern_model_params params = {.n_threads =
                                           (int)serve_number(c->server->options, SERVE_THREADS)};
    if (!tern_model_open(&c->server->model, c->server->options->model, &params, &c->error)) {
        tern_model_info(c->server->model, &c->server->info);
        c->server->loaded = true;
    }
    c->loaded(c->arg);
    return NULL;
}

enum tern_status scheduler_open(struct scheduler **out, struct server *s, void (*loaded)(void *arg),
                                void *arg, struct tern_error *e)
{
    struct scheduler *c = calloc(1, sizeof *c);
    *out = c;
    if (!c)
        return parser_no_memory(e);
    *c = (struct scheduler){.server = s, .loaded = loaded, .arg = arg};
    if (pthread_create(&c->thread, NULL, run, c)) {
        free(c);
        *out = NULL;
        return parser_no_memory(e);
    }
    return TERN_OK;
}

enum tern_status scheduler_status(const struct scheduler *c, struct tern_error *e)
{
    *e = c->error;
    return e->code;
}

void scheduler_stop(struct scheduler *c, bool now)
{
    (void)c, (void)now;
}

size_t scheduler_n_jobs(struct scheduler *c)
{
    (void)c;
    return 0;
}

void scheduler_close(struct scheduler *c)
{
    if (!c)
        return;
    pthread_join(c->thread, NULL);
    tern_model_close(c->server->model);
    free(c);
}

json_t *scheduler_slots(struct scheduler *c)
{
    (void)c;
    return json_array();
}

void scheduler_metrics(struct scheduler *c, struct growing_text *t)
{
    (void)c, (void)t;
}
