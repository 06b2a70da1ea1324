/* Exact decimals and units: see decimal.h. */
#include "sample/language/decimal.h"

#include <string.h>

static const uint64_t unit_most = 100000000000000000; /* 10^17; ten times 10^18 fits 64 bits */
enum { EXPONENT_MOST = 9999, PLACES_MOST = DECIMAL_DIGITS - 1 };

/* Reads a number's text. The digits that count go to out, at most `room`; false: there are more. */
static bool scan(const char *p, size_t n, char *out, size_t room, size_t *count, int64_t *exponent)
{
    size_t i = n && p[0] == '-', zeros = 0;
    bool behind = false;
    *count = 0, *exponent = 0;
    for (; i < n && p[i] != 'e' && p[i] != 'E'; i++) {
        if (p[i] == '.') {
            behind = true;
            continue;
        }
        *exponent -= behind;
        zeros++;
        if (p[i] == '0')
            continue;
        if (!*count)
            zeros = 1; /* no zeros at the front */
        if (zeros > room - *count)
            return false;
        memset(out + *count, '0', zeros);
        *count += zeros, zeros = 0;
        out[*count - 1] = p[i];
    }
    int64_t e = 0;
    bool minus = i + 1 < n && p[i + 1] == '-';
    for (; i < n; i++)
        if (p[i] >= '0' && p[i] <= '9' && e < 10 * (int64_t)1000000000)
            e = e * 10 + (p[i] - '0');
    *exponent = *count ? *exponent + (int64_t)zeros + (minus ? -e : e) : 0;
    return true;
}

bool decimal_read(const char *p, size_t n, struct decimal *d)
{
    size_t count;
    int64_t exponent;
    memset(d, 0, sizeof *d);
    if (!scan(p, n, d->digits, sizeof d->digits, &count, &exponent) || exponent > EXPONENT_MOST ||
        exponent < -EXPONENT_MOST)
        return false;
    d->n = (uint8_t)count, d->exponent = (int32_t)exponent;
    d->negative = count && p[0] == '-';
    return true;
}

int32_t decimal_top(const struct decimal *d)
{
    return d->n + d->exponent;
}

static int compare_size(const struct decimal *a, const struct decimal *b)
{
    if (!a->n || !b->n || decimal_top(a) == decimal_top(b)) {
        int c = memcmp(a->digits, b->digits, sizeof a->digits);
        return (c > 0) - (c < 0);
    }
    return decimal_top(a) < decimal_top(b) ? -1 : 1;
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_size(b, a) : compare_size(a, b);
}

char decimal_digit(const struct decimal *d, int32_t power)
{
    int32_t i = decimal_top(d) - 1 - power;
    return i >= 0 && i < d->n ? d->digits[i] : '0';
}

/* ---- units ---- */

/* rest * 2^two * 5^five */
struct factors {
    int32_t two, five;
    uint64_t rest;
};

static struct factors factors_of(const struct unit *u)
{
    struct factors f = {-(int32_t)u->places, -(int32_t)u->places, u->count};
    for (; f.rest % 2 == 0; f.rest /= 2)
        f.two++;
    for (; f.rest % 5 == 0; f.rest /= 5)
        f.five++;
    return f;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

bool unit_divides(const struct unit *a, const struct unit *b)
{
    struct factors x = factors_of(a), y = factors_of(b);
    return x.two <= y.two && x.five <= y.five && y.rest % x.rest == 0;
}

static bool times(uint64_t *count, uint64_t by, int32_t power)
{
    for (; power > 0; power--) {
        if (*count > unit_most / by)
            return false;
        *count *= by;
    }
    return true;
}

bool unit_join(const struct unit *a, const struct unit *b, struct unit *out)
{
    if (!a->count || !b->count) {
        *out = a->count ? *a : *b;
        return true;
    }
    struct factors x = factors_of(a), y = factors_of(b);
    int32_t two = x.two > y.two ? x.two : y.two, five = x.five > y.five ? x.five : y.five;
    int32_t least = two < five ? two : five, places = least < 0 ? -least : 0;
    uint64_t count = x.rest;
    if (!times(&count, y.rest / gcd(x.rest, y.rest), 1) || !times(&count, 2, two + places) ||
        !times(&count, 5, five + places))
        return false;
    out->count = count, out->places = (uint32_t)places;
    return true;
}

bool unit_read(const struct decimal *d, struct unit *u)
{
    uint64_t count = 0;
    if (!d->n || d->negative || d->n > 18 || d->exponent < -PLACES_MOST)
        return false;
    for (unsigned i = 0; i < d->n; i++)
        count = count * 10 + (uint64_t)(d->digits[i] - '0');
    if (count > unit_most || !times(&count, 10, d->exponent))
        return false;
    u->count = count, u->places = d->exponent < 0 ? (uint32_t)-d->exponent : 0;
    return true;
}

uint64_t unit_worth(const struct unit *u, uint32_t places)
{
    uint64_t count = u->count;
    for (uint32_t i = 0; i < places && count % 2 == 0; i++)
        count /= 2;
    for (uint32_t i = 0; i < places && count % 5 == 0; i++)
        count /= 5;
    return count;
}
