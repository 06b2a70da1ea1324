/* Numbers that jansson would change: reals, and integers that 64 bits do not hold. They are carried as they were
 * written, 0.1 and 1e400 alike: in a tree, each is an object that has its text as the only member. */
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
/* v as text without blanks, numbers as they were written. The caller frees it; NULL: no memory, or v is NULL. */
char *json_plain(const json_t *v);
bool json_is_wide(const json_t *v);
bool json_is_members(const json_t *v);           /* an object, and no such number */
const char *json_wide_text(const json_t *v);     /* of such a number; NULL: it is none */
bool json_wide_real(const json_t *v, double *x); /* false: it is no number, or none that a double holds */
/* The object that text [n], with a 0 behind it, holds, with any numbers; NULL: none. */
json_t *json_wide_object(const char *text, size_t n);

#endif
