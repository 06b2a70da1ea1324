/* The state of the HTTP thread, which owns every socket: connections, and the exchanges on them. MHD
 * parses requests and writes answers; sockets, time and memory are watched here. For the files of the
 * frame; handlers see exchange.h only. */
#ifndef SERVE_FRAME_H
#define SERVE_FRAME_H

#include "app/serve/http/access_log.h"
#include "app/serve/http/exchange.h"
#include "app/serve/http/api_keys.h"
#include "app/serve/http/lanes.h"
#include "app/serve/serve_options.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

struct frame;

/* ---- connections: connections.c ----------------------------------------------------------- */

enum phase {
    PHASE_IDLE, /* nothing of a request is here */
    PHASE_HEAD, /* its first byte is */
    PHASE_BODY, /* its header is complete */
    PHASE_WORK, /* it is complete: the server is busy, and no limit of time holds */
    PHASE_SEND, /* an answer waits to be sent */
    PHASE_SHUT, /* nothing more is read or sent */
};

struct connection {
    struct connection *next, **link; /* in frame.connections */
    struct frame *frame;
    int fd; /* MHD closes it, or this file where it is `ours` */
    struct MHD_Connection *mhd;
    struct exchange *x; /* the request being read or answered; owned */
    enum phase phase;
    bool ours;        /* MHD does not have it: its first header is not there yet, or it was refused */
    bool used;        /* has had a request, so that all of MHD's memory for it is in use */
    bool half_closed; /* the client sends no more */
    double since;     /* when the phase began, or data was last sent */
    uint64_t unsent;  /* bytes in the system's buffer when last looked at */
    uint64_t address; /* hash of the client's */
    char name[INET6_ADDRSTRLEN];
};

void connections_accept(struct frame *f); /* all that wait */
/* Epoll's events of a connection, found by its descriptor. */
void connections_event(struct frame *f, int fd, uint32_t events);
void connections_tick(struct frame *f); /* ends what is too slow */
void connections_enter(struct connection *c, enum phase phase);
/* Neither reads nor writes from now on; MHD will close it. shut: its exchange is lost at once, too. */
void connections_cut(struct connection *c);
void connections_shut(struct connection *c);
/* The same, after the fault in the words of an API: for requests of which MHD never got enough. */
void connections_refuse(struct connection *c, const struct fault *fault, bool anthropic);
/* The fault at once, while the client still sends: what it sends is read, or it would never see the answer. */
void connections_tell(struct connection *c, const struct fault *fault, bool anthropic);
/* Ends connections without a request, except new ones, which are about to send one. True: none is left. */
bool connections_close_idle(struct frame *f);
void connections_drop(struct connection *c); /* forgets it, and closes it if MHD never had it */
/* For MHD: began or ended. */
void connections_notify(void *frame, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code);

/* ---- exchanges: exchange.c ---------------------------------------------------------------- */

struct exchange {
    struct frame *frame;
    struct connection *c;
    uint64_t id;
    /* request */
    char *target;                 /* as sent, NUL-terminated; owned */
    char *path;                   /* its path, decoded; owned */
    const char *method, *version; /* MHD's, for as long as the request */
    const struct route *route;    /* NULL: none */
    struct fault fault;           /* found before the handler was asked */
    char *body;                   /* [n_body] of [room], then a NUL; owned */
    size_t n_body, room;
    uint64_t stated;   /* bytes of the body, by its header; 0: not stated */
    uint64_t received; /* of the body, what was dropped included */
    json_t *json;      /* owned */
    uint64_t n_held;   /* bytes of memory that body and JSON count for */
    uint64_t client;
    bool begun;   /* the header was checked */
    bool unclear; /* where the request ends: nothing behind its header is read */
    bool handled; /* the handler was called */
    bool told;    /* what is wrong, before its body came, which is read and forgotten */
    /* work: while at_work, a thread of the lanes alone uses all of this except these and `woken` */
    struct lane_task task;
    bool at_work;
    atomic_bool lost; /* the client has left meanwhile */
    bool again;       /* the handler shall be called once more, in the long lane */
    /* answer */
    int status; /* 0: not known yet */
    struct header {
        struct header *next;
        char *value;
        char name[48];
    } * headers; /* owned */
    bool queued, streams, ended, suspended;
    bool held; /* the handler waits until the client has read, */
    double held_since, held_seconds; /* since then, and so long before */
    bool gone; /* the client is; nothing more is sent */
    bool shape_anthropic;
    char *out; /* [n_out - out_at] bytes from out_at wait for MHD; owned */
    size_t out_at, n_out, out_room;
    uint64_t sent;
    double started, written; /* when the request began; when it was complete or the stream last written */
    char note[512];          /* of exchange_log */
    /* wait */
    const struct exchange_waiter *waiter; /* NULL: nobody waits */
    void *arg;
    /* under frame.lock */
    bool woken;  /* in frame.woken */
    bool worked; /* no longer at work */
    struct exchange *next_woken;
};

