/* Hexadecimal digits in texts, whatever the locale is. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Value of the digit c, of either case, or -1. */
int hex_digit(char c);

/* *value = the n digits at p (n <= 8). False: one of them is no digit. */
bool hex_read(const char *p, size_t n, uint32_t *value);

#endif
