/* The loop of the HTTP thread: our epoll around MHD's. See frame.h. */
#include "app/serve/http/frame.h"

#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/serve/http/listener.h"
#include "app/serve/model/scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    TICK = 250, /* milliseconds between looks at the time */
    N_EVENTS = 256,
    FIELD = 96,       /* of MHD's memory, for a field of the header, beside its text; that of cookies is kept twice */
    MEMORY = 8192,    /* and for the rest: the answer's header */
    SPARE_FILES = 64, /* descriptors for everything but connections */
    LAST_SECONDS = 2, /* to end what was cancelled */
};

/* ---- open and close ------------------------------------------------------------------------- */

/* As many descriptors as connections need, if we may. */
static void raise_files(int64_t n)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= (rlim_t)n)
        return;
    r.rlim_cur = r.rlim_max < (rlim_t)n ? r.rlim_max : (rlim_t)n;
    setrlimit(RLIMIT_NOFILE, &r);
}

static enum tern_status watch(struct frame *f, int fd, struct tern_error *e)
{
    struct epoll_event w = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && !epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &w))
        return TERN_OK;
    snprintf(e->text, sizeof e->text, "epoll: %s", strerror(errno));
    return e->code = TERN_IO;
}

static enum tern_status start_daemon(struct frame *f, struct tern_error *e)
{
    const struct serve_options *o = f->server->options;
    size_t memory = (size_t)(serve_number(o, SERVE_MAX_LINE) + 2 * serve_number(o, SERVE_MAX_HEADERS) +
                             FIELD * serve_number(o, SERVE_MAX_FIELDS)) +
                    MEMORY;
    const union MHD_DaemonInfo *info;
    f->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        exchange_handle, f, MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, f,
        MHD_OPTION_NOTIFY_CONNECTION, connections_notify, f, MHD_OPTION_URI_LOG_CALLBACK,
        exchange_target, f, MHD_OPTION_UNESCAPE_CALLBACK, exchange_unescape, f,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)serve_number(o, SERVE_MAX_CONNECTIONS) + 1,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_STRICT_FOR_CLIENT, -1,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
    info = f->daemon ? MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info)
        return watch(f, info->epoll_fd, e);
    snprintf(e->text, sizeof e->text, "libmicrohttpd could not be started");
    return e->code = TERN_INTERNAL;
}

static enum tern_status start_listening(struct frame *f, struct tern_error *e)
{
    const struct serve_options *o = f->server->options;
    struct listener l;
    enum tern_status s =
        listener_open(&l, o->value[SERVE_HOST].text, (int)serve_number(o, SERVE_PORT), e);
    f->listen_fd = l.fd;
    f->port = l.port;
    f->server->is_shared = !l.loopback || f->keys.n > 1;
    memcpy(f->url, l.url, sizeof f->url);
    return s ? s : watch(f, f->listen_fd, e);
}

enum tern_status frame_open(struct frame **out, struct server *server, struct tern_error *e)
{
    struct frame *f = *out = calloc(1, sizeof *f);
    const struct serve_options *o = server->options;
    if (!f)
        return parser_no_memory(e);
    f->server = server;
    f->now = stopwatch_now();
    f->listen_fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    (void)!getrandom(&f->id_mask, sizeof f->id_mask, GRND_NONBLOCK);
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    raise_files(serve_number(o, SERVE_MAX_CONNECTIONS) + SPARE_FILES);
    enum tern_status s =
        access_log_open(&f->log, o->value[SERVE_LOG_FILE].text, o->value[SERVE_QUIET].given, e);
    if (!s)
        s = api_keys_open(&f->keys, o, e);
    if (!s)
        s = watch(f, f->wake_fd, e);
    if (!s)
        s = lanes_open(&f->lanes, e);
    if (!s)
        s = start_daemon(f, e);
    return s ? s : start_listening(f, e);
}

bool frame_close(struct frame *f)
{
    if (!f)
        return true;
    if (!lanes_close(f->lanes, LAST_SECONDS)) /* all are lost, so this waits for what runs alone */
        return false;
    exchanges_advance(f);
    if (f->daemon) {
        MHD_run(f->daemon); /* ends those that were suspended, which stopping does not allow */
        MHD_stop_daemon(f->daemon);
    }
    while (f->connections) /* those that were refused */
        connections_drop(f->connections);
    if (f->listen_fd >= 0)
        close(f->listen_fd);
    close(f->wake_fd);
    close(f->epoll_fd);
    access_log_close(&f->log);
    api_keys_close(&f->keys);
    pthread_mutex_destroy(&f->lock);
    free(f->by_fd);
    free(f);
    return true;
}

