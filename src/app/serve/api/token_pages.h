/* Tokens as JSON, as /tokenize gives them with `with_pieces`. */
#ifndef SERVE_TOKEN_PAGES_H
#define SERVE_TOKEN_PAGES_H

#include <jansson.h>

#include "app/serve/api/prompts.h"

/* An array of {"id", "piece"}: a piece is its text, or an array of bytes where it is no UTF-8. NULL: no
 * memory. */
json_t *token_pages_pieces(const struct server *s, const struct prompt *p);

#endif
