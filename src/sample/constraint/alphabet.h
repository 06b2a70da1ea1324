/* What a vocabulary without a token for every byte can spell. Its tokens count as far as they are whole
 * characters; so a text is always between two characters, and a next character that is a token is always
 * allowed. Constraints are restricted before they are decided:
 *   regular expressions and choices  to texts of characters that are tokens;
 *   JSON       needs the characters ' ' to '~' as tokens; any other one can be written as an escape;
 *   grammars   are refused. */
#ifndef CONSTRAINT_ALPHABET_H
#define CONSTRAINT_ALPHABET_H

#include "sample/language/language.h"
#include "sample/constraint/spelling.h"

/* a without the texts that the tokens cannot spell. LANG_FAIL: no budget or memory. */
lang alphabet_restrict(struct languages *ls, const struct spelling *s, lang a);

/* What the end tokens are spelled; LANG_NONE without any. */
lang alphabet_ends(struct languages *ls, const struct spelling *s);

/* TERN_USAGE, naming what is missing, where the tokens cannot spell every JSON text, or the trigger. */
enum tern_status alphabet_check_json(const struct spelling *s, struct tern_error *e);
enum tern_status alphabet_check_trigger(const struct spelling *s, const char *p, size_t n,
                                        struct tern_error *e);
/* Whether there is a special token of this name; `spelling` is a struct spelling. */
bool alphabet_has_special(const void *spelling, const char *name, size_t n);
/* TERN_USAGE where a byte has no token */
enum tern_status alphabet_check_bytes(const struct spelling *s, const char *what,
                                      struct tern_error *e);

#endif
