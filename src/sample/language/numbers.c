/* A text so far is a `prefix`. What can follow it is decided for each number of digits before the point:
 * the values that a prefix can become, on the grid of 10^-places, are a run of integers, and the rule's
 * bounds cut a run out of it. In that run lies a multiple of multiple_of that is no multiple of the
 * others, or none does.
 *
 * Prefixes with equal keys (place, order against the bounds, remainders) have equal futures; the first
 * one that came stands for all. */
#include "sample/language/numbers.h"

#include "sample/language/leaf.h"
#include "sample/language/number_powers.h"

#include <stdio.h>
#include <string.h>

/* Among so many integers in a row, one is prime to any NUMBER_NOTS primes: Jacobsthal's function for 8
 * primes [Hajdu and Saradha 2012; OEIS A048670]. */
enum { RUN = 34 };
_Static_assert(NUMBER_NOTS == 8, "RUN is for 8 primes");

/* ---- rules ---- */

void number_point(struct number_rule *r, const struct decimal *d)
{
    memset(r, 0, sizeof *r);
    r->has_lo = r->has_hi = true;
    r->lo = r->hi = *d;
}

/* Adds "no multiple of u"; a unit that another divides says nothing new. */
static bool add_not(struct number_rule *r, const struct unit *u)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n_nots; i++)
        if (unit_divides(&r->nots[i], u))
            return true;
    for (uint32_t i = 0; i < r->n_nots; i++)
        if (!unit_divides(u, &r->nots[i]))
            r->nots[kept++] = r->nots[i];
    r->n_nots = kept;
    if (kept == NUMBER_NOTS)
        return false;
    r->nots[r->n_nots++] = *u;
    return true;
}

bool number_and(const struct number_rule *a, const struct number_rule *b, struct number_rule *out)
{
    struct number_rule r = *a;
    if (b->has_lo) {
        int c = r.has_lo ? decimal_compare(&b->lo, &r.lo) : 1;
        if (c > 0)
            r.has_lo = true, r.lo = b->lo, r.open_lo = b->open_lo;
        else if (c == 0)
            r.open_lo |= b->open_lo;
    }
    if (b->has_hi) {
        int c = r.has_hi ? decimal_compare(&b->hi, &r.hi) : -1;
        if (c < 0)
            r.has_hi = true, r.hi = b->hi, r.open_hi = b->open_hi;
        else if (c == 0)
            r.open_hi |= b->open_hi;
    }
    bool fits = unit_join(&a->multiple_of, &b->multiple_of, &r.multiple_of);
    for (uint32_t i = 0; i < b->n_nots && fits; i++)
        fits = add_not(&r, &b->nots[i]);
    if (fits)
        *out = r;
    return fits;
}

uint32_t number_not(const struct number_rule *a, struct number_rule out[NUMBER_NOT_MOST])
{
    uint32_t n = 0;
    memset(out, 0, NUMBER_NOT_MOST * sizeof *out);
    if (a->has_lo)
        out[n].has_hi = true, out[n].hi = a->lo, out[n++].open_hi = !a->open_lo;
    if (a->has_hi)
        out[n].has_lo = true, out[n].lo = a->hi, out[n++].open_lo = !a->open_hi;
    if (a->multiple_of.count)
        out[n].n_nots = 1, out[n++].nots[0] = a->multiple_of;
    for (uint32_t i = 0; i < a->n_nots; i++)
        out[n++].multiple_of = a->nots[i];
    return n;
}

static bool unit_equal(const struct unit *a, const struct unit *b)
{
    return a->count == b->count && a->places == b->places;
}

static bool rule_equal(const struct number_rule *a, const struct number_rule *b)
{
    if (a->has_lo != b->has_lo || a->has_hi != b->has_hi || a->n_nots != b->n_nots ||
        !unit_equal(&a->multiple_of, &b->multiple_of))
        return false;
    for (uint32_t i = 0; i < a->n_nots; i++)
        if (!unit_equal(&a->nots[i], &b->nots[i]))
            return false;
    return (!a->has_lo || (a->open_lo == b->open_lo && !decimal_compare(&a->lo, &b->lo))) &&
           (!a->has_hi || (a->open_hi == b->open_hi && !decimal_compare(&a->hi, &b->hi)));
}

/* ---- texts ---- */

