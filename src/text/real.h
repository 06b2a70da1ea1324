/* Doubles and decimal digits, exact both ways and whatever the locale is. */
#ifndef TEXT_REAL_H
#define TEXT_REAL_H

#include <stddef.h>

enum { REAL_DIGITS = 17 }; /* tell any two doubles apart */

/* The double nearest to 0.d1d2d3... * 10^e of digits[0..n), ties to even; infinity above all doubles. */
double real_of_digits(const char *digits, size_t n, long e);

/* The fewest digits that give x (finite, above 0), and of these the nearest: x is 0.d1d2... * 10^e. Returns
 * e; *n gets their number. */
long real_shortest(double x, char digits[REAL_DIGITS + 1], size_t *n);

#endif
