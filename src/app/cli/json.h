/* JSON strings, for every program that writes them. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stddef.h>

typedef void (*json_put)(void *arg, const char *text, size_t n);

/* Puts text[0..n) as it stands between the quotes of a string; a byte that is no part of a UTF-8
 * character becomes U+FFFD. */
void json_text(json_put put, void *arg, const char *text, size_t n);

#endif