struct prefix {
    bool negative, point;
    uint8_t n, whole; /* digits, and those before the point */
    char digits[DECIMAL_DIGITS];
};

/* Magnitudes that the bounds allow behind a sign. */
struct magnitudes {
    bool empty, open_lo, open_hi;
    const struct decimal *lo, *hi; /* NULL: no bound */
};

static struct magnitudes range_of(const struct number_rule *r, bool negative)
{
    static const struct decimal zero;
    struct magnitudes m = {0};
    bool has_near = negative ? r->has_hi : r->has_lo, has_far = negative ? r->has_lo : r->has_hi;
    const struct decimal *near = negative ? &r->hi : &r->lo, *far = negative ? &r->lo : &r->hi;
    if (has_far) {
        m.empty = far->n && far->negative != negative;
        m.hi = far, m.open_hi = negative ? r->open_lo : r->open_hi;
    }
    if (has_near && near->n && near->negative == negative)
        m.lo = near, m.open_lo = negative ? r->open_hi : r->open_lo;
    else if (negative)
        m.lo = &zero, m.open_lo = true; /* no -0 */
    else if (has_near && !near->n)
        m.lo = &zero, m.open_lo = r->open_lo;
    return m;
}

/* An integer of n digits, '0'..'9': a value in units of 10^-places. */
struct grid_number {
    char digits[DECIMAL_DIGITS];
    uint32_t n, places;
};

static bool grid_add(struct grid_number *x, uint64_t more) /* false: no longer n digits */
{
    for (uint32_t i = x->n; i-- && more; more /= 10) {
        more += (uint64_t)(x->digits[i] - '0');
        x->digits[i] = (char)('0' + more % 10);
    }
    return !more;
}

static bool grid_before(struct grid_number *x) /* x - 1; false: x is 0 */
{
    for (uint32_t i = x->n; i--; x->digits[i] = '9')
        if (x->digits[i] != '0')
            return x->digits[i]--, true;
    return false;
}

/* The first n digits mod m; m at most 10^18. */
static uint64_t remainder_of(const char *digits, uint32_t n, uint64_t m)
{
    uint64_t r = 0;
    for (uint32_t i = 0; i < n; i++)
        r = (r * 10 + (uint64_t)(digits[i] - '0')) % m;
    return r;
}

static bool is_multiple(const struct grid_number *x, const struct unit *u)
{
    uint32_t n = x->n;
    for (uint32_t i = x->places; i > u->places; i--)
        if (x->digits[--n] != '0')
            return false;
    uint32_t missing = u->places > x->places ? u->places - x->places : 0;
    return remainder_of(x->digits, n, unit_worth(u, missing)) == 0;
}

/* The bound d on the grid, rounded down; *exact: it is on the grid. False: more than n digits. */
static bool bound_on(struct grid_number *x, const struct decimal *d, bool *exact)
{
    int32_t whole = (int32_t)x->n - (int32_t)x->places;
    if (d->n && decimal_top(d) > whole)
        return false;
    for (uint32_t i = 0; i < x->n; i++)
        x->digits[i] = decimal_digit(d, whole - 1 - (int32_t)i);
    *exact = !d->n || d->exponent >= -(int32_t)x->places;
    return true;
}

static int grid_compare(const struct grid_number *a, const struct grid_number *b)
{
    return memcmp(a->digits, b->digits, a->n);
}

/* Is there a value of the rule among the texts that p becomes with `whole` digits before the point and
 * `places` behind it? */
static bool reaches(const struct number_rule *r, const struct magnitudes *m, const struct prefix *p,
                    uint32_t whole, uint32_t places)
{
    struct grid_number lo = {.n = whole + places, .places = places}, hi = lo, x = lo;
    bool exact;
    memcpy(lo.digits, p->digits, p->n), memcpy(hi.digits, p->digits, p->n);
    memset(lo.digits + p->n, '0', lo.n - p->n), memset(hi.digits + p->n, '9', lo.n - p->n);
    if (m->lo) {
        if (!bound_on(&x, m->lo, &exact) || ((!exact || m->open_lo) && !grid_add(&x, 1)))
            return false;
        if (grid_compare(&x, &lo) > 0)
            lo = x;
    }
    if (m->hi && bound_on(&x, m->hi, &exact)) {
        if (exact && m->open_hi && !grid_before(&x))
            return false;
        if (grid_compare(&x, &hi) < 0)
            hi = x;
    }
    const struct unit *u = &r->multiple_of;
    uint64_t stride = 1;
    if (u->count)
        stride = unit_worth(u, u->places - places);
    uint64_t over = remainder_of(lo.digits, lo.n, stride);
    if (over && !grid_add(&lo, stride - over))
        return false;
    for (unsigned i = 0; i < RUN && grid_compare(&lo, &hi) <= 0; i++) {
        uint32_t k = 0;
        while (k < r->n_nots && !is_multiple(&lo, &r->nots[k]))
            k++;
        if (k == r->n_nots)
            return true;
        if (!grid_add(&lo, stride))
            return false;
    }
    return false;
}

