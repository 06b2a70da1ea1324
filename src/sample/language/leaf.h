/* The leaves of `languages`: automata given by functions, whose states are plain numbers. They are the
 * numbers of a rule (numbers.h), and of the formats those that count: times with leap seconds and host
 * names (string_formats.h). */
#ifndef LANGUAGE_LEAF_H
#define LANGUAGE_LEAF_H

#include "sample/language/language.h"

struct numbers;

/* The numbers of ls, opened at the first call; NULL: no budget or no memory. */
struct numbers *leaf_numbers(struct languages *ls);

/* What formats became, for string_formats.c: LANG_NONE where nobody asked yet. */
enum { LEAF_FORMATS = 20 };
lang *leaf_formats(struct languages *ls);

enum leaf_kind { LEAF_NUMBER, LEAF_TIME, LEAF_HOST };
/* The language of a live state; LANG_FAIL: no budget or no memory. */
lang leaf_lang(struct languages *ls, enum leaf_kind kind, uint32_t state);

#endif
