/* JSON numbers by value, on exact decimals. A rule says which values are allowed; its texts are a leaf of
 * `languages` whose states are decided by arithmetic, not by exploring: every state but NUMBER_DEAD has
 * an end.
 *
 * Texts of a rule: plain notation without exponent and without "-0", at most DECIMAL_DIGITS digits. The
 * fraction has at most as many digits as multiple_of or lo = hi has decimal places: none for integers, so
 * 1.0 is no text of theirs. Without either only DECIMAL_DIGITS limits it. Two rules are plain expressions
 * without these limits: any number (JSON's own syntax, "-0" too, but exponents of at most 2 digits: with 3,
 * readers that have doubles take it for infinity or refuse it), and any integer (digits, "-0" too). */
#ifndef LANGUAGE_NUMBERS_H
#define LANGUAGE_NUMBERS_H

#include "sample/language/decimal.h"
#include "sample/language/language.h"

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
/* No text has a value of the rule. */
bool number_is_empty(const struct number_rule *r);

/* Most rules of one value have one text: *n bytes of `out`. False: it is another rule. */
enum { NUMBER_TEXT = DECIMAL_DIGITS + 2 };
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
/* As lang_near: a state of fewer digits that has the same texts of up to n bytes, or this one. */
uint32_t numbers_near(struct numbers *ns, uint32_t state, uint32_t n);

#endif
