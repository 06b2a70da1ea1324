/* The sockets of clients: how many, how slow, and whether they are still there. See frame.h.
 *
 * MHD has limits of its own, but none for the time of a header or the pace of a body, and it does not
 * look at suspended connections at all. So this file accepts, and watches every socket edge-triggered
 * beside MHD. MHD gets a connection when the header of its first request is there, and was looked at. One that
 * breaks a limit is shut down; MHD sees that and closes it. */
#define _GNU_SOURCE /* accept4 */
#include "app/serve/http/frame.h"

#include "app/serve/http/fault_text.h"
#include "app/serve/http/request_head.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SEND_BUFFER = 65536, /* of the system, per connection; it doubles this */
    BODY_GRACE = 2,      /* seconds before the pace of a body counts */
    REFUSED_TIME = 2,    /* seconds that a refused client has to read why */
    FRESH_TIME = 1,      /* in which a new connection brings its first request, seconds */
    MAX_REFUSED = 64,    /* refused clients that get an answer at a time */
};

/* ---- the table ----------------------------------------------------------------------------- */

static struct connection *find(const struct frame *f, int fd)
{
    return fd >= 0 && (size_t)fd < f->n_by_fd ? f->by_fd[fd] : NULL;
}

static bool make_room(struct frame *f, int fd)
{
    size_t n = (size_t)fd + 1;
    if (n <= f->n_by_fd)
        return true;
    n += n / 2 + 64;
    struct connection **more = realloc(f->by_fd, n * sizeof *more);
    if (!more)
        return false;
    memset(more + f->n_by_fd, 0, (n - f->n_by_fd) * sizeof *more);
    f->by_fd = more;
    f->n_by_fd = n;
    return true;
}

/* FNV-1a over the address's bytes, without the port; of IPv6 the first 64 bits, which one person has. */
static uint64_t address_hash(const struct sockaddr_storage *a)
{
    const unsigned char *p = (const unsigned char *)&((const struct sockaddr_in *)a)->sin_addr;
    size_t n = 4;
    uint64_t h = 0xCBF29CE484222325u;
    if (a->ss_family == AF_INET6) {
        p = ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;
        n = IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)a)->sin6_addr) ? 16 : 8;
    }
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}

static struct connection *add(struct frame *f, int fd, const struct sockaddr_storage *a)
{
    struct connection *c = make_room(f, fd) ? calloc(1, sizeof *c) : NULL;
    struct epoll_event watch = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
    if (!c || epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &watch)) {
        free(c);
        return NULL;
    }
    c->frame = f;
    c->fd = fd;
    c->ours = true;
    c->since = f->now;
    c->address = address_hash(a);
    if (a->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, c->name, sizeof c->name);
    else
        inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, c->name, sizeof c->name);
    c->next = f->connections;
    c->link = &f->connections;
    if (c->next)
        c->next->link = &c->next;
    f->connections = f->by_fd[fd] = c;
    f->n_connections++;
    return c;
}

void connections_drop(struct connection *c)
{
    struct frame *f = c->frame;
    epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    if (c->x)
        exchange_free(c->x);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    f->by_fd[c->fd] = NULL;
    f->n_connections--;
    f->n_used -= c->used;
    if (c->ours)
        close(c->fd);
    free(c);
}

void connections_notify(void *frame, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *c = info ? find(frame, info->connect_fd) : NULL;
    if (!c)
        return;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        c->mhd = mhd;
        *context = c;
    } else {
        *context = NULL;
        connections_drop(c);
    }
}

/* ---- accepting ----------------------------------------------------------------------------- */

/* It is about to be closed, and counts no more. */
static bool is_refused(const struct connection *c)
{
    return c->ours && c->phase == PHASE_SHUT;
}

/* What is wrong with one more connection from an address. */
static void check_crowd(const struct frame *f, uint64_t address, struct fault *fault)
{
    const struct serve_options *o = f->server->options;
    size_t n = 0, of_address = 0;
    for (const struct connection *c = f->connections; c; c = c->next) {
        n += !is_refused(c);
        of_address += !is_refused(c) && c->address == address;
    }
    if (n >= (size_t)serve_number(o, SERVE_MAX_CONNECTIONS))
        fault_set(fault, 503, NULL, "too_many_connections", NULL,
                  "the server has all the %zu connections that it allows; try again later", n);
    else if (of_address >= (size_t)serve_number(o, SERVE_MAX_PER_ADDRESS))
        fault_set(fault, 429, NULL, "too_many_connections", NULL,
                  "your address has all the %zu connections that one may have; close some",
                  of_address);
    fault->retry_after = fault->status ? 1 : 0;
}

