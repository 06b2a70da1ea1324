/* References to URIs [RFC 3986]. */
#ifndef SCHEMA_SCHEMA_URI_H
#define SCHEMA_SCHEMA_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The URI, without fragment, that ref[0..n) means beside base[0..n_base). out has room for
 * n + n_base + 1 bytes; returns the bytes written. */
uint32_t uri_resolve(const char *base, uint32_t n_base, const char *ref, uint32_t n, char *out);
/* Bytes before the '#', or n. */
uint32_t uri_before_fragment(const char *uri, uint32_t n);
/* %XX is a byte. Decodes in place; returns the bytes left. */
uint32_t uri_decode(char *p, uint32_t n);

#endif
