/* One request and its answer, on MHD: see exchange.h and frame.h.
 *
 * MHD calls exchange_target with the request line, exchange_handle when the header is complete, for
 * pieces of the body, and at its end. There the handler is asked. If it answers, the answer is queued
 * at once; if it waits, the connection is suspended until there is something to send. */
#include "app/serve/http/frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- the request ---------------------------------------------------------------------------- */

const char *exchange_method(const struct exchange *x)
{
    return x->method;
}

const char *exchange_path(const struct exchange *x)
{
    return x->path;
}

const char *exchange_rest(const struct exchange *x)
{
    return x->path + strlen(routes_name(x->route, x->path));
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->c->mhd, MHD_HEADER_KIND, name);
}

const char *exchange_query(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->c->mhd, MHD_GET_ARGUMENT_KIND, name);
}

json_t *exchange_json(const struct exchange *x)
{
    return x->json;
}

uint64_t exchange_client(const struct exchange *x)
{
    return x->client;
}

/* ---- the log -------------------------------------------------------------------------------- */

void exchange_log(struct exchange *x, const char *format, ...)
{
    size_t n = strlen(x->note);
    va_list ap;
    if (n + 2 >= sizeof x->note)
        return;
    if (n)
        x->note[n++] = ' ';
    va_start(ap, format);
    vsnprintf(x->note + n, sizeof x->note - n, format, ap);
    va_end(ap);
}

void exchange_log_fault(struct exchange *x, const struct fault *f)
{
    exchange_log(x, "%s%s%s", f->param, *f->param ? ": " : "", f->message);
}

/* ---- waiting -------------------------------------------------------------------------------- */

void exchange_wait(struct exchange *x, const struct exchange_waiter *w, void *arg)
{
    x->waiter = w;
    x->arg = arg;
}

static void wake(struct exchange *x, bool worked)
{
    struct frame *f = x->frame;
    pthread_mutex_lock(&f->lock);
    bool first = !f->woken;
    x->worked |= worked;
    if (!x->woken) {
        x->woken = true;
        x->next_woken = f->woken;
        f->woken = x;
    }
    pthread_mutex_unlock(&f->lock);
    if (first)
        frame_wake(f);
}

void exchange_wake(void *x)
{
    wake(x, false);
}

void exchange_worked(struct exchange *x)
{
    wake(x, true);
}

/* Takes the exchange out of the list of those that were woken. */
static void forget_wake(struct exchange *x)
{
    struct frame *f = x->frame;
    pthread_mutex_lock(&f->lock);
    for (struct exchange **p = &f->woken; *p; p = &(*p)->next_woken)
        if (*p == x) {
            *p = x->next_woken;
            break;
        }
    x->woken = false;
    pthread_mutex_unlock(&f->lock);
}

static struct exchange *take_woken(struct frame *f, bool *worked)
{
    pthread_mutex_lock(&f->lock);
    struct exchange *x = f->woken;
    if (x) {
        f->woken = x->next_woken;
        x->woken = false;
        *worked = x->worked;
        x->worked = false;
    }
    pthread_mutex_unlock(&f->lock);
    return x;
}

/* The waiter's last call. */
static void end_wait(struct exchange *x)
{
    const struct exchange_waiter *w = x->waiter;
    x->waiter = NULL;
    if (w && w->closed)
        w->closed(x->arg);
    forget_wake(x);
}

/* Without a handler that answers or waits */
static void check_answered(struct exchange *x)
{
    if (x->status || x->waiter || x->gone)
        return;
    fault_set(&x->fault, 500, NULL, NULL, NULL, "nothing answered the request");
    exchange_fault(x, &x->fault);
}

/* The exchange comes back from the lanes: what could not be done meanwhile is done now. */
static void end_work(struct exchange *x)
{
    x->at_work = false;
    x->suspended = true;
    if (x->streams)
        x->written = x->frame->now;
    if (x->gone)
        exchange_give_up(x);
    else if (x->lost)
        exchange_lose(x);
    check_answered(x);
    if (x->status)
        exchange_resume(x);
    else if (x->c->half_closed)
        exchange_ping(x);
}

/* A wake for a job's sake while its exchange is at work is made up for at the end of that. */
void exchanges_advance(struct frame *f)
{
    bool worked = false;
    for (struct exchange *x; (x = take_woken(f, &worked));) {
        if (worked)
            end_work(x);
        if (!x->at_work && x->waiter && x->waiter->advance && !x->gone)
            x->waiter->advance(x->arg, x);
    }
}

void exchange_keep_alive(struct exchange *x)
{
    if (!x->ended && x->waiter && x->waiter->ping && !x->gone)
        x->waiter->ping(x->arg, x);
}

