/* Numbers as people write them, read without the locale; and back. Every number that a program
 * reads from an option or a file of text is read here. (The library reads binary numbers; what it
 * reads from /proc is read by base/procfs.h, which programs cannot see.) */
#ifndef CLI_NUMBER_H
#define CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each takes the whole text [n] or nothing: no spaces, no +, no hexadecimal. False leaves *out
 * alone. */
bool number_u64(const char *text, size_t n, uint64_t *out); /* digits; false above 2^64 - 1 */
bool number_i64(const char *text, size_t n, int64_t *out);  /* one minus in front is allowed */
/* A string: -1.5, .5, 5., 1e-3; exact to an ulp or two of binary64; false above the largest. */
bool number_real(const char *text, double *out);

/* "1.5 MiB" into buffer [n]; returns buffer. */
const char *number_bytes(uint64_t bytes, char *buffer, size_t n);
/* "5,120" into buffer [n >= 27]; returns buffer. */
const char *number_grouped(uint64_t value, char *buffer, size_t n);
/* "12.3ms", "1.234s", "2m3.4s" into buffer [n]; returns buffer. */
const char *number_seconds(double seconds, char *buffer, size_t n);

#endif
