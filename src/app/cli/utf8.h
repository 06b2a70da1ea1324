/* UTF-8, strictly as RFC 3629. */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that text[0..n) begins with, n > 0; 0: it begins with none. */
size_t utf8_character(const char *text, size_t n);

bool utf8_is_valid(const char *text, size_t n);

#endif
