/* JSON numbers by value, on exact decimals. A rule says which values are allowed; its texts are a leaf of
 * `languages` whose states are decided by arithmetic, not by exploring: every state but NUMBER_DEAD has
 * an end.
 *
 * Texts of a rule: plain notation without exponent and without "-0", at most DECIMAL_DIGITS digits; where no such
 * text has a value of the rule, those of number_powers.h. The
 * fraction has at most as many digits as multiple_of or lo = hi has decimal places: none for integers, so
 * 1.0 is no text of theirs. Without either it has NUMBER_PLACES, or one more than bounds and nots have.
 *
 * A side without a bound ends at 2^53 - 1, or -(2^53 - 1): readers agree on integers up to there [RFC 8259,
 * section 6]. Where no number were left, it ends at a number of digits: one more than the other bound has, or
 * more if there is no number yet. Without an end a weak model writes digits for ever.
 *
 * The rule of every number is a plain expression: JSON's own syntax, "-0" too, with at most NUMBER_WHOLE
 * digits before the point, NUMBER_PLACES behind it and NUMBER_EXPONENT of an exponent. So each is a finite
 * double: with 3 digits of an exponent, readers take it for infinity or refuse it. */
#ifndef LANGUAGE_NUMBERS_H
#define LANGUAGE_NUMBERS_H

#include "sample/language/decimal.h"
#include "sample/language/language.h"

enum { NUMBER_WHOLE = 16, NUMBER_PLACES = 17, NUMBER_EXPONENT = 2 };
enum { NUMBER_NOTS = 8, NUMBER_NOT_MOST = 3 + NUMBER_NOTS };

/* A set of numbers. All zero: every number. */
struct number_rule {
    bool has_lo, has_hi, open_lo, open_hi; /* open: the bound itself is outside */
    struct decimal lo, hi;
    struct unit multiple_of; /* integers: 1 */
    uint32_t n_nots;
    struct unit nots[NUMBER_NOTS]; /* the value is a multiple of none; none divides another */
};

/* r = the one value d: for enum and const. */
void number_point(struct number_rule *r, const struct decimal *d);
/* out = a and b; may be one of them. False: a unit, or the list of units, grows too large: refuse. */
bool number_and(const struct number_rule *a, const struct number_rule *b, struct number_rule *out);
/* The values that are not in a, as a union of the rules out[0 .. returned - 1]; they may overlap. */
uint32_t number_not(const struct number_rule *a, struct number_rule out[NUMBER_NOT_MOST]);
/* A text without exponent has a value of the rule. */
bool number_is_plain(const struct number_rule *r);
/* No text has a value of the rule. */
bool number_is_empty(const struct number_rule *r);

/* Most rules of one value have one text: *n bytes of `out`. False: it is another rule. */
enum { NUMBER_TEXT = DECIMAL_DIGITS + 8 };
bool number_text(const struct number_rule *r, char out[NUMBER_TEXT], size_t *n);
/* The texts of a rule; LANG_NONE: no text; LANG_FAIL. */
lang numbers_lang(struct languages *ls, const struct number_rule *r);

/* ---- for leaf.c, which owns one `numbers` for a set of languages ---- */
struct numbers;
enum { NUMBER_DEAD = 0 };
#define NUMBER_FAIL UINT32_MAX                  /* no budget or no memory */
struct numbers *numbers_open(struct budget *b); /* NULL: no memory; b is borrowed until close */
void numbers_close(struct numbers *ns);         /* NULL is allowed */
/* The state before the first byte. */
uint32_t numbers_start(struct numbers *ns, const struct number_rule *r);
/* Equal futures are mostly equal states. Never called with NUMBER_DEAD or NUMBER_FAIL. */
uint32_t numbers_step(struct numbers *ns, uint32_t state, unsigned char byte);
bool numbers_accepts(const struct numbers *ns, uint32_t state);

#endif