static void send_fault(const struct connection *c, const struct fault *fault, bool anthropic)
{
    char text[FAULT_TEXT + 512];
    size_t n = fault_http(fault, anthropic, text, sizeof text);
    (void)!send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What the client sends from now on is read, or it would never see the answer. */
static void hang_up(struct connection *c)
{
    shutdown(c->fd, SHUT_WR);
    connections_enter(c, PHASE_SHUT);
}

static void refuse_new(struct frame *f, int fd, const struct sockaddr_storage *a,
                       const struct fault *fault)
{
    size_t n = 0;
    for (const struct connection *c = f->connections; c; c = c->next)
        n += is_refused(c);
    struct connection *c = n < MAX_REFUSED ? add(f, fd, a) : NULL;
    f->n_refused++;
    if (!c) {
        close(fd);
        return;
    }
    send_fault(c, fault, false);
    hang_up(c);
}

/* Reads what is there, and forgets it. False: there will be no more. */
static bool read_away(const struct connection *c)
{
    char away[4096];
    ssize_t n;
    do
        n = recv(c->fd, away, sizeof away, MSG_DONTWAIT);
    while (n > 0);
    return n && (errno == EAGAIN || errno == EINTR);
}

/* MHD closes the socket when it cannot take the connection; its record goes by hand if it never told of it. */
static void hand_over(struct connection *c)
{
    struct frame *f = c->frame;
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    int fd = c->fd;
    getpeername(fd, (struct sockaddr *)&a, &n);
    c->ours = false;
    if (MHD_add_connection(f->daemon, fd, (const struct sockaddr *)&a, n) == MHD_YES)
        return;
    c = find(f, fd);
    if (c)
        connections_drop(c);
}

/* Looks at what a new connection has brought. False: it is MHD's now, because a whole header is there. */
static bool look(struct connection *c)
{
    char text[REQUEST_HEAD_MOST];
    struct fault fault = {0};
    bool anthropic = false;
    ssize_t n = recv(c->fd, text, sizeof text, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n > 0 && c->phase == PHASE_IDLE)
        connections_enter(c, PHASE_HEAD);
    if (n > 0 && request_head_check(c->frame->server->options, text, (size_t)n, &fault, &anthropic)) {
        hand_over(c);
        return false;
    }
    if (fault.status)
        connections_refuse(c, &fault, anthropic);
    else if (n <= 0 || c->half_closed) /* no header will come */
        connections_shut(c);
    return true;
}

static void begin(struct frame *f, int fd, const struct sockaddr_storage *a)
{
    struct fault fault = {0};
    int on = 1, bytes = SEND_BUFFER;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    f->n_accepted++;
    check_crowd(f, address_hash(a), &fault);
    if (fault.status)
        refuse_new(f, fd, a, &fault);
    else if (!add(f, fd, a))
        close(fd);
}

void connections_accept(struct frame *f)
{
    struct sockaddr_storage a;
    for (int i = 0; i < 64; i++) { /* so that others get their turn */
        socklen_t n = sizeof a;
        int fd = accept4(f->listen_fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            begin(f, fd, &a);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) { /* EMFILE, ENFILE, ENOBUFS, ENOMEM */
            epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, f->listen_fd, NULL);
            f->accept_paused = true;
            access_log_line(&f->log, "accept: %s; trying again soon", strerror(errno));
        }
        return;
    }
}

/* ---- ends ---------------------------------------------------------------------------------- */

void connections_enter(struct connection *c, enum phase phase)
{
    if (c->phase == PHASE_SHUT)
        return;
    c->phase = phase;
    c->since = c->frame->now;
}

void connections_cut(struct connection *c)
{
    connections_enter(c, PHASE_SHUT);
    shutdown(c->fd, SHUT_RDWR);
}

void connections_shut(struct connection *c)
{
    connections_cut(c);
    if (c->x)
        exchange_lose(c->x);
}

void connections_tell(struct connection *c, const struct fault *fault, bool anthropic)
{
    send_fault(c, fault, anthropic);
    shutdown(c->fd, SHUT_WR);
}

void connections_refuse(struct connection *c, const struct fault *fault, bool anthropic)
{
    send_fault(c, fault, anthropic);
    c->frame->n_status[fault->status / 100]++;
    access_log_line(&c->frame->log, "%s - - %d %s", c->name, fault->status, fault->message);
    if (c->ours)
        hang_up(c);
    else
        connections_shut(c);
}

static void read_refused(struct connection *c)
{
    if (!read_away(c))
        connections_drop(c);
}

/* The client sends no more. Either it has gone, and then the system resets the connection as soon as
 * we write; or it waits for its answer. */
static void half_closed(struct connection *c)
{
    c->half_closed = true;
    if (c->phase == PHASE_WORK && c->x)
        exchange_ping(c->x);
}