static uint32_t places_of(const struct decimal *d)
{
    return d->exponent < 0 ? (uint32_t)-d->exponent : 0;
}

/* The longest fraction: see numbers.h. A place more than bounds and nots have always suffices: the grid's first
 * value above a lower bound is below the upper one then, and a multiple of no not. */
static uint32_t fraction_most(const struct number_rule *r)
{
    uint32_t most = NUMBER_PLACES - 1;
    if (r->multiple_of.count)
        return r->multiple_of.places;
    if (r->has_lo && r->has_hi && !decimal_compare(&r->lo, &r->hi))
        return places_of(&r->lo);
    if (r->has_lo && places_of(&r->lo) > most)
        most = places_of(&r->lo);
    if (r->has_hi && places_of(&r->hi) > most)
        most = places_of(&r->hi);
    for (uint32_t i = 0; i < r->n_nots; i++)
        most = r->nots[i].places > most ? r->nots[i].places : most;
    return most < DECIMAL_DIGITS ? most + 1 : DECIMAL_DIGITS;
}

static bool is_live(const struct number_rule *r, const struct prefix *p)
{
    struct magnitudes m = range_of(r, p->negative);
    uint32_t most = fraction_most(r), whole = p->whole, last = p->whole, used = p->n - p->whole;
    if (!p->point && !(p->n && p->digits[0] == '0'))
        last = DECIMAL_DIGITS;
    if (m.empty)
        return false;
    whole = whole ? whole : 1;
    if (m.hi && last > whole && decimal_top(m.hi) < (int32_t)last) /* longer is larger */
        last = decimal_top(m.hi) > (int32_t)whole ? (uint32_t)decimal_top(m.hi) : whole;
    for (; whole <= last; whole++) {
        uint32_t places = DECIMAL_DIGITS - whole < most ? DECIMAL_DIGITS - whole : most;
        if (places >= used && places >= p->point && reaches(r, &m, p, whole, places))
            return true;
    }
    return false;
}

static bool is_end(const struct number_rule *r, const struct prefix *p)
{
    struct magnitudes m = range_of(r, p->negative);
    uint32_t places = p->n - p->whole;
    return p->n && (!p->point || places) && !m.empty && reaches(r, &m, p, p->whole, places);
}

/* p with a byte more; false: no number starts so. */
static bool prefix_add(struct prefix *p, uint32_t most, unsigned char byte)
{
    if (byte == '-') {
        bool first = !p->n && !p->negative;
        p->negative = true;
        return first;
    }
    if (byte == '.') {
        bool first = p->n && !p->point;
        p->point = true;
        return first;
    }
    if (byte < '0' || byte > '9' || p->n == DECIMAL_DIGITS ||
        (p->point ? (uint32_t)(p->n - p->whole) >= most : p->n && p->digits[0] == '0'))
        return false;
    p->digits[p->n++] = (char)byte;
    p->whole += !p->point;
    return true;
}

bool number_is_plain(const struct number_rule *r)
{
    return is_live(r, &(struct prefix){0}) || is_live(r, &(struct prefix){.negative = true});
}

bool number_is_empty(const struct number_rule *r)
{
    struct number_power powers[NUMBER_POWERS_MOST];
    return !number_is_plain(r) && !number_powers(r, powers);
}

/* ---- states ---- */

struct number_state {
    struct prefix prefix; /* the first that came */
    uint32_t rule, hash;
    bool accepts;
};

