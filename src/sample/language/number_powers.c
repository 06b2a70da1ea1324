/* Numbers with an exponent: see number_powers.h. */
#include "sample/language/number_powers.h"

#include <string.h>

/* A mantissa has 15 digits, for which a double has room, unless the rule demands more. */
enum { PLACES = 14, PLACES_MOST = DECIMAL_DIGITS - 1, UNIT_PLACES = 18 };

/* Magnitudes */
struct interval {
    struct decimal lo, hi;
    bool open_hi;
};

static const struct interval intervals[] = {
    {{.n = 1, .digits = "5", .exponent = -324}, /* the least double, rounded up */
     {.n = 1, .digits = "1", .exponent = -PLACES_MOST},
     true},
    {{.n = 1, .digits = "1", .exponent = DECIMAL_DIGITS},
     {.n = 17, .digits = "17976931348623157", .exponent = 292}, /* the largest, rounded down */
     false},
};

static struct number_rule mirrored(const struct number_rule *r)
{
    struct number_rule x = *r;
    x.has_lo = r->has_hi, x.lo = r->hi, x.open_lo = r->open_hi;
    x.has_hi = r->has_lo, x.hi = r->lo, x.open_hi = r->open_lo;
    x.lo.negative = x.has_lo && x.lo.n && !x.lo.negative;
    x.hi.negative = x.has_hi && x.hi.n && !x.hi.negative;
    return x;
}

/* The unit u / 10^power, for numbers below 10 of `places` places. False: 0 is their only multiple. */
static bool unit_below(const struct unit *u, int32_t power, uint32_t places, struct unit *out)
{
    int32_t at = (int32_t)u->places + power;
    if (at < 0)
        return false;
    out->places = (uint32_t)at < places ? (uint32_t)at : places;
    out->count = unit_worth(u, (uint32_t)at - out->places);
    return true;
}

/* d / 10^power, which is below 10 */
static struct decimal mantissa_of(const struct decimal *d, int32_t power)
{
    struct decimal m = *d;
    m.exponent -= power;
    return m;
}

/* Some number of so many places is no multiple of u. */
static bool selects(const struct unit *u, int32_t power, uint32_t places)
{
    struct unit x;
    return u->count && unit_below(u, power, places, &x) && x.count > 1;
}

static uint32_t places_for(const struct number_rule *r, const struct number_rule *m, int32_t power)
{
    int32_t most = m->lo.exponent < m->hi.exponent ? -m->lo.exponent : -m->hi.exponent;
    uint32_t places = most < PLACES ? PLACES : (uint32_t)most + 1;
    if (!decimal_compare(&m->lo, &m->hi))
        return (uint32_t)most;
    bool more = selects(&r->multiple_of, power, places);
    for (uint32_t i = 0; i < r->n_nots; i++)
        more |= selects(&r->nots[i], power, places);
    places += more ? UNIT_PLACES : 0;
    return places < PLACES_MOST ? places : PLACES_MOST;
}

/* The part of r, which has both bounds, from 10^first to below 10^(last + 1). A multiple stays one when it is
 * multiplied by 10: so `first` decides on multiple_of, and `last` on the nots. False: no value. */
static bool part_of(const struct number_rule *r, int32_t first, int32_t last,
                    struct number_power *p)
{
    struct number_rule *m = &p->mantissa;
    memset(p, 0, sizeof *p);
    p->first = (int16_t)first, p->last = (int16_t)last;
    m->has_lo = m->has_hi = true;
    if (first == decimal_top(&r->lo) - 1)
        m->lo = mantissa_of(&r->lo, first), m->open_lo = r->open_lo;
    else
        m->lo = (struct decimal){.n = 1, .digits = "1"};
    if (last == decimal_top(&r->hi) - 1)
        m->hi = mantissa_of(&r->hi, last), m->open_hi = r->open_hi;
    else
        m->hi = (struct decimal){.n = 1, .digits = "1", .exponent = 1}, m->open_hi = true;
    uint32_t places = places_for(r, m, first);
    if (!r->multiple_of.count)
        m->multiple_of = (struct unit){1, places};
    else if (!unit_below(&r->multiple_of, first, places, &m->multiple_of))
        return false;
    for (uint32_t i = 0; i < r->n_nots; i++)
        m->n_nots += unit_below(&r->nots[i], last, places, &m->nots[m->n_nots]);
    return number_is_plain(m);
}

uint32_t number_powers(const struct number_rule *r, struct number_power out[NUMBER_POWERS_MOST])
{
    uint32_t n = 0;
    for (unsigned k = 0; k < 2 * sizeof intervals / sizeof *intervals; k++) {
        const struct interval *i = &intervals[k / 2];
        struct number_rule ends = {.has_lo = true, .lo = i->lo, .has_hi = true, .hi = i->hi};
        struct number_rule x = k % 2 ? mirrored(r) : *r;
        ends.open_hi = i->open_hi;
        if (!number_and(&x, &ends, &x) || decimal_compare(&x.lo, &x.hi) > 0)
            continue;
        int32_t low = decimal_top(&x.lo) - 1, high = decimal_top(&x.hi) - 1, last;
        for (int32_t first = low; first <= high; first = last + 1) { /* low, low + 1, more, high */
            last = first > low + 1 && first < high ? high - 1 : first;
            if (part_of(&x, first, last, &out[n]))
                out[n].negative = k % 2, n++;
        }
    }
    return n;
}