void frame_wake(void *frame)
{
    static const uint64_t one = 1;
    const struct frame *f = frame;
    (void)!write(f->wake_fd, &one, sizeof one);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void ping_silent(struct frame *f)
{
    double most = (double)serve_number(f->server->options, SERVE_PING);
    for (struct connection *c = f->connections; c; c = c->next)
        if (c->x && !c->x->at_work && !exchange_pending(c->x) && f->now - c->x->written >= most) {
            c->x->written = f->now;
            exchange_keep_alive(c->x);
        }
}

static void resume_accept(struct frame *f)
{
    struct tern_error e;
    if (f->accept_paused && f->listen_fd >= 0 && !watch(f, f->listen_fd, &e))
        f->accept_paused = false;
}

/* Milliseconds until something is to be done without an event; -1: nothing is. */
static int patience(struct frame *f)
{
    MHD_UNSIGNED_LONG_LONG of_mhd;
    if (MHD_get_timeout(f->daemon, &of_mhd) == MHD_YES && of_mhd < TICK)
        return (int)of_mhd;
    return f->connections || f->accept_paused || f->server->draining ? TICK : -1;
}

/* A signal between the last look and the wait must end the wait, so it may come in only there. */
static int wait_for_events(struct frame *f, struct epoll_event *events)
{
    sigset_t stop, before;
    int milliseconds = patience(f);
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    if (signals_caught() && !f->server->draining)
        milliseconds = 0;
    int n = epoll_pwait(f->epoll_fd, events, N_EVENTS, milliseconds, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

static void handle_event(struct frame *f, const struct epoll_event *event)
{
    uint64_t n;
    if (event->data.fd == f->wake_fd)
        (void)!read(f->wake_fd, &n, sizeof n);
    else if (event->data.fd == f->listen_fd)
        connections_accept(f);
    else
        connections_event(f, event->data.fd, event->events);
}

static void serve_once(struct frame *f, double *ticked)
{
    struct epoll_event events[N_EVENTS];
    int n = wait_for_events(f, events);
    f->now = stopwatch_now();
    for (int i = 0; i < n; i++)
        handle_event(f, &events[i]);
    exchanges_advance(f);
    if (f->now - *ticked >= TICK / 1000.0) {
        *ticked = f->now;
        MHD_run(f->daemon); /* what has come while we did other work is not late */
        connections_tick(f);
        ping_silent(f);
        resume_accept(f);
    }
    MHD_run(f->daemon);
}

struct ending {
    double until, last_turn;
    bool is_cut; /* what ran has been stopped */
};

/* What a turn took beyond its tick does not count: perhaps this process had no processor meanwhile, and what there
 * is to say has not been sent. */
static void be_lenient(const struct frame *f, struct ending *e)
{
    double late = f->now - e->last_turn - TICK / 1000.0;
    if (e->is_cut && late > 0)
        e->until += late;
    e->last_turn = f->now;
}

/* Asked to end: nothing new comes in, what runs may end. What has not ended in time is cut off, and has some
 * seconds of turns to say so. False: all is over. */
static bool drain(struct frame *f, struct ending *e)
{
    struct server *s = f->server;
    if (!s->draining) {
        s->draining = true;
        e->until = f->now + (double)serve_number(s->options, SERVE_DRAIN);
        connections_accept(f); /* those that wait would be reset */
        close(f->listen_fd);
        f->listen_fd = -1;
        access_log_line(&f->log, "ending: %zu requests are being answered", f->n_exchanges);
    }
    if (connections_close_idle(f) && !f->n_exchanges)
        return false;
    be_lenient(f, e);
    if (f->now <= e->until)
        return true;
    if (e->is_cut)
        return false;
    *e = (struct ending){f->now + LAST_SECONDS, f->now, true};
    lanes_give_up(f->lanes);
    scheduler_stop(s->scheduler, true);
    return true;
}

enum tern_status frame_run(struct frame *f, frame_loaded loaded, struct tern_error *e)
{
    struct server *server = f->server;
    double ticked = 0;
    struct ending ending = {0};
    bool told = false, over = false;
    enum tern_status s = TERN_OK;
    while (!over) {
        serve_once(f, &ticked);
        s = scheduler_status(server->scheduler, e);
        if (!s && !told && server->loaded) {
            told = true;
            s = loaded(f, e);
        }
        if (s && !told)
            over = true;
        else if (s || signals_caught())
            over = !drain(f, &ending);
    }
    for (struct connection *c = f->connections; c; c = c->next)
        connections_shut(c);
    return s;
}