void connections_event(struct frame *f, int fd, uint32_t events)
{
    struct connection *c = find(f, fd);
    if (!c)
        return;
    if (c->ours) {
        c->half_closed |= (events & EPOLLRDHUP) != 0;
        if ((is_refused(c) || look(c)) && is_refused(c))
            read_refused(c);
        return;
    }
    if (events & (EPOLLERR | EPOLLHUP)) {
        bool waits = c->x && !c->x->told && !c->x->lost;
        f->n_lost += waits;
        if (waits)
            exchange_lose(c->x);
        return;
    }
    if (c->phase == PHASE_IDLE && (events & EPOLLIN))
        connections_enter(c, PHASE_HEAD);
    if ((events & EPOLLRDHUP) && !c->half_closed)
        half_closed(c);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void time_out(struct connection *c, const char *what, int64_t seconds)
{
    struct fault fault = {0};
    fault_set(&fault, 408, NULL, "request_timeout", NULL, what, (long long)seconds);
    c->frame->n_timeouts++;
    connections_refuse(c, &fault, c->x && c->x->shape_anthropic);
}

static void check_body(struct connection *c, double seconds)
{
    const struct serve_options *o = c->frame->server->options;
    int64_t rate = serve_number(o, SERVE_BODY_RATE), most = serve_number(o, SERVE_BODY_TIME);
    bool is_slow = c->x && seconds > BODY_GRACE && (double)c->x->received < seconds * (double)rate;
    if (c->x && c->x->told && (is_slow || seconds > (double)most))
        connections_cut(c);
    else if (seconds > (double)most)
        time_out(c, "the body took longer than %lld s", most);
    else if (is_slow)
        time_out(c, "the body came slower than %lld bytes a second", rate);
}

/* A client that takes a little now and then makes its text wait, and others for the sequence. */
static void check_reader(struct connection *c)
{
    double most = (double)serve_number(c->frame->server->options, SERVE_READER_TIME);
    if (!c->x || exchange_held(c->x) <= most)
        return;
    exchange_log(c->x, "the text waited %g s for the client to read", most);
    connections_shut(c);
}

/* Bytes of the answer that were taken from us are progress, and so are those that the client took
 * from the system. */
static void check_send(struct connection *c, double seconds)
{
    double most = (double)serve_number(c->frame->server->options, SERVE_STALL_TIME);
    int bytes = 0;
    if (ioctl(c->fd, SIOCOUTQ, &bytes) || (!bytes && !(c->x && exchange_pending(c->x))))
        c->since = c->frame->now;
    uint64_t unsent = (uint64_t)bytes - (c->x ? c->x->sent : 0);
    if (unsent != c->unsent)
        c->since = c->frame->now;
    else if (seconds > most) {
        if (c->x)
            exchange_log(c->x, "the client took nothing for %g s", most);
        connections_shut(c);
    }
    c->unsent = unsent;
    if (c->phase != PHASE_SHUT)
        check_reader(c);
}

/* Looks at what a connection that is late has brought: it may have come while we did other work. True: nothing
 * has, and it is in its phase still. */
static bool look_in_vain(struct connection *c)
{
    enum phase phase = c->phase;
    return !c->ours || (look(c) && c->phase == phase);
}

/* The client sends no more, and MHD has read all of what is no whole request. */
static bool is_cut_off(const struct connection *c)
{
    char byte;
    bool reads = c->phase == PHASE_HEAD || (c->phase == PHASE_BODY && !(c->x && c->x->told));
    return reads && c->half_closed && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void check(struct connection *c)
{
    const struct frame *f = c->frame;
    const struct serve_options *o = f->server->options;
    double seconds = f->now - c->since;
    if (is_cut_off(c)) {
        connections_shut(c);
        return;
    }
    switch (c->phase) {
    case PHASE_IDLE:
        if (seconds > (c->half_closed ? 0 : (double)serve_number(o, SERVE_IDLE_TIME)) && look_in_vain(c))
            connections_shut(c); /* MHD may not see that the client sends no more */
        break;
    case PHASE_HEAD:
        if (seconds > (double)serve_number(o, SERVE_HEADER_TIME) && look_in_vain(c))
            time_out(c, "the header took longer than %lld s", serve_number(o, SERVE_HEADER_TIME));
        break;
    case PHASE_BODY:
        check_body(c, seconds);
        break;
    case PHASE_SEND:
        check_send(c, seconds);
        break;
    case PHASE_SHUT:
        if (c->ours && seconds > REFUSED_TIME)
            connections_drop(c);
        break;
    case PHASE_WORK:
        if (c->half_closed && c->x) /* it may have gone since */
            exchange_ping(c->x);
        break;
    }
}

void connections_tick(struct frame *f)
{
    for (struct connection *c = f->connections, *next; c; c = next) {
        next = c->next;
        check(c);
    }
}

bool connections_close_idle(struct frame *f)
{
    bool left = false;
    for (struct connection *c = f->connections; c; c = c->next) {
        bool is_new = c->phase == PHASE_HEAD || (c->phase == PHASE_IDLE && !c->used);
        if ((c->phase == PHASE_IDLE || c->phase == PHASE_HEAD) && !(is_new && f->now - c->since < FRESH_TIME))
            connections_shut(c);
        left |= c->phase == PHASE_IDLE || c->phase == PHASE_HEAD;
    }
    return !left;
}
