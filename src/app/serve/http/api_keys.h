/* API keys: from options, a file, and the environment. */
#ifndef SERVE_API_KEYS_H
#define SERVE_API_KEYS_H

#include "app/serve/serve_options.h"

struct api_keys { /* zeroed: none, and none is asked for */
    char **key;   /* [n]; owned */
    size_t n;
    size_t longest; /* bytes of a key, so that a header holds it beside other fields */
};

enum tern_status api_keys_open(struct api_keys *k, const struct serve_options *o,
                               struct tern_error *e);
void api_keys_close(struct api_keys *k);

/* The number of the key that text [n] is, from 1; 0: none. The time does not depend on how many bytes
 * are right, nor on which key it is. */
size_t api_keys_find(const struct api_keys *k, const char *text, size_t n);

#endif
