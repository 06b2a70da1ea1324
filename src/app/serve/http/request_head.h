/* The header of a connection's first request, before MHD reads it: MHD answers what is malformed there, or does not
 * fit its memory, with a page of its own or with nothing. */
#ifndef SERVE_REQUEST_HEAD_H
#define SERVE_REQUEST_HEAD_H

#include "app/serve/http/fault.h"
#include "app/serve/serve_options.h"

#include <stddef.h>

enum { REQUEST_HEAD_MOST = 32768 }; /* bytes that are looked at; a longer header is MHD's to judge */

/* Looks at the first n bytes of a connection. True: MHD may read them, because a whole header is there. False: it
 * is not there yet, or `fault` says what is wrong, in the form of Anthropic's API if *anthropic. */
bool request_head_check(const struct serve_options *o, const char *text, size_t n, struct fault *fault, bool *anthropic);

/* What is wrong with the sizes of a header, or of what has come of it. A part is a field, a cookie or a parameter
 * behind the path: MHD keeps each of them. */
void request_head_check_sizes(const struct serve_options *o, size_t line, size_t parts, size_t bytes, struct fault *fault);

#endif
