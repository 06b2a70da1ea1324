/* Regular expressions of ECMA-262 (2024) as languages of UTF-8. What is read is the syntax of the flag u,
 * and where people write more loosely what cannot mean anything else: '{', '}' and ']' for themselves,
 * escapes of any punctuation, '-' beside \w in a class. There are no flags.
 *
 * Refused by name and place: references to groups, \b and \B, look-behind, and look-ahead, except at the
 * beginning of a whole expression (`^(?!...)`). \p knows general categories, Any, ASCII and Assigned.
 *
 * Groups that nest and classes that are long need memory of the budget, not of the stack. */
#ifndef LANGUAGE_REGEX_H
#define LANGUAGE_REGEX_H

#include "sample/language/language.h"

/* whole: p[0..n) matches the whole text; else somewhere in it. LANG_FAIL: e says why (TERN_USAGE: not
 * a regular expression, or refused; TERN_LIMIT, TERN_NO_MEMORY: the budget). */
lang regex_compile(struct languages *ls, const char *p, size_t n, bool whole, struct tern_error *e);

#endif
