/* Bodies in JSON, from strangers. */
#ifndef SERVE_JSON_BODY_H
#define SERVE_JSON_BODY_H

#include "app/serve/http/fault.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct json_form {
    int64_t depth; /* levels of brackets; jansson's own limit is 2048 */
    uint64_t
        bytes; /* of memory that the JSON takes at most: its text, and VALUE_BYTES for each value */
};

/* What text [n], with a 0 behind it, will be, before it is read. An escape that is half of a character becomes U+FFFD in it. */
struct json_form json_body_look(char *text, size_t n);
/* The object that text [n] holds, with a 0 behind it; the caller owns it. NULL: *f says why not, and text may have
 * changed. Of members of one name the last counts. Numbers may be wide (json_wide.h). */
json_t *json_body_read(char *text, size_t n, struct fault *f);

#endif
