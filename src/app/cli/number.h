/* Numbers as people write them on a command line, read without the locale; and back. */
#ifndef CLI_NUMBER_H
#define CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each takes the whole text or nothing: no spaces, no +, no hexadecimal. False leaves *out alone.
 */
bool number_u64(const char *text, uint64_t *out); /* digits only; false when above 2^64 - 1 */
bool number_i64(const char *text, int64_t *out);  /* one minus in front allowed */
/* -1.5, .5, 5., 1e-3; exact to an ulp or two of binary64; false above the largest double. */
bool number_real(const char *text, double *out);

/* "1.5 MiB" into buffer [n]; returns buffer. */
const char *number_bytes(uint64_t bytes, char *buffer, size_t n);
/* "12.3ms", "1.234s", "2m3.4s" into buffer [n]; returns buffer. */
const char *number_seconds(double seconds, char *buffer, size_t n);

/* e^x and the square root in binary64, to a few ulp: the programs link no more of libm than the
 * library does. */
double number_exp(double x);
double number_sqrt(double x);

#endif