struct numbers {
    struct budget *budget;
    struct number_rule *rules;
    struct number_state *states; /* 0 is NUMBER_DEAD */
    uint32_t *table; /* of states by hash, 0 is free; a power of two, at most half full */
    uint32_t n_rules, n_states, max_rules, max_states, n_table;
};

struct prefix_key {
    unsigned char place[6]; /* sign, point, n, whole, order against the bounds */
    uint64_t remainders[1 + NUMBER_NOTS];
};

/* -1, 0, 1: p's digits against as many of the bound's. 2: no bound. */
static int order(const struct prefix *p, const struct decimal *d)
{
    if (!d)
        return 2;
    int32_t whole = d->n && decimal_top(d) > 1 ? decimal_top(d) : 1;
    if (p->point ? p->whole != whole : p->n > whole)
        return p->whole < whole ? -1 : 1;
    for (uint32_t i = 0; i < p->n; i++) {
        char c = decimal_digit(d, whole - 1 - (int32_t)i);
        if (p->digits[i] != c)
            return p->digits[i] < c ? -1 : 1;
    }
    return 0;
}

/* What of the digits counts for "is a multiple of u" of any text behind them. */
static uint64_t remainder_kept(const struct prefix *p, const struct unit *u)
{
    uint32_t n = p->n, places = p->n - p->whole;
    if (!u->count)
        return 0;
    for (; places > u->places; places--)
        if (p->digits[--n] != '0')
            return 1;
    uint64_t r = remainder_of(p->digits, n, unit_worth(u, u->places - places));
    return n < p->n ? r != 0 : r; /* beyond its places a remainder stays */
}

static struct prefix_key key_of(const struct number_rule *r, const struct prefix *p)
{
    struct prefix_key k;
    memset(&k, 0, sizeof k);
    struct magnitudes m = range_of(r, p->negative);
    k.place[0] = p->negative, k.place[1] = p->point, k.place[2] = p->n, k.place[3] = p->whole;
    k.place[4] = (unsigned char)(order(p, m.lo) + 1);
    k.place[5] = (unsigned char)(order(p, m.hi) + 1);
    /* "0" takes no more digits before the point: its place differs from that of other digits */
    k.place[2] |= p->n == 1 && !p->point && p->digits[0] == '0' ? 0x80 : 0;
    /* behind the point, away from both bounds, the digits before it only count as remainders */
    if (p->point && k.place[4] != 1 && k.place[5] != 1 &&
        p->whole + fraction_most(r) <= DECIMAL_DIGITS)
        k.place[2] -= p->whole, k.place[3] = 0;
    k.remainders[0] = remainder_kept(p, &r->multiple_of);
    for (uint32_t i = 0; i < r->n_nots; i++)
        k.remainders[1 + i] = remainder_kept(p, &r->nots[i]);
    return k;
}

