/* Bytes as text (RFC 4648, section 4). */
#ifndef SERVE_BASE64_H
#define SERVE_BASE64_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "app/cli/growing_text.h"

void base64_write(struct growing_text *t, const void *bytes, size_t n); /* appends */
/* Appends the bytes that text [n] stands for; false: it is no base64, and some were appended. */
bool base64_read(struct growing_text *t, const char *text, size_t n);

/* n f32, little-endian, as a JSON string; NULL: no memory. */
json_t *base64_floats(const float *v, size_t n);

#endif
