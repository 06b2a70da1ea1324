/* The header of a connection's first request, before MHD reads it: MHD answers what is malformed there with a page
 * of its own, or with nothing. */
#ifndef SERVE_REQUEST_HEAD_H
#define SERVE_REQUEST_HEAD_H

#include "app/serve/http/fault.h"

#include <stddef.h>

enum { REQUEST_HEAD_MOST = 32768 }; /* bytes that are looked at; a longer header is MHD's to judge */

/* Looks at the first n bytes of a connection. True: MHD may read them, because a whole header is there. False: it
 * is not there yet, or `fault` says what is wrong. */
bool request_head_check(const char *text, size_t n, struct fault *fault);

#endif