static uint32_t hash_of(const struct prefix_key *k, uint32_t rule)
{
    uint64_t h = 0x9E3779B97F4A7C15u * (rule + 1);
    for (unsigned i = 0; i < sizeof k->place; i++)
        h = (h ^ k->place[i]) * 0x100000001B3u;
    for (unsigned i = 0; i <= NUMBER_NOTS; i++)
        h = (h ^ k->remainders[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return (uint32_t)(h ^ h >> 32);
}

struct numbers *numbers_open(struct budget *b)
{
    struct numbers *ns = budget_resize(b, NULL, 0, sizeof *ns);
    if (ns)
        *ns = (struct numbers){.budget = b, .n_states = 1};
    return ns;
}

void numbers_close(struct numbers *ns)
{
    if (!ns)
        return;
    struct budget *b = ns->budget;
    budget_free(b, ns->rules, ns->max_rules * sizeof *ns->rules);
    budget_free(b, ns->states, ns->max_states * sizeof *ns->states);
    budget_free(b, ns->table, ns->n_table * sizeof *ns->table);
    budget_free(b, ns, sizeof *ns);
}

static bool grow(struct numbers *ns, void **array, size_t size, uint32_t n, uint32_t *max)
{
    if (n < *max)
        return true;
    uint32_t more = *max ? *max * 2 : 16;
    void *p = budget_resize(ns->budget, *array, *max * size, more * size);
    if (p)
        *array = p, *max = more;
    return p != NULL;
}

static bool grow_table(struct numbers *ns)
{
    if (ns->n_states * 2 < ns->n_table)
        return true;
    uint32_t n = ns->n_table ? ns->n_table * 2 : 64;
    uint32_t *t = budget_resize(ns->budget, NULL, 0, n * sizeof *t);
    if (!t)
        return false;
    memset(t, 0, n * sizeof *t);
    for (uint32_t s = 1; s < ns->n_states; s++) {
        uint32_t i = ns->states[s].hash & (n - 1);
        while (t[i])
            i = (i + 1) & (n - 1);
        t[i] = s;
    }
    budget_free(ns->budget, ns->table, ns->n_table * sizeof *t);
    ns->table = t, ns->n_table = n;
    return true;
}

/* The state of a live prefix. */
static uint32_t state_of(struct numbers *ns, uint32_t rule, const struct prefix *p)
{
    const struct number_rule *r = &ns->rules[rule];
    struct prefix_key k = key_of(r, p);
    uint32_t hash = hash_of(&k, rule);
    if (!grow_table(ns) ||
        !grow(ns, (void **)&ns->states, sizeof *ns->states, ns->n_states, &ns->max_states))
        return NUMBER_FAIL;
    uint32_t i = hash & (ns->n_table - 1);
    for (; ns->table[i]; i = (i + 1) & (ns->n_table - 1)) {
        const struct number_state *s = &ns->states[ns->table[i]];
        if (s->hash != hash || s->rule != rule)
            continue;
        struct prefix_key other = key_of(r, &s->prefix);
        if (!memcmp(&other, &k, sizeof k))
            return ns->table[i];
    }
    ns->states[ns->n_states] =
        (struct number_state){.prefix = *p, .rule = rule, .hash = hash, .accepts = is_end(r, p)};
    return ns->table[i] = ns->n_states++;
}

uint32_t numbers_start(struct numbers *ns, const struct number_rule *r)
{
    uint32_t i = 0;
    if (!number_is_plain(r))
        return NUMBER_DEAD;
    while (i < ns->n_rules && !rule_equal(&ns->rules[i], r))
        i++;
    if (i == ns->n_rules) {
        if (!grow(ns, (void **)&ns->rules, sizeof *ns->rules, ns->n_rules, &ns->max_rules))
            return NUMBER_FAIL;
        ns->rules[ns->n_rules++] = *r;
    }
    return state_of(ns, i, &(struct prefix){0});
}

uint32_t numbers_step(struct numbers *ns, uint32_t state, unsigned char byte)
{
    struct prefix p = ns->states[state].prefix;
    uint32_t rule = ns->states[state].rule;
    const struct number_rule *r = &ns->rules[rule];
    if (!prefix_add(&p, fraction_most(r), byte))
        return NUMBER_DEAD;
    if (!budget_step(ns->budget, 16))
        return NUMBER_FAIL;
    return is_live(r, &p) ? state_of(ns, rule, &p) : NUMBER_DEAD;
}

bool numbers_accepts(const struct numbers *ns, uint32_t state)
{
    return ns->states[state].accepts;
}

/* ---- languages ---- */

/* d in scientific notation; returns the bytes. */
static size_t power_text(const struct decimal *d, char out[NUMBER_TEXT])
{
    return (size_t)snprintf(out, NUMBER_TEXT, "%s%c%s%.*se%d", d->negative ? "-" : "", d->digits[0],
                            d->n > 1 ? "." : "", d->n - 1, d->digits + 1, decimal_top(d) - 1);
}

bool number_text(const struct number_rule *r, char out[NUMBER_TEXT], size_t *n)
{
    const struct decimal *d = &r->lo;
    if (!r->has_lo || !r->has_hi || r->open_lo || r->open_hi || decimal_compare(d, &r->hi))
        return false;
    if (!number_is_plain(r))
        return *n = power_text(d, out), !number_is_empty(r);
    int32_t top = d->n && decimal_top(d) > 1 ? decimal_top(d) : 1;
    int32_t last = d->exponent < 0 ? d->exponent : 0;
    if (fraction_most(r) != (uint32_t)-last)
        return false;
    *n = 0;
    if (d->negative)
        out[(*n)++] = '-';
    for (int32_t power = top; power-- > last;) {
        if (power == -1)
            out[(*n)++] = '.';
        out[(*n)++] = decimal_digit(d, power);
    }
    return true;
}

static lang digits(struct languages *ls, char from, uint32_t min, uint32_t max)
{
    uint64_t set[4] = {0};
    for (char c = from; c <= '9'; c++)
        set[0] |= (uint64_t)1 << c;
    return lang_repeat(ls, lang_set(ls, set), min, max);
}

static lang either(struct languages *ls, const char *a, const char *b)
{
    return lang_or(ls, lang_text(ls, a, strlen(a)), lang_text(ls, b, strlen(b)));
}

/* Any number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?, each row of digits with its limit. */
static lang any_number(struct languages *ls)
{
    lang whole = lang_concat(ls, digits(ls, '1', 1, 1), digits(ls, '0', 0, NUMBER_WHOLE - 1));
    lang fraction = lang_concat(ls, lang_text(ls, ".", 1), digits(ls, '0', 1, NUMBER_PLACES));
    lang e = lang_concat(ls, either(ls, "e", "E"), lang_repeat(ls, either(ls, "+", "-"), 0, 1));
    e = lang_concat(ls, e, digits(ls, '0', 1, NUMBER_EXPONENT));
    lang x = lang_concat(ls, either(ls, "", "-"), lang_or(ls, lang_text(ls, "0", 1), whole));
    x = lang_concat(ls, x, lang_repeat(ls, fraction, 0, 1));
    return lang_concat(ls, x, lang_repeat(ls, e, 0, 1));
}

/* r with the sides that it lacks: up to d, or to -d. */
static struct number_rule closed(const struct number_rule *r, const struct decimal *d, bool open)
{
    struct number_rule x = *r;
    if (!r->has_lo)
        x.has_lo = true, x.lo = *d, x.lo.negative = true, x.open_lo = open;
    if (!r->has_hi)
        x.has_hi = true, x.hi = *d, x.open_hi = open;
    return x;
}

/* The sides that r lacks: see numbers.h. */
static struct number_rule limited(const struct number_rule *r)
{
    static const struct decimal most = {.n = NUMBER_WHOLE, .digits = "9007199254740991"};
    struct decimal d = {.n = 1, .digits = "1", .exponent = NUMBER_WHOLE};
    struct number_rule x = closed(r, &most, false);
    if (r->has_lo && decimal_top(&r->lo) > d.exponent)
        d.exponent = decimal_top(&r->lo);
    if (r->has_hi && decimal_top(&r->hi) > d.exponent)
        d.exponent = decimal_top(&r->hi);
    while (!number_is_plain(&x) && d.exponent++ < DECIMAL_DIGITS)
        x = closed(r, &d, true);
    return x;
}

static struct decimal decimal_of(int32_t value)
{
    struct decimal d;
    char text[16];
    int n = snprintf(text, sizeof text, "%d", value);
    (void)decimal_read(text, (size_t)n, &d);
    return d;
}

/* Numbers that need an exponent. */
static lang powers_lang(struct languages *ls, const struct number_rule *r)
{
    struct number_power powers[NUMBER_POWERS_MOST];
    lang x = LANG_NONE;
    for (uint32_t n = number_powers(r, powers); n--;) {
        const struct number_power *p = &powers[n];
        const struct number_rule exponents = {.has_lo = true,
                                              .lo = decimal_of(p->first),
                                              .has_hi = true,
                                              .hi = decimal_of(p->last),
                                              .multiple_of = {1, 0}};
        lang e = lang_concat(ls, lang_text(ls, "e", 1), numbers_lang(ls, &exponents));
        lang one = lang_concat(ls, numbers_lang(ls, &p->mantissa), e);
        x = lang_or(ls, x, p->negative ? lang_concat(ls, lang_text(ls, "-", 1), one) : one);
    }
    return x;
}

lang numbers_lang(struct languages *ls, const struct number_rule *r)
{
    if (!r->has_lo && !r->has_hi && !r->n_nots && !r->multiple_of.count)
        return any_number(ls);
    if (!number_is_plain(r))
        return powers_lang(ls, r);
    const struct number_rule x = limited(r);
    struct numbers *ns = leaf_numbers(ls);
    uint32_t s = ns ? numbers_start(ns, &x) : NUMBER_FAIL;
    return s == NUMBER_DEAD ? LANG_NONE : leaf_lang(ls, LEAF_NUMBER, s);
}
