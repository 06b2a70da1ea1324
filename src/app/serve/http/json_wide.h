/* Numbers that jansson has no room for: integers that 64 bits do not hold, and reals beyond a double's. They are
 * carried as they were written: in a tree, each is an object that has its text as the only member. */
#ifndef SERVE_JSON_WIDE_H
#define SERVE_JSON_WIDE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The bytes of the number that text, which ends with a byte of 0, begins with; 0: with none. *wide: it is one of
 * these. */
size_t json_wide_number(const char *text, bool *wide);
/* text [n] with a 0 behind it, for jansson to read, and its bytes; the caller frees it. NULL: it has no such
 * numbers, or there is no memory. */
char *json_wide_wrap(const char *text, size_t n, size_t *n_out);
/* Puts other numbers at their places, of as many bytes, so that what else is wrong with text [n] is found there. */
void json_wide_blank(char *text, size_t n);
/* Undoes json_wide_wrap in what jansson wrote. */
void json_wide_unwrap(char *text);
bool json_is_wide(const json_t *v);
/* The object that text [n], with a 0 behind it, holds, with any numbers; NULL: none. */
json_t *json_wide_object(const char *text, size_t n);

#endif
