/* serve: a server that programs for OpenAI's and Anthropic's APIs can use. This thread is that of
 * HTTP; the scheduler's runs the model. */
#include "app/cli/finish.h"
#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/cli/team.h"
#include "app/serve/http/frame.h"
#include "app/serve/sandbox.h"
#include "app/serve/model/saved_prefixes.h"
#include "app/serve/model/scheduler.h"
#include "app/serve/model/serve_load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* "models/fable.bin" is fable. */
static char *name_of(const struct serve_options *o)
{
    const char *path = o->model, *slash = strrchr(path, '/');
    char *name = strdup(o->value[SERVE_ALIAS].given ? o->value[SERVE_ALIAS].text
                        : slash                     ? slash + 1
                                                    : path);
    size_t n = name ? strlen(name) : 0;
    if (n > 4 && !o->value[SERVE_ALIAS].given && !strcmp(name + n - 4, ".bin"))
        name[n - 4] = 0;
    return name;
}

/* The model is there. All threads live, all files are open: now the sandbox. */
static enum tern_status loaded(struct frame *f, struct tern_error *e)
{
    const struct server *s = f->server;
    char why[128];
    (void)e;
    if (!team_is_alone())
        fprintf(stderr, "serve: no sandbox: MPI opens connections and files as it goes\n");
    else if (!s->options->value[SERVE_NO_SANDBOX].given && !sandbox_enter(why, sizeof why))
        fprintf(stderr, "serve: no sandbox: %s\n", why);
    if (!tern_chat_info(s->model, &(struct tern_chat_info){0}))
        fprintf(stderr, "serve: the model has no chat template: chats need --chat-template NAME\n");
    out_print("serve: ready: %s, %lld requests at a time, %u tokens each; kernels %s, %s\n",
              s->model_name, (long long)serve_number(s->options, SERVE_PARALLEL), s->plan.n_ctx,
              s->info.cpu, s->info.threads_why);
    return TERN_OK;
}

/* Signals are for this thread: those of the frame's lanes and the scheduler begin with them blocked. */
static enum tern_status start(struct server *s, struct frame **f, struct tern_error *e)
{
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGHUP);
    sigaddset(&stop, SIGALRM);
    sigaddset(&stop, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    enum tern_status status = frame_open(f, s, e);
    if (!status)
        out_print("serve: listening at %s\n", (*f)->url);
    if (!status)
        status = scheduler_open(&s->scheduler, s, frame_wake, *f, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* The commonest mistake is said before anything is set up. */
static enum tern_status look_for(const char *path, struct tern_error *e)
{
    if (!access(path, R_OK))
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "%.300s: cannot open: %s", path, strerror(errno));
    return e->code = TERN_IO;
}

static enum tern_status serve(const struct serve_options *o, struct tern_error *e)
{
    struct server server = {.options = o, .started = time(NULL)};
    struct frame *f = NULL;
    char *name = name_of(o);
    enum tern_status s = name ? TERN_OK : parser_no_memory(e);
    server.model_name = name;
    signals_init("serve", o->model);
    signals_note();
    signals_hold(true);
    json_object_seed(0); /* reads random bytes from a file, perhaps */
    if (!s && team_is_alone()) /* else there may be parts */
        s = look_for(o->model, e);
    if (!s && o->value[SERVE_CACHE_DIR].given)
        s = saved_prefixes_check(o->value[SERVE_CACHE_DIR].text, e);
    if (!s)
        s = start(&server, &f, e);
    if (!s)
        s = frame_run(f, loaded, e);
    scheduler_end(server.scheduler); /* first, for its thread wakes the frame */
    bool closed = frame_close(f);
    if (!s)
        signals_clear(); /* who asked the server to end got what was asked for */
    if (!closed)
        _exit(finish_program("serve", s, e));
    scheduler_close(server.scheduler);
    free(name);
    return s;
}

static enum tern_status run(const struct serve_options *o, struct tern_error *e)
{
    if (o->job == N_SERVE_OPTIONS)
        return team_follows() ? load_follow(o, e) : serve(o, e);
    if (o->job == SERVE_VERSION)
        out_print("serve (tern) %s\n%s\n", tern_version(), tern_build_info());
    if (o->job == SERVE_HELP)
        serve_options_help();
    return TERN_OK;
}

int main(int argc, char **argv)
{
    struct serve_options o;
    struct tern_error e = {0};
    out_init();
    if (team_start("serve", &e))
        return finish_program("serve", e.code, &e);
    enum tern_status s = serve_options_open(&o, argc, argv, &e);
    if (!s)
        s = run(&o, &e);
    serve_options_close(&o);
    return finish_program("serve", s, &e);
}
