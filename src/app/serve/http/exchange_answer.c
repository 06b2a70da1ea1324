/* The answer of an exchange, on MHD: see exchange.h and frame.h. All of it passes through `out`, from which MHD takes
 * as much as the client does. */
#include "app/serve/http/frame.h"

#include "app/serve/http/fault_text.h"
#include "app/serve/http/json_wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 16384, /* bytes that MHD takes at a time */
    MAX_USED =
        160, /* connections that may wait for a further request: MHD keeps all its memory for each */
    NEVER = 1000000, /* seconds; MHD counts milliseconds in 32 bits */
};

/* MHD reads from a connection that exchange_handle suspended before it asks exchange_handle again, and closes it if
 * the client has ended sending. It asks first only on connections with a time limit of their own: so this one gets
 * one that never comes, and 0, that of all, once it is answered. */
static void ask_first(struct exchange *x, unsigned seconds)
{
    MHD_set_connection_option(x->c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

void exchange_resume(struct exchange *x)
{
    if (!x->suspended)
        return;
    x->suspended = false;
    if (!x->queued)
        ask_first(x, NEVER);
    MHD_resume_connection(x->c->mhd);
}

void exchange_suspend(struct exchange *x)
{
    x->suspended = true;
    MHD_suspend_connection(x->c->mhd);
}

/* ---- the answer ----------------------------------------------------------------------------- */

void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    struct header *h = calloc(1, sizeof *h);
    if (h)
        h->value = strdup(value);
    if (!h || !h->value || x->status) {
        if (h)
            free(h->value);
        free(h);
        return;
    }
    snprintf(h->name, sizeof h->name, "%s", name);
    h->next = x->headers;
    x->headers = h;
}

/* Appends to out; false: no memory. */
static bool put(struct exchange *x, const char *text, size_t n)
{
    size_t waiting = x->n_out - x->out_at;
    if (x->out_at && waiting + n <= x->out_room) {
        memmove(x->out, x->out + x->out_at, waiting);
        x->out_at = 0;
        x->n_out = waiting;
    }
    if (x->n_out + n > x->out_room) {
        size_t room = x->n_out + n + (x->streams ? (x->n_out + n) / 2 + 512 : 0);
        char *more = realloc(x->out, room);
        if (!more)
            return false;
        x->out = more;
        x->out_room = room;
    }
    if (n)
        memcpy(x->out + x->n_out, text, n);
    x->n_out += n;
    return true;
}

void exchange_reply(struct exchange *x, int status, const char *content_type, const char *body,
                    size_t n)
{
    if (x->status || x->gone)
        return;
    exchange_add_header(x, "Content-Type", content_type);
    if (!put(x, body, n)) {
        x->n_out = x->out_at = 0;
        status = 500;
    }
    x->status = status;
    x->ended = true;
    exchange_resume(x);
}

void exchange_reply_json(struct exchange *x, int status, json_t *stolen)
{
    char *text = json_plain(stolen);
    struct fault f = {0};
    json_decref(stolen);
    if (text) {
        exchange_reply(x, status, "application/json", text, strlen(text));
    } else {
        fault_no_memory(&f, "the answer");
        exchange_fault(x, &f);
    }
    free(text);
}

void exchange_fault(struct exchange *x, const struct fault *f)
{
    char text[FAULT_TEXT], seconds[24];
    if (x->lost) /* perhaps the fault is that the work was given up */
        return;
    if (fault_is_later(f)) {
        x->again = true;
        return;
    }
    size_t n = fault_json(f, x->shape_anthropic, text, sizeof text);
    if (f->retry_after) {
        snprintf(seconds, sizeof seconds, "%d", f->retry_after);
        exchange_add_header(x, "Retry-After", seconds);
    }
    exchange_log_fault(x, f);
    exchange_reply(x, f->status, "application/json", text, n);
}

/* frame.now belongs to the HTTP thread. */
static void note_written(struct exchange *x)
{
    if (!x->at_work)
        x->written = x->frame->now;
}

void exchange_give_up(struct exchange *x)
{
    x->gone = true;
    if (x->at_work)
        return;
    connections_cut(x->c);
    exchange_resume(x);
}

void exchange_begin(struct exchange *x, const char *content_type)
{
    if (x->status || x->gone)
        return;
    exchange_add_header(x, "Content-Type", content_type);
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_add_header(x, "X-Accel-Buffering", "no"); /* for nginx */
    x->status = 200;
    x->streams = true;
    note_written(x);
    exchange_resume(x);
}

bool exchange_write(struct exchange *x, const char *text, size_t n)
{
    if (x->gone || x->ended)
        return false;
    if (!put(x, text, n)) {
        exchange_log(x, "not enough memory for the answer");
        exchange_give_up(x);
        return false;
    }
    note_written(x);
    exchange_resume(x);
    return true;
}

void exchange_end(struct exchange *x)
{
    x->ended = true;
    exchange_resume(x);
}

bool exchange_pending(const struct exchange *x)
{
    return x->out_at < x->n_out;
}

/* A mark that one piece may pass: a piece is never cut, however long it is. */
static bool is_over_mark(const struct exchange *x)
{
    return x->n_out - x->out_at >=
           (size_t)serve_number(x->frame->server->options, SERVE_MAX_OUTPUT);
}

static void hold(struct exchange *x, bool held)
{
    double now = x->frame->now;
    if (x->held && !held)
        x->held_seconds += now - x->held_since;
    else if (held && !x->held)
        x->held_since = now;
    x->held = held;
}

double exchange_held(const struct exchange *x)
{
    return x->held_seconds + (x->held ? x->frame->now - x->held_since : 0);
}

bool exchange_is_full(struct exchange *x)
{
    hold(x, x->streams && !x->gone && is_over_mark(x));
    return x->held;
}

/* ---- to MHD --------------------------------------------------------------------------------- */

/* MHD asks for more of the answer. */
static ssize_t read_answer(void *arg, uint64_t at, char *buffer, size_t room)
{
    struct exchange *x = arg;
    size_t n = x->n_out - x->out_at;
    (void)at;
    if (x->gone) /* MHD forgets to free a stream that ends with an error while an older connection is idle */
        return x->streams ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
    if (!n && x->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!n) {
        exchange_suspend(x);
        connections_enter(x->c, PHASE_WORK);
        return 0;
    }
    if (x->c->phase != PHASE_SEND)
        connections_enter(x->c, PHASE_SEND);
    n = n < room ? n : room;
    memcpy(buffer, x->out + x->out_at, n);
    x->out_at += n;
    x->sent += n;
    if (x->held && !is_over_mark(x)) {
        hold(x, false);
        exchange_wake(x);
    }
    return (ssize_t)n;
}

enum MHD_Result exchange_queue(struct exchange *x)
{
    struct frame *f = x->frame;
    char id[32];
    struct MHD_Response *r = MHD_create_response_from_callback(
        x->streams ? MHD_SIZE_UNKNOWN : x->n_out, BLOCK, read_answer, x, NULL);
    if (!r)
        return MHD_NO;
    for (const struct header *h = x->headers; h; h = h->next)
        MHD_add_response_header(r, h->name, h->value);
    snprintf(id, sizeof id, "req_%016llx", (unsigned long long)x->id);
    MHD_add_response_header(r, x->shape_anthropic ? "request-id" : "x-request-id", id);
    if (f->server->draining || f->n_used > MAX_USED)
        MHD_add_response_header(r, "Connection", "close");
    x->queued = true;
    ask_first(x, 0);
    connections_enter(x->c, PHASE_SEND);
    enum MHD_Result done = MHD_queue_response(x->c->mhd, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return done;
}
