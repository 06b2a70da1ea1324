/* The regular expressions of pre-tokenizers, each a hand-written scanner found by the exact text
 * of the expression. ADDING A PATTERN: a scanner and a row of `patterns` in patterns.c, and its
 * text in tools/tern/convert/tokenizers/patterns.py. */
#ifndef TEXT_PATTERNS_H
#define TEXT_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

/* Number of the pattern written p[0..n), or -1. */
int pattern_find(const char *p, size_t n);

/* End of the match that begins exactly at text[at], or `at` when none does. text[0..n) is UTF-8;
 * at < n. Every pattern looks at most at the match and at the whitespace run that follows, so
 * scanning a text is linear. */
size_t pattern_match(int pattern, const char *text, size_t at, size_t n);
/* Whether it may match at text[at] where it did not just before; 0 < at < n. */
bool pattern_again(int pattern, const char *text, size_t at, size_t n);

#endif
