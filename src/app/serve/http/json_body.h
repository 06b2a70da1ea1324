/* Bodies in JSON, from strangers. */
#ifndef SERVE_JSON_BODY_H
#define SERVE_JSON_BODY_H

#include "app/serve/http/fault.h"

#include <jansson.h>
#include <stddef.h>

/* The object that text [n] holds, nested at most `depth` levels; the caller owns it. NULL: *f says
 * why not. An escape that is half of a character becomes U+FFFD in `text`. Of members of one name the
 * last counts. */
json_t *json_body_read(char *text, size_t n, int64_t depth, struct fault *f);

#endif
