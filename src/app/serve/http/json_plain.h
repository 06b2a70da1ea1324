/* JSON values as text. */
#ifndef SERVE_JSON_PLAIN_H
#define SERVE_JSON_PLAIN_H

#include <jansson.h>

/* v without blanks. A real number has the fewest digits that are read as the same one: 0.1, where jansson's own
 * 17 digits are 0.10000000000000001, which a constraint would take at its word. The caller frees it; NULL: no
 * memory, or v is NULL. */
char *json_plain(const json_t *v);

#endif
