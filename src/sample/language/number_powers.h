/* Numbers that no plain text has: those of at least 10^DECIMAL_DIGITS, and those below
 * 10^-(DECIMAL_DIGITS - 1). Their texts have an exponent: a digit that is not 0, at most DECIMAL_DIGITS - 1 places,
 * "e" and an integer of two or three digits, without "+". They end where a double does. */
#ifndef LANGUAGE_NUMBER_POWERS_H
#define LANGUAGE_NUMBER_POWERS_H

#include "sample/language/numbers.h"

/* The values m * 10^e, of every m in [1, 10) of a rule and every e from first to last; negated. */
struct number_power {
    bool negative;
    int16_t first, last;
    struct number_rule mantissa;
};

enum { NUMBER_POWERS_MOST = 16 };

/* The values of r that need an exponent, as a union; the number of its parts, each with a value. */
uint32_t number_powers(const struct number_rule *r, struct number_power out[NUMBER_POWERS_MOST]);

#endif