/* Callbacks of MHD. */
void *exchange_target(void *frame, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result exchange_handle(void *frame, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *n_data, void **context);
void exchange_completed(void *frame, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode code);
size_t exchange_unescape(void *frame, struct MHD_Connection *mhd, char *text);

void exchanges_advance(struct frame *f); /* those that were woken */
void exchange_worked(struct exchange *x);  /* from a thread of the lanes: the work is done */
/* Says something that the client skips, if the answer is a stream; begins it, if that has not been done. */
void exchange_keep_alive(struct exchange *x);
/* The same in any way there is, but what fails may still have its status. */
void exchange_ping(struct exchange *x);
void exchange_lose(struct exchange *x);  /* the client is gone */
void exchange_free(struct exchange *x);

/* ---- the answer: exchange_answer.c --------------------------------------------------------- */

/* The connection waits, so that MHD leaves it alone; it goes on, if it waited. */
void exchange_suspend(struct exchange *x);
void exchange_resume(struct exchange *x);
void exchange_give_up(struct exchange *x); /* nothing more is sent; `closed` follows when MHD sees it */
enum MHD_Result exchange_queue(struct exchange *x); /* its status is known: MHD sends it */
bool exchange_pending(const struct exchange *x); /* bytes of an answer wait for MHD */
double exchange_held(const struct exchange *x);   /* seconds that its handler has waited for the client */

/* ---- the body: request_body.c ------------------------------------------------------------- */

void request_body_take(struct exchange *x, const char *data, size_t n);
/* All of it is there: a line of the log if the options say so. */
void request_body_end(struct exchange *x);
/* x->json, or x->fault. The text is gone. */
void request_body_parse(struct exchange *x);
void request_body_close(struct exchange *x);
/* A body of n bytes is not even read to its end. */
bool request_body_is_absurd(const struct exchange *x, uint64_t n);

/* ---- handlers in the lanes: request_work.c --------------------------------------------------- */

/* Has the handler called in a lane; its connection must be suspended. exchange_worked follows. */
void request_work_begin(struct exchange *x);

/* ---- the checks of a header: gate.c -------------------------------------------------------- */

/* Fills x->fault, x->route, x->client, x->path from the header; adds the headers of CORS. */
void gate_check(struct exchange *x, struct MHD_Connection *mhd);
/* Whether the server takes requests of this route now. */
void gate_state(struct exchange *x);

/* ---- the loop: http_loop.c ------------------------------------------------------------------ */

struct frame {
    struct server *server;
    struct MHD_Daemon *daemon;
    struct access_log log;
    struct api_keys keys;
    int epoll_fd, listen_fd, wake_fd; /* -1: closed */
    int port;
    char url[96];
    bool accept_paused; /* out of descriptors */
    double now;         /* when this round began, in seconds of a steady clock */
    struct connection *connections, **by_fd; /* by_fd [n_by_fd] */
    size_t n_by_fd, n_connections, n_used, n_exchanges;
    uint64_t next_id, id_mask;
    struct lanes *lanes;
    pthread_mutex_t lock; /* for the next two */
    struct exchange *woken;
    uint64_t n_held; /* of all exchanges, at most --max-request-memory */
    /* for /metrics */
    uint64_t n_accepted, n_refused, n_timeouts, n_lost, n_status[6];
};

enum tern_status frame_open(struct frame **out, struct server *s, struct tern_error *e);
/* After scheduler_end. False: a thread still works on a request, and uses all that is open: only _exit is left. NULL
 * is fine. */
bool frame_close(struct frame *f);
/* Wakes the loop, from any thread. */
void frame_wake(void *frame);
/* Serves until a signal asks to stop, or the model is lost, and what runs has ended. `loaded` is called
 * once in this thread when the model is there. */
typedef enum tern_status (*frame_loaded)(struct frame *f, struct tern_error *e);
enum tern_status frame_run(struct frame *f, frame_loaded loaded, struct tern_error *e);

#endif
