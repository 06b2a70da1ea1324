/* What is wrong with a request: the HTTP status, and the words of the APIs' error objects. A handler
 * fills one and hands it to exchange_fault, which writes it as the route's API does. */
#ifndef SERVE_FAULT_H
#define SERVE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

enum { FAULT_PARAM = 128 };

struct fault {         /* zeroed: nothing is wrong */
    int status;        /* of HTTP; 0: none */
    const char *type;  /* static: invalid_request_error ... (fault.c lists them) */
    const char *code;  /* static, for programs: "context_length_exceeded"; or NULL */
    char param[FAULT_PARAM]; /* path of the field that is wrong, "messages[2].content"; or "" */
    char message[512]; /* one sentence for a person, UTF-8 */
    int retry_after;   /* seconds; 0: the client should not try again by itself */
};

/* The types by status: 400 invalid_request_error, 401 authentication_error, 403 permission_error,
 * 404 not_found_error, 405 invalid_request_error, 408 timeout_error, 413 request_too_large, 429 rate_limit_error, 500
 * server_error, 503 overloaded_error. */
#define FAULT_INVALID "invalid_request_error"

/* The type in the words of Anthropic's API, or of OpenAI's, which has server_error for all that is the server's. */
const char *fault_type(const struct fault *f, bool anthropic);

/* Fills f. type NULL: the one that belongs to the status. code and param may be NULL. A message that
 * is too long is cut at a whole character. The first fault stays: a second call changes nothing. */
#if defined(__GNUC__)
__attribute__((format(printf, 6, 7)))
#endif
void fault_set(struct fault *f, int status, const char *type, const char *code, const char *param,
               const char *format, ...);
/* 503, code out_of_memory, "not enough memory for WHAT". Always false, so that a function can return it. */
bool fault_no_memory(struct fault *f, const char *what);
/* 400: a prompt of n tokens, or at least n, does not fit. Agents know this fault by these words, and then shorten the
 * conversation by themselves: those of Anthropic's API up to the full stop, those of OpenAI's behind it. */
void fault_too_long(struct fault *f, bool at_least, size_t n, unsigned n_ctx);
/* 503: the work was given up, because the server ends or the client has left. Always false. */
bool fault_given_up(struct fault *f);
/* No fault of the request: it takes too long for the short lane (lanes.h). The handler passes it on as any
 * fault, and is then called again in the long one. It must have changed nothing before. */
void fault_later(struct fault *f);
bool fault_is_later(const struct fault *f);
/* Names the field of a 400 that names none, as those of the scheduler, which knows no fields. */
void fault_blame(struct fault *f, const char *param);

#endif
