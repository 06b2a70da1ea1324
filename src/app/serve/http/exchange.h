/* One request and its answer. A handler gets an exchange when the request is complete, and calls
 * exchange_reply, or exchange_begin, or exchange_wait and one of these later. That of a ROUTE_JSON runs in a
 * thread of the lanes (lanes.h); what it waits with, and all others, run in the HTTP thread. An exchange is in
 * one thread at a time: nothing here may be called from another one, except exchange_wake. */
#ifndef SERVE_EXCHANGE_H
#define SERVE_EXCHANGE_H

#include "app/serve/http/fault.h"
#include "app/serve/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;

/* ---- the request: borrowed while the handler runs ---------------------------------------- */

const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x);
const char *exchange_rest(const struct exchange *x); /* behind the path of a ROUTE_PREFIX */
/* The value, the first where there are several; NULL: absent. Names of headers have no case. */
const char *exchange_header(const struct exchange *x, const char *name);
const char *exchange_query(const struct exchange *x, const char *name);
/* The body of a ROUTE_JSON: an object, nested at most --max-depth levels. Borrowed. */
json_t *exchange_json(const struct exchange *x);
/* Who asks: by API key, else by address. The scheduler is fair among these. */
uint64_t exchange_client(const struct exchange *x);

/* ---- the answer --------------------------------------------------------------------------- */

/* Before the answer begins. A value with control characters is left out. */
void exchange_add_header(struct exchange *x, const char *name, const char *value);

/* The whole answer, copied. Once. */
void exchange_reply(struct exchange *x, int status, const char *content_type, const char *body,
                    size_t n);
void exchange_reply_json(struct exchange *x, int status, json_t *stolen); /* NULL: 500 */
/* In the error shape of the route's API, with Retry-After if the fault has one; or, for fault_later, nothing:
 * the handler is called again. Of a stream that has
 * begun, its handler writes the error, and has it in the log with exchange_log_fault. */
void exchange_fault(struct exchange *x, const struct fault *f);
void exchange_log_fault(struct exchange *x, const struct fault *f);

/* A stream: status 200, then what exchange_write writes, up to exchange_end. False: the client is
 * gone, or memory ran out; `closed` follows soon, and what is written meanwhile is dropped. */
void exchange_begin(struct exchange *x, const char *content_type);
bool exchange_write(struct exchange *x, const char *text, size_t n);
void exchange_end(struct exchange *x);
/* --max-output bytes of the stream wait for the client: write no more until `advance` is called, which
 * happens when the client has read. */
bool exchange_is_full(struct exchange *x);

/* The answer, or more of the stream, comes later. Each may be NULL. */
struct exchange_waiter {
    void (*advance)(void *arg, struct exchange *x); /* after exchange_wake: once for any number */
    void (*ping)(void *arg, struct exchange *x); /* nothing was written for --ping seconds, or the
                                                  * client may be gone: write what it skips */
    void (*closed)(
        void *arg); /* the exchange is over, for whatever reason, and its pointer invalid:
                                * close the job, free arg. Called once, never within another call of
                                * this header. */
};
void exchange_wait(struct exchange *x, const struct exchange_waiter *w, void *arg);

/* Has `advance` called, from any thread, as often as one likes. Not after `closed` has returned. The
 * type fits job_submit. */
void exchange_wake(void *x);

/* Words for the request's line of the log, each call some more: "n_prompt=5 cached=0". */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void exchange_log(struct exchange *x, const char *format, ...);

#endif
