/* JSON that a limit cut off. */
#ifndef SERVE_PARTIAL_JSON_H
#define SERVE_PARTIAL_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* The object that begins in `text`, as far as it goes. A number or a name that may lack its end is left out,
 * and a string, too, unless `strings`. Text that begins no object gives an empty one. NULL: no memory. */
json_t *partial_json_read(const char *text, bool strings);

#endif