void exchange_ping(struct exchange *x)
{
    static const char note[] = "HTTP/1.1 102 Processing\r\n\r\n";
    if (!x->at_work && x->streams)
        exchange_keep_alive(x);
    else if ((x->at_work || !x->status) && x->handled && !strcmp(x->version, "HTTP/1.1"))
        (void)!send(x->c->fd, note, sizeof note - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void exchange_lose(struct exchange *x)
{
    x->lost = true;
    if (x->at_work || x->gone)
        return;
    x->gone = true;
    end_wait(x);
    exchange_resume(x);
}

/* ---- the handler ---------------------------------------------------------------------------- */

/* Asks the handler, or has it asked in a lane. */
static void ask(struct exchange *x)
{
    x->handled = true;
    x->written = x->frame->now;
    connections_enter(x->c, PHASE_WORK);
    request_body_end(x);
    if (!x->fault.status && !x->status)
        gate_state(x); /* it may have begun to end since */
    if (x->fault.status) {
        exchange_fault(x, &x->fault);
    } else if (!x->status && (x->route->flags & ROUTE_JSON)) {
        MHD_suspend_connection(x->c->mhd);
        request_work_begin(x);
        return;
    } else if (!x->status) {
        x->route->handle(x->frame->server, x);
    }
    request_body_close(x);
    check_answered(x);
}

/* Asks the handler, the first time; then sends what there is or waits. */
static enum MHD_Result answer(struct exchange *x)
{
    if (!x->handled)
        ask(x);
    if (x->at_work)
        return MHD_YES;
    if (x->gone)
        return MHD_NO;
    if (x->status)
        return exchange_queue(x);
    exchange_suspend(x);
    if (x->c->half_closed)
        exchange_ping(x);
    return MHD_YES;
}

/* ---- from MHD ------------------------------------------------------------------------------- */

void *exchange_target(void *frame, const char *uri, struct MHD_Connection *mhd)
{
    struct frame *f = frame;
    struct connection *c = connection_of(mhd);
    struct exchange *x = c ? calloc(1, sizeof *x) : NULL;
    if (!x)
        return NULL;
    x->target = strdup(uri);
    if (!x->target) {
        free(x);
        return NULL;
    }
    x->frame = f;
    x->c = c;
    x->id = (f->next_id++ * 0x9E3779B97F4A7C15u) ^ f->id_mask;
    x->started = f->now;
    if (c->x)
        exchange_free(c->x);
    c->x = x;
    f->n_exchanges++;
    return x;
}

size_t exchange_unescape(void *frame, struct MHD_Connection *mhd, char *text)
{
    (void)frame, (void)mhd;
    return strlen(text); /* gate.c decodes paths; values of queries are used as they are */
}

/* Too long a body is answered at once, unless the answer has fields that MHD must write. */
static void tell(struct exchange *x)
{
    if (x->fault.status != 413 || x->headers)
        return;
    exchange_log_fault(x, &x->fault);
    x->status = x->fault.status;
    x->told = x->ended = true;
    connections_tell(x->c, &x->fault, x->shape_anthropic);
}

/* The header is complete. A request that is refused is still read to its end, unless the client
 * waits for 100 Continue or the body is absurd: a client sees an answer only when it has sent all. */
static enum MHD_Result begin(struct exchange *x)
{
    const char *length = exchange_header(x, "content-length");
    uint64_t most = (uint64_t)serve_number(x->frame->server->options, SERVE_MAX_BODY);
    unsigned long long n = 0;
    gate_check(x, x->c->mhd);
    for (const char *p = length ? length : ""; *p >= '0' && *p <= '9' && n < 1ull << 60; p++)
        n = n * 10 + (unsigned)(*p - '0');
    x->stated = n;
    if (n > most)
        fault_set(&x->fault, 413, NULL, "request_too_large", NULL,
                  "the body has %llu bytes; at most %llu are allowed", n, (unsigned long long)most);
    x->frame->n_used += !x->c->used;
    x->c->used = true;
    connections_enter(x->c, PHASE_BODY);
    if (x->fault.status && (x->unclear || request_body_is_absurd(x, n) || exchange_header(x, "expect")))
        return answer(x);
    tell(x);
    return MHD_YES;
}

enum MHD_Result exchange_handle(void *frame, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *n_data, void **context)
{
    struct exchange *x = *context;
    (void)frame, (void)mhd, (void)url;
    if (!x || x->gone || x->c->phase == PHASE_SHUT)
        return MHD_NO;
    if (!x->begun) {
        x->begun = true;
        x->method = method;
        x->version = version;
        return begin(x);
    }
    if (*n_data) {
        request_body_take(x, data, *n_data);
        *n_data = 0;
        return MHD_YES;
    }
    return x->told ? MHD_NO : answer(x);
}

static void log_line(const struct exchange *x)
{
    struct frame *f = x->frame;
    const char *note = x->note + strspn(x->note, " ");
    bool unsent = exchange_pending(x) && strcmp(x->method, "HEAD"); /* which has no body */
    bool lost = x->gone || (x->status && (!x->ended || unsent));
    if (!x->begun)
        return;
    f->n_status[x->status / 100 % 6]++;
    access_log_line(&f->log, "%s %s %.256s %d %.3fs %s%s%s", x->c->name, x->method, x->target,
                    x->status, f->now - x->started, lost ? "lost" : "done", *note ? " " : "", note);
}

void exchange_free(struct exchange *x)
{
    struct frame *f = x->frame;
    end_wait(x);
    log_line(x);
    x->c->x = NULL;
    f->n_exchanges--;
    for (struct header *h = x->headers, *next; h; h = next) {
        next = h->next;
        free(h->value);
        free(h);
    }
    request_body_close(x);
    free(x->target);
    free(x->path);
    free(x->out);
    free(x);
}

void exchange_completed(void *frame, struct MHD_Connection *mhd, void **context,
                        enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *context;
    (void)frame, (void)mhd, (void)code;
    if (!x)
        return;
    struct connection *c = x->c;
    *context = NULL;
    exchange_free(x);
    connections_enter(c, PHASE_IDLE);
    c->unsent = 0;
}
