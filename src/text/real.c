/* Doubles and decimal digits: see real.h. */
#include "text/real.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* No double needs more digits to be told from its neighbours' middles: 767 [IEEE 754, binary64]. */
enum { DIGITS_MAX = 800, E_MAX = 310, E_MIN = -330 };
enum { LIMBS = 140 }; /* 10^(DIGITS_MAX - E_MIN), and a word more */

/* A natural number, its lowest word first */
struct natural {
    uint32_t w[LIMBS], n;
};

static void multiply_add(struct natural *x, uint32_t by, uint32_t add)
{
    uint64_t carry = add;
    for (uint32_t i = 0; i < x->n; i++) {
        carry += (uint64_t)x->w[i] * by;
        x->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        x->w[x->n++] = (uint32_t)carry;
}

static uint32_t count_bits(const struct natural *x)
{
    uint32_t bits = 32 * x->n;
    for (uint32_t top = x->n ? x->w[x->n - 1] : 0; x->n && !(top >> 31); top <<= 1)
        bits--;
    return bits;
}

static void shift_left(struct natural *x, uint32_t by)
{
    uint32_t words = by / 32, bits = by % 32;
    memmove(x->w + words, x->w, x->n * sizeof *x->w);
    memset(x->w, 0, words * sizeof *x->w);
    x->n += words;
    multiply_add(x, UINT32_C(1) << bits, 0);
}

static int compare(const struct natural *a, const struct natural *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (uint32_t i = a->n; i--;)
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

/* a - b, where a >= b */
static void subtract(struct natural *a, const struct natural *b)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        uint64_t d = (uint64_t)a->w[i] - (i < b->n ? b->w[i] : 0) - borrow;
        a->w[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    while (a->n && !a->w[a->n - 1])
        a->n--;
}

/* The double nearest to a / b, by long division in binary. */
static double divide(struct natural *a, struct natural *b)
{
    int e = (int)count_bits(a) - (int)count_bits(b); /* 2^e <= a / b < 2^(e+1), or one less */
    shift_left(e > 0 ? b : a, (uint32_t)(e > 0 ? e : -e));
    if (compare(a, b) < 0)
        e--, shift_left(a, 1);
    int wanted = e >= -1022 ? 53 : e + 1075; /* bits of the mantissa: fewer below 2^-1022 */
    uint64_t mantissa = 0, bits;
    double x;
    if (wanted < 0)
        return 0;
    for (int i = 0; i < wanted; i++) {
        bool one = compare(a, b) >= 0;
        if (one)
            subtract(a, b);
        mantissa = mantissa << 1 | one;
        shift_left(a, 1);
    }
    int rest = compare(a, b); /* what is left, against half of the last bit */
    mantissa += rest > 0 || (rest == 0 && mantissa & 1);
    if (e >= -1022) {
        e += mantissa >> 53 ? 1 : 0;
        mantissa = mantissa >> 53 ? 0 : mantissa & ((UINT64_C(1) << 52) - 1);
        bits = e > 1023 ? UINT64_C(2047) << 52 : (uint64_t)(e + 1023) << 52 | mantissa;
    } else {
        bits = mantissa; /* which may have become the smallest normal number */
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

double real_of_digits(const char *digits, size_t n, long e)
{
    struct natural a = {.n = 0}, b = {{1}, 1};
    bool more = false;
    for (; n && *digits == '0'; n--, e--)
        digits++;
    if (!n || e < E_MIN)
        return 0;
    size_t kept = n < DIGITS_MAX ? n : DIGITS_MAX;
    for (size_t i = 0; i < kept; i++)
        multiply_add(&a, 10, (uint32_t)(digits[i] - '0'));
    for (size_t k = kept; k < n; k++)
        more |= digits[k] != '0';
    if (more) { /* it decides a tie */
        multiply_add(&a, 10, 1);
        kept++;
    }
    if (e > E_MAX + (long)kept)
        e = E_MAX + (long)kept;
    for (e -= (long)kept; e > 0; e--)
        if (a.n < LIMBS / 2)
            multiply_add(&a, 10, 0);
    for (; e < 0; e++)
        multiply_add(&b, 10, 0);
    return divide(&a, &b);
}

/* The first n digits of x, rounded to nearest; returns the exponent. */
static long first_digits(double x, size_t n, char *digits)
{
    char text[64], *p = text;
    size_t at = 0;
    long e = 0;
    snprintf(text, sizeof text, "%.*e", (int)n - 1, x);
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') /* a point is spelled as the locale likes */
            digits[at++] = *p;
    bool below = *++p == '-';
    while (*++p)
        e = 10 * e + (*p - '0');
    return (below ? -e : e) + 1;
}

/* The last digit up by one: beside a power of two the interval of a double is wider above. */
static bool step_up(char *digits, size_t n)
{
    while (n && digits[n - 1] == '9')
        digits[--n] = '0';
    if (n)
        digits[n - 1]++;
    return n > 0;
}

long real_shortest(double x, char digits[REAL_DIGITS + 1], size_t *n)
{
    long e = 0;
    for (*n = 1; *n <= REAL_DIGITS; ++*n) {
        e = first_digits(x, *n, digits);
        if (real_of_digits(digits, *n, e) == x ||
            (step_up(digits, *n) && real_of_digits(digits, *n, e) == x))
            return e;
    }
    *n = REAL_DIGITS;
    return first_digits(x, *n, digits);
}
