/* Exact decimals of bounded length, and units: what multipleOf counts in. */
#ifndef LANGUAGE_DECIMAL_H
#define LANGUAGE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_DIGITS = 64 };

/* digits * 10^exponent. No zero digit first or last; zero has n = 0, exponent 0 and no sign. */
struct decimal {
    int32_t exponent; /* at most 9999 either way */
    uint8_t n;
    bool negative;
    char digits[DECIMAL_DIGITS]; /* '0'..'9'; beyond n: 0 */
};

/* count / 10^places, in lowest terms of ten: places is 0 or count is no multiple of 10. */
struct unit {
    uint64_t count; /* at most 10^17; 0: no unit */
    uint32_t places;
};

/* From the text of a JSON number. False: more than DECIMAL_DIGITS digits that count, or the exponent is
 * too large. */
bool decimal_read(const char *p, size_t n, struct decimal *d);
int decimal_compare(const struct decimal *a, const struct decimal *b); /* -1, 0, 1 */
/* The magnitude is below 10^top and, except of zero, at least 10^(top - 1). */
int32_t decimal_top(const struct decimal *d);
char decimal_digit(const struct decimal *d, int32_t power); /* the digit that counts 10^power */

/* For multipleOf. False: d is not positive, or has more digits than a unit holds. */
bool unit_read(const struct decimal *d, struct unit *u);
bool unit_divides(const struct unit *a, const struct unit *b);
/* out = the least common multiple; a unit of count 0 demands nothing. False: it is too large. */
bool unit_join(const struct unit *a, const struct unit *b, struct unit *out);
/* count / gcd(count, 10^places): modulus of an integer that so many digits will follow. */
uint64_t unit_worth(const struct unit *u, uint32_t places);

#endif
