/* The body of a request, and what all requests together take of memory: see frame.h. */
#include "app/serve/http/frame.h"

#include "app/serve/http/json_body.h"

#include <stdlib.h>
#include <string.h>

enum {
    DISCARD = 16, /* a body that is refused is read up to so many times its limit, so that the client
                   * sees why */
};

/* ---- memory --------------------------------------------------------------------------------- */

/* Takes n of the bytes that all may have. */
static bool take(struct frame *f, uint64_t n, uint64_t most)
{
    pthread_mutex_lock(&f->lock);
    bool ok = n <= most - f->n_held;
    f->n_held += ok ? n : 0;
    pthread_mutex_unlock(&f->lock);
    return ok;
}

/* Counts n more bytes for the request. False: x->fault says why it may not have them. */
static bool hold(struct exchange *x, uint64_t n)
{
    uint64_t most = (uint64_t)serve_number(x->frame->server->options, SERVE_MAX_MEMORY);
    if (n > most - x->n_held) {
        fault_set(&x->fault, 413, NULL, "request_too_large", NULL,
                  "the request needs more than the %llu bytes of memory that all requests together may "
                  "have",
                  (unsigned long long)most);
    } else if (!take(x->frame, n, most)) {
        fault_set(&x->fault, 503, NULL, "out_of_memory", NULL,
                  "other requests have the %llu bytes of memory that all together may have; try again "
                  "later",
                  (unsigned long long)most);
        x->fault.retry_after = 1;
    } else {
        x->n_held += n;
        return true;
    }
    return false;
}

static void release(struct exchange *x, uint64_t n)
{
    struct frame *f = x->frame;
    x->n_held -= n;
    pthread_mutex_lock(&f->lock);
    f->n_held -= n;
    pthread_mutex_unlock(&f->lock);
}

static void close_text(struct exchange *x)
{
    free(x->body);
    release(x, x->room);
    x->body = NULL;
    x->n_body = x->room = 0;
}

void request_body_close(struct exchange *x)
{
    json_decref(x->json);
    x->json = NULL;
    close_text(x);
    release(x, x->n_held);
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool make_room(struct exchange *x, size_t n)
{
    size_t room = x->n_body + n + 1;
    if (room <= x->room)
        return true;
    room += room / 2;
    if (x->n_body + n <= x->stated && room > x->stated + 1)
        room = (size_t)x->stated + 1;
    char *more = hold(x, room - x->room) ? realloc(x->body, room) : NULL;
    if (!more) {
        fault_no_memory(&x->fault, "the body");
        close_text(x);
        return false;
    }
    x->body = more;
    x->room = room;
    return true;
}

bool request_body_is_absurd(const struct exchange *x, uint64_t n)
{
    return n / DISCARD > (uint64_t)serve_number(x->frame->server->options, SERVE_MAX_BODY);
}

void request_body_take(struct exchange *x, const char *data, size_t n)
{
    uint64_t most = (uint64_t)serve_number(x->frame->server->options, SERVE_MAX_BODY);
    x->received += n;
    if (x->received > most)
        fault_set(&x->fault, 413, NULL, "request_too_large", NULL,
                  "the body has more than the %llu bytes that are allowed",
                  (unsigned long long)most);
    if (request_body_is_absurd(x, x->received))
        connections_refuse(x->c, &x->fault, x->shape_anthropic);
    if (x->fault.status || !make_room(x, n))
        return;
    memcpy(x->body + x->n_body, data, n);
    x->n_body += n;
    x->body[x->n_body] = 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

void request_body_parse(struct exchange *x)
{
    int64_t most = serve_number(x->frame->server->options, SERVE_MAX_DEPTH);
    struct json_form form = json_body_look(x->body, x->n_body);
    if (form.depth > most)
        fault_set(&x->fault, 400, NULL, "json_too_deep", NULL,
                  "the body is nested %lld levels deep; at most %lld are allowed",
                  (long long)form.depth, (long long)most);
    else if (hold(x, form.bytes))
        x->json = json_body_read(x->body, x->n_body, &x->fault);
    close_text(x);
}

void request_body_end(struct exchange *x)
{
    const struct serve_options *o = x->frame->server->options;
    if (o->value[SERVE_LOG_PROMPTS].given && x->n_body)
        access_log_line(&x->frame->log, "%s asks: %s", x->c->name, x->body);
}
